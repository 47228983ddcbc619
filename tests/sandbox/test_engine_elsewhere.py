"""A Docker engine on another machine: its socket is forwarded, or it listens on TCP."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.sandboxes import engine_status, open_sandbox
from meta_agent.sandboxes._boxes import read_output
from meta_agent.sandboxes._engine import Engine, engine
from meta_agent.sandboxes._services import unwrap_socket
from tests.sandbox._engines import need_backend

GROUPS = Path("/sys/fs/cgroup/memory")
# Passes on what comes to an address of its own, as `ssh -L` does.
FORWARD = """
import socket, sys, threading
def pass_on(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
if sys.argv[1] == "tcp":
    listener = socket.create_server(("127.0.0.1", 0))
    print("tcp://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()
    print("unix://" + sys.argv[2], flush=True)
while True:
    theirs, _ = listener.accept()
    ours = socket.socket(socket.AF_UNIX)
    ours.connect("/var/run/docker.sock")
    for ends in ((theirs, ours), (ours, theirs)):
        threading.Thread(target=pass_on, args=ends, daemon=True).start()
"""


@pytest.fixture(params=["tcp", "unix"])
def forwarded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The engine behind an address that is not its own."""
    need_backend("docker")
    argv = [sys.executable, "-c", FORWARD, request.param, str(tmp_path / "engine.sock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        monkeypatch.setenv("DOCKER_HOST", process.stdout.readline().strip())
        engine.cache_clear()
        yield
        engine("docker").api.close()
        engine.cache_clear()
        process.kill()


@pytest.mark.docker
def test_a_sandbox_of_an_engine_elsewhere_works(forwarded: None) -> None:
    with open_sandbox("docker", run="elsewhere") as sandbox:
        sandbox.write({"a": b"x" * (9 << 20)})
        assert len(sandbox.read(["a"])["a"]) == 9 << 20
        assert sandbox.exec(["sleep", "60"], timeout_sec=0.5).timed_out
        assert {"network", "host", "seccomp", "pids"} <= sandbox.fences


class Elsewhere:
    """What an engine says of a container whose process has a number of this machine's as well."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def info(self) -> dict[str, str]:
        return {"CgroupVersion": "1"}

    def inspect_container(self, _: str) -> dict[str, object]:
        return {"State": {"Pid": self._pid}}


@pytest.fixture
def bystander() -> Iterator[tuple[int, Path]]:
    """A process of this machine in a control group of its own, and that group's limit."""
    if not (GROUPS / "tasks").exists() or os.geteuid():
        pytest.skip("only root on version 1 of control groups could set such a limit")
    group = GROUPS / f"bystander-{os.getpid()}"
    group.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (group / "tasks").write_text(str(process.pid))
        yield process.pid, group / "memory.kmem.tcp.limit_in_bytes"
        process.kill()
    while group.exists():  # the kernel takes a moment to let the last process go
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.05)


def test_no_limit_is_set_for_a_process_of_this_machine(bystander: tuple[int, Path]) -> None:
    pid, limit = bystander
    before = limit.read_text()
    elsewhere = Engine("docker")
    elsewhere.__dict__["api"] = Elsewhere(pid)
    assert not elsewhere.bound_tcp("c0ffee" * 10, 256)
    assert limit.read_text() == before


def test_ssh_says_how_to_forward_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@machine")
    engine.cache_clear()
    status = engine_status()
    engine.cache_clear()
    assert "ssh://me@machine" in status.problem
    assert "ssh -fNL" in status.hint


def test_tls_says_how_to_forward_the_socket() -> None:
    import ssl

    ours, theirs = socket.socketpair()
    with (
        theirs,
        ssl.create_default_context().wrap_socket(
            ours, do_handshake_on_connect=False, server_hostname="machine"
        ) as wrapped,
        pytest.raises(SandboxError, match="behind TLS") as caught,
    ):
        unwrap_socket(wrapped)
    assert "ssh -fNL" in str(caught.value.hint)


def test_output_that_comes_with_the_header_of_the_reply_is_kept() -> None:
    """A busy engine sends a short command's whole output in one packet with the header."""
    import docker

    header = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
    frames = b"\x01\0\0\0\0\0\0\x05/tmp\n" + b"\x02\0\0\0\0\0\0\x04oops"

    def answer(listener: socket.socket) -> None:
        theirs, _ = listener.accept()
        with theirs, theirs.makefile("rb") as request:
            request.readline()
            length = http.client.parse_headers(request)["Content-Length"]
            request.read(int(length))  # closing with a part unread would reset the connection
            theirs.sendall(header + frames)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine_thread = threading.Thread(target=answer, args=(listener,))
        engine_thread.start()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.closing(docker.APIClient(base_url=address, version="1.43")) as client:
            output, is_late = read_output(client.exec_start("e" * 64, socket=True), 10.0, 1 << 10)
        engine_thread.join()
    assert (bytes(output[1]), bytes(output[2]), is_late) == (b"/tmp\n", b"oops", False)
