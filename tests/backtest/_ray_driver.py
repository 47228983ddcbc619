"""A driver that lives often: what `meta-agent` imports once, and a fork for each line on stdin.

A line is where that life is to be killed (`META_AGENT_CRASH_AT`); its exit status is the answer.
"""

from __future__ import annotations

import os
import sys

import git  # noqa: F401
import ray  # noqa: F401
import scipy.stats  # noqa: F401

import meta_agent.composition.evolve
import meta_agent.composition.opening  # noqa: F401
from meta_agent.cli import main


def live(point: str, told: str) -> None:
    """What `python -m meta_agent` does; its result is written to `told`."""
    os.environ["META_AGENT_CRASH_AT"] = point
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, told, os.O_CREAT | os.O_TRUNC | os.O_WRONLY),
    ):
        os.dup2(os.open(path, flags, 0o600), descriptor)
    main()


if __name__ == "__main__":
    told = sys.argv.pop(1)
    for line in sys.stdin:
        if not (life := os.fork()):
            live(line.strip(), told)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(life, 0)[1]), flush=True)
