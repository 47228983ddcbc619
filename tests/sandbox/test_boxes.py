"""A task's own container: the fences that it shares with sandboxes, and what its tasks may do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import ExecResult
from meta_agent.sandboxes import _engine
from meta_agent.sandboxes._boxes import Box, BoxLimits, task_image
from meta_agent.sandboxes._names import BASE_IMAGE
from tests.sandbox import _conformance
from tests.sandbox._engines import on_engines, status
from tests.sandbox.attacks._check import LIMITS, Check
from tests.sandbox.attacks._programs import BREACH, program

SHARED = {"seccomp", "network", "memory"}
CHECKS = [check for check in _conformance.checks() if check.promise in SHARED]
BY_NAME = {"mounting", "making a device node", "reaching a container engine's socket"}
CHECKS += [check for check in _conformance.checks() if check.name in BY_NAME]
# What a task's programs may need, and a careless list of system calls would refuse.
USUAL = {
    "a debugger": "assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
    "processes and threads": """
import concurrent.futures as pools
for kind in (pools.ThreadPoolExecutor, pools.ProcessPoolExecutor):
    with kind(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
""",
    "a server": """
import asyncio
async def served():
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
asyncio.run(served())
""",
    "files": """
import mmap, sqlite3, tempfile, shutil
with tempfile.TemporaryDirectory() as folder:
    base = sqlite3.connect(f"{folder}/a.db")
    base.execute("create table t (a)")
    base.close()
    shutil.copytree(folder, f"{folder}/b")
    with open(f"{folder}/a.db", "r+b") as file:
        mmap.mmap(file.fileno(), 0).close()
    os.chown(folder, 12, 12)
    os.sendfile(os.memfd_create("x"), os.open(f"{folder}/a.db", 0), 0, 10)
""",
    "becoming another user": "os.setgroups([]); os.setresgid(12, 12, 12); os.setresuid(12, 12, 12)",
}


class InBox:
    """A box behind the call of a sandbox that attacks make."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self.close = box.close

    def exec(self, argv: Sequence[str], *, timeout_sec: float = 60.0, **_: Any) -> ExecResult:
        command = f"mkdir -p /attack && cd /attack && {shlex.join(argv)}"
        return self._box.exec(command, timeout_sec=timeout_sec)


@pytest.fixture(scope="module")
def image(engine: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As the images of tasks mostly are: root."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(f"FROM {BASE_IMAGE}\nUSER 0\n", encoding="utf-8")
    return task_image(None, folder, engine=engine)


@pytest.fixture(scope="module")
def rooms(image: str, engine: str) -> Iterator[_conformance.Rooms]:
    limits = BoxLimits(memory_mb=LIMITS.memory_mb, pids=LIMITS.pids, deadline_sec=300)
    factory: Any = lambda _: InBox(Box(image, "test", limits, engine=engine))  # noqa: E731
    with contextlib.closing(_conformance.Rooms(factory)) as made:
        yield made


@on_engines(CHECKS)
def test_a_box_holds(check: Check, rooms: _conformance.Rooms, engine: str) -> None:
    if check.promise in status(engine).unbounded:
        pytest.skip(f"{engine} has no control group to bound {check.promise!r} by here")
    result = rooms.run(check)
    assert (result.status, result.detail) == ("passed", "")


def test_what_tasks_need_works(image: str, engine: str) -> None:
    limits = BoxLimits(memory_mb=LIMITS.memory_mb, pids=LIMITS.pids, deadline_sec=120)
    with contextlib.closing(InBox(Box(image, "test", limits, engine=engine))) as box:
        for name, body in USUAL.items():
            done = box.exec(["python3", "-c", program(body)])
            assert done.exit_code == BREACH, (name, done.stderr + done.stdout)


def test_files_travel_and_what_was_left_is_kept(image: str, engine: str) -> None:
    """What grading relies on: a verifier's box is of a snapshot of the agent's."""
    limits = BoxLimits(memory_mb=LIMITS.memory_mb, deadline_sec=120)
    with contextlib.closing(Box(image, "test", limits, engine=engine)) as box:
        box.put({"a/run": (b"#!/bin/sh\necho found\n", 0o755)}, "/job")
        assert box.get("/job/a/run", 100) == b"#!/bin/sh\necho found\n"
        assert box.get("/job/a", 100) is None and box.get("/job/b", 100) is None
        with pytest.raises(SandboxError):
            box.get("/job/a/run", 10)
        assert box.exec("/job/a/run > /job/said", timeout_sec=60).exit_code == 0
        late = box.exec("sleep 60", timeout_sec=1)
        assert (late.exit_code, late.timed_out) == (137, True)
        with (
            box.snapshot() as left,
            contextlib.closing(Box(left, "test", limits, engine=engine)) as other,
        ):
            assert other.get("/job/said", 100) == b"found\n"
        assert _engine.engine(engine).find_image(left) is None
