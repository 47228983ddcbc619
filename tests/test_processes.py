"""Other programs and what they see: real processes, whose environment the kernel shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.history import HarnessRepo
from meta_agent.domains.graded._workers import Workers
from meta_agent.llm_clients.keys import KEY_VARIABLES
from meta_agent.policies.served._server_process import ServerProcess
from meta_agent.policies.training._spawn import ChildProcess
from meta_agent.sandboxes._derive import _FOR_PIP
from meta_agent.sandboxes._process import fork_server, start_service, stream_lines

CANARY = "canary-of-this-test"
OTHERS = ("DATABASE_URL", "AWS_PROFILE", "VLLM_API_KEY", "NCCL_TOKEN", "PIP_PASSWORD", "ZZZ")


def environment_of(pid: int) -> str:
    shown = Path(f"/proc/{pid}/environ")
    for _ in range(
        1000
    ):  # the kernel shows nothing until a program that just started has its stack
        if text := shown.read_text(errors="replace"):
            return text
        time.sleep(0.01)
    return ""


def of_a_grader(tmp_path: Path) -> str:
    (tmp_path / "grader.py").write_text("def grade(task, answer):\n    return True\n")
    workers = Workers({"path": str(tmp_path / "grader.py")})
    try:
        with workers.leased() as worker:
            return environment_of(worker._process.pid)
    finally:
        workers.close()


def of_a_policy_child(tmp_path: Path) -> str:
    child = ChildProcess(1)
    try:
        return environment_of(child.pid)
    finally:
        child.kill()
        child.close()


def of_a_model_server(tmp_path: Path) -> str:
    waits = "import time; time.sleep(60)"  # a program that has ended shows no environment
    server = ServerProcess([sys.executable, "-c", waits], {}, tmp_path / "log")
    try:
        return environment_of(server.pid)
    finally:
        server.close()


def of_git_that_reads_objects(tmp_path: Path) -> str:
    repo = HarnessRepo.create(tmp_path / "repo", {"harness.toml": b"[harness]\n"}, "feat: start")
    with repo._git.reader() as objects:
        objects.commit(repo.head())
        return environment_of(objects.git.cat_file_header.proc.pid)


def of_a_git_command(tmp_path: Path) -> str:
    repo = HarnessRepo.create(tmp_path / "repo", {"harness.toml": b"[harness]\n"}, "feat: start")
    shown = repo._git.run("-c", "alias.shown=!env", "shown").stdout
    return shown.decode().replace("\n", "\0")


def of_the_fork_server(tmp_path: Path) -> str:
    fork_server().close()
    return environment_of(fork_server().process.pid)


def of_pip(tmp_path: Path) -> str:
    return "\0".join(stream_lines(["env"], _FOR_PIP))


def of_a_service(tmp_path: Path) -> str:
    service: Any = start_service(["env", "-0"], tmp_path / "log")
    service.wait()
    return (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    "program",
    [
        of_a_grader,
        pytest.param(of_a_policy_child, marks=pytest.mark.train),
        of_a_model_server,
        of_git_that_reads_objects,
        of_a_git_command,
        of_the_fork_server,
        of_pip,
        of_a_service,
    ],
)
def test_no_key_reaches_another_program(
    program: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEY_VARIABLES, *OTHERS):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("ALL_PROXY", f"http://me:{CANARY}@localhost:1")
    shown = program(tmp_path)
    assert "PATH=" in shown
    assert CANARY not in shown


def test_an_address_of_a_proxy_without_a_login_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://localhost:1")
    assert "https_proxy=http://localhost:1" in of_a_grader(tmp_path)
