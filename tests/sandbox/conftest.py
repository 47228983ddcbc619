"""Sandboxes for tests: each is closed whatever happens; a missing engine skips with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from tests.sandbox.attacks.check import Check
from tests.sandbox.conformance import group_of

SMALL = SandboxLimits(memory_mb=256, pids=64, scratch_mb=64, deadline_sec=120)
Open = Callable[..., WorkerSandbox]
ALWAYS = "privilege"
"""The group of attacks that podman meets in CI."""


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


def on_engines(checks: Iterable[Check]) -> pytest.MarkDecorator:
    """Each attack on each engine. On podman all run nightly, and one group of them always."""
    return pytest.mark.parametrize(
        ("engine", "check"),
        [
            pytest.param(
                name,
                check,
                marks=[pytest.mark.docker]
                + [pytest.mark.nightly] * (name == "podman" and group_of(check) != ALWAYS),
                id=f"{name}-{check.name}",
            )
            for name in CONTAINERS
            for check in checks
        ],
        indirect=["engine"],
    )


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
