"""Sandboxes for tests: each is closed whatever happens; a missing engine skips with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest

from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import (
    CONTAINERS,
    EngineStatus,
    WorkerSandbox,
    engine_status,
    open_sandbox,
)

SMALL = SandboxLimits(memory_mb=256, pids=64, scratch_mb=64, deadline_sec=120)
Open = Callable[..., WorkerSandbox]


@lru_cache
def status(engine: str) -> EngineStatus:
    return engine_status(engine)


def need_backend(backend: str) -> None:
    if backend in CONTAINERS and not status(backend).ready:
        pytest.skip(f"{backend} sandbox: {status(backend).problem} ({status(backend).hint})")


ENGINES = [pytest.param(name, marks=pytest.mark.docker) for name in CONTAINERS]


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
