"""Process sandboxes are forked from one process of ours, and share nothing but its code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.core.sandbox.inside import _jail
from meta_agent.sandboxes import WorkerSandbox
from meta_agent.sandboxes._process import fork_server


def test_where_it_is_killed_its_sandboxes_die_and_the_next_has_another(
    open_box: Callable[[], WorkerSandbox],
) -> None:
    box, before = open_box(), fork_server()
    os.kill(before.process.pid, signal.SIGKILL)
    before.process.wait()
    with pytest.raises(SandboxError, match="-9"):
        box.exec(["true"])
    assert open_box().exec(["echo", "here"]).stdout == b"here\n"
    assert fork_server() is not before


def test_it_has_nothing_of_the_hosts_environment(
    open_box: Callable[[], WorkerSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_server().close()
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-this-test")
    box = open_box()
    held = Path(f"/proc/{fork_server().process.pid}/environ").read_bytes()
    assert b"PATH=" in held and b"canary" not in held
    assert b"canary" not in box.exec(["cat", "/proc/1/environ", "/proc/self/environ"]).stdout


def test_one_that_hangs_is_ended_and_the_next_sandbox_has_another(
    open_box: Callable[[], WorkerSandbox],
) -> None:
    open_box()
    hung = fork_server()
    hung._orders.settimeout(0.2)
    os.kill(hung.process.pid, signal.SIGSTOP)
    with pytest.raises(SandboxError, match="-9"):
        open_box()
    assert open_box().exec(["true"]).exit_code == 0


def test_a_sandbox_holds_no_descriptor_of_another(open_box: Callable[[], WorkerSandbox]) -> None:
    kept, box = open_box(), open_box()
    for each in (kept, box):
        listed = each.exec(["ls", "/proc/self/fd"]).stdout.split()
        assert listed == [b"0", b"1", b"2", b"3"], "the last one reads the folder"


def test_an_order_that_no_socket_takes_is_an_error_and_ends_nothing(
    open_box: Callable[[], WorkerSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("PATH", ":".join([os.environ["PATH"], "x" * (1 << 19)]))
        with pytest.raises(SandboxError):
            open_box()
    assert open_box().exec(["true"]).exit_code == 0


def test_a_fork_of_the_host_has_its_own_and_leaves_ours(
    open_box: Callable[[], WorkerSandbox],
) -> None:
    box = open_box()
    script = (
        "import os, sys\n"
        "from meta_agent.sandboxes import open_sandbox\n"
        "box = open_sandbox('process', run='fork')\n"
        "if os.fork() == 0:\n"
        "    with open_sandbox('process', run='fork') as own: own.exec(['true'])\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "print(box.exec(['echo', 'still']).stdout.decode())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "still"
    assert box.exec(["true"]).exit_code == 0


def test_a_fence_that_failed_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine refuses for want of memory must not be left away from then on."""
    outcomes = iter([False, True])
    monkeypatch.setattr(_jail, "attempt", lambda plan, fenced: next(outcomes))
    monkeypatch.setattr(_jail, "WORKED", set())
    plan = _jail.Plan("/tmp/one", [], None)
    assert [_jail.works(plan, fenced=True) for _ in range(3)] == [False, True, True]
