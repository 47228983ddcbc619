"""Sandboxes for tests, on the engines that are there; a missing engine skips with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import pytest

from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import CONTAINERS, EngineStatus, WorkerSandbox, engine_status
from tests.sandbox._conformance import group_of
from tests.sandbox.attacks._check import Check

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
