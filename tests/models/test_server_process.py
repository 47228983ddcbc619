"""A model server's process: what it inherits, and that nothing of it outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from meta_agent.policies.served._server_process import ServerProcess, runs

# Stands for a server: a child of its own, in a session of its own, and no wish to end.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
POLITE = STUBBORN.replace("signal.SIG_IGN", "lambda *_: (child.kill(), sys.exit(0))")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def pids_in(log: Path) -> list[int]:
    until(lambda: log.is_file() and len(log.read_text().split()) == 2)
    return [int(pid) for pid in log.read_text().split()]


def test_closing_ends_the_server_and_its_children(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "server.log"
    server = ServerProcess([sys.executable, "-c", POLITE], {}, log)
    pids = pids_in(log)
    server.close()
    until(lambda: all(map(gone, pids)))
    assert server.exit_code is not None
    server.close()


@pytest.mark.slow
def test_a_server_that_refuses_to_end_is_ended_with_its_strays(tmp_path: Path) -> None:
    server = ServerProcess([sys.executable, "-c", STUBBORN], {}, tmp_path / "log")
    pids = pids_in(tmp_path / "log")
    server.close()
    until(lambda: all(map(gone, pids)))


@pytest.mark.parametrize("also", ["nobody", "its children"])
def test_a_host_that_is_killed_takes_the_server_along(tmp_path: Path, also: str) -> None:
    """Ray kills the children of a worker that it ends."""
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from meta_agent.policies.served._server_process import ServerProcess\n"
        f"argv, log = [sys.executable, '-c', {POLITE!r}], Path({str(tmp_path / 'log')!r})\n"
        "ServerProcess(argv, {}, log)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as host:
        pids = pids_in(tmp_path / "log")
        killed = psutil.Process(host.pid).children() if also == "its children" else []
        for process in (*killed, host):
            process.send_signal(signal.SIGKILL)
        host.wait()
    until(lambda: all(map(gone, pids)))


def test_a_server_that_ends_by_itself_tells_its_code_and_last_words(tmp_path: Path) -> None:
    program = "import sys; print('no such model'); sys.exit(3)"
    server = ServerProcess([sys.executable, "-c", program], {}, tmp_path / "log")
    until(lambda: server.exit_code is not None)
    assert (server.exit_code, server.last_words()) == (3, "no such model")
    server.close()


def test_no_secret_of_ours_reaches_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("VLLM_API_KEY", "canary")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    program = "import os; print(sorted(n for n in os.environ if 'VLLM' in n or 'KEY' in n))"
    server = ServerProcess(
        [sys.executable, "-c", program], {"VLLM_API_KEY": "ours"}, tmp_path / "l"
    )
    until(lambda: server.exit_code is not None)
    assert server.last_words() == "['VLLM_API_KEY', 'VLLM_LOGGING_LEVEL']"
    assert "canary" not in server.last_words()
    server.close()


def test_a_program_that_is_not_there_runs_not() -> None:
    assert runs([sys.executable, "-c", ""])
    assert not runs([sys.executable, "-c", "raise SystemExit(1)"])
    assert not runs([os.devnull + "/nowhere"])
