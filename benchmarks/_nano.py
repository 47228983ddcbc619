"""What trainings of nano-swe are measured in: the competent harness, and the tasks of a split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree
from meta_agent.core.rollouts import Stamp
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.sandboxes import open_sandbox

STAMP = Stamp("bench", "v", "c0ffee")


def competent() -> AbstractContextManager[HarnessSession]:
    """The harness without a fault, in a sandbox."""
    return opened(seed_files("swe", variant="competent").files)


@contextmanager
def opened(files: Mapping[str, bytes]) -> Iterator[HarnessSession]:
    """A harness in a sandbox of its own."""
    sandbox = open_sandbox("process", run="bench")
    try:
        yield HarnessSession(sandbox, HarnessTree("c0ffee", "7ree", files))
    finally:
        sandbox.close()
