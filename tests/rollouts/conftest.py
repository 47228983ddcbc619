"""What the runner's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_agent.core.harness import HarnessSession

from ._laboratory import session


@pytest.fixture(scope="module")
def lab() -> Iterator[HarnessSession]:
    """The tiny harness in a process sandbox, for a file of tests."""
    with session() as held:
        yield held
