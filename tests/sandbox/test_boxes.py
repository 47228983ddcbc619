"""A task's own container: what it takes of the machine is bounded as a sandbox's is."""

from __future__ import annotations

import shlex

import pytest

from meta_agent.protocols import ExecResult
from meta_agent.sandbox._boxes import Box, BoxLimits
from meta_agent.sandbox._engine import find_image
from meta_agent.sandbox._names import BASE_IMAGE
from tests.sandbox.attacks._programs import BREACH, HELD, program
from tests.sandbox.attacks.resources import EAT_BY_TCP
from tests.sandbox.conftest import need_backend

MEMORY_MB = 256


@pytest.mark.docker
def test_the_buffers_of_connections_count_towards_its_memory() -> None:
    need_backend("docker")
    image = find_image(BASE_IMAGE)
    assert image
    box = Box(image.id, "test", BoxLimits(memory_mb=MEMORY_MB, deadline_sec=120))
    try:
        assert _eaten(box, pairs=2, most=1 << 16).exit_code == BREACH
        assert _eaten(box, pairs=400, most=MEMORY_MB << 20).exit_code == HELD
    finally:
        box.close()


def _eaten(box: Box, *, pairs: int, most: int) -> ExecResult:
    source = program(EAT_BY_TCP.format(pairs=pairs, most=most))
    return box.exec(f"python3 -c {shlex.quote(source)}", timeout_sec=60)
