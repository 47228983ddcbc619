"""Fixtures that open sandboxes: each is closed, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import WorkerSandbox, open_sandbox
from tests.sandbox._engines import ENGINES, SMALL, Open, need_backend


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    need_backend(request.param)
    return str(request.param)


@pytest.fixture(params=["process", ENGINES[0]])
def backend(request: pytest.FixtureRequest) -> str:
    """A process or a container of Docker; podman answers the same requests (`engine`)."""
    need_backend(request.param)
    return str(request.param)


@pytest.fixture
def open_box() -> Iterator[Open]:
    boxes: list[WorkerSandbox] = []

    def opened(backend: str = "process", limits: SandboxLimits = SMALL) -> WorkerSandbox:
        boxes.append(open_sandbox(backend, run="test", limits=limits))
        return boxes[-1]

    yield opened
    for box in boxes:
        box.close()


@pytest.fixture
def box(backend: str, open_box: Open) -> WorkerSandbox:
    return open_box(backend)
