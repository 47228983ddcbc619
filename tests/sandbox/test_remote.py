"""Sandboxes at a service, over Harbor's client: on this machine in place of a service.

Harbor lives in an environment of its own: META_AGENT_HARBOR_PYTHON names its interpreter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from meta_agent.core.errors import CANDIDATE_KILLS, PreflightError, SandboxError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import WorkerSandbox, choose_backend, open_sandbox
from tests.sandbox import _conformance
from tests.sandbox._engines import need_backend

pytestmark = pytest.mark.slow
PYTHON = os.environ.get("META_AGENT_HARBOR_PYTHON", "")
IMAGE = "meta-agent-base:1"
LIMITS = SandboxLimits(memory_mb=256, pids=64, deadline_sec=120)
PROMISED = {"host", "processes", "peers", "unprivileged", "capabilities", "network"}


@pytest.fixture(scope="module", autouse=True)
def need_harbor() -> None:
    if not PYTHON:
        pytest.skip("META_AGENT_HARBOR_PYTHON names no interpreter with harbor")
    if os.geteuid():
        pytest.skip("only root can run code as another user, as a service does")


def service(kind: str) -> str:
    return f"harbor:tests.sandbox._harbor_local:{kind}@{IMAGE}"


def opened(kind: str, limits: SandboxLimits = LIMITS) -> WorkerSandbox:
    return open_sandbox(service(kind), run="test", limits=limits)


@pytest.fixture(scope="module")
def on_the_host() -> Iterator[WorkerSandbox]:
    with closing(opened("OnTheHost")) as sandbox:
        yield sandbox


def test_a_command_runs_there_as_nobody_and_without_keys(
    on_the_host: WorkerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("TESTS_API_KEY", "of-the-service")
    assert on_the_host.exec(["id", "-u"]).stdout not in (b"", b"0\n")
    with closing(opened("NoLogin")) as sandbox:
        variables = sandbox.exec(["env"]).stdout
        status = sandbox.exec(["grep", "NoNewPrivs", "/proc/self/status"]).stdout
    assert b"PATH" in variables
    assert b"KEY" not in variables
    assert status.split() == [b"NoNewPrivs:", b"1"]


def test_large_files_pass_in_both_directions(on_the_host: WorkerSandbox) -> None:
    content = os.urandom(12 << 20)
    on_the_host.write({"in/a": content, "b": b""})
    assert on_the_host.read(["in/a", "b", "c"]) == {"in/a": content, "b": b""}


def test_a_command_that_hangs_is_ended_and_the_sandbox_goes_on(on_the_host: WorkerSandbox) -> None:
    assert on_the_host.exec(["sleep", "97531"], timeout_sec=0.5).timed_out
    assert on_the_host.exec(["echo", "on"]).stdout == b"on\n"
    assert not pids_of("sleep\0" + "97531\0")


def test_a_guest_calls_the_host_and_waits(on_the_host: WorkerSandbox) -> None:
    source = """
def ask(args, channel):
    channel.calls([{"kind": "model", "text": str(number)} for number in range(3)])
    answers = []
    while len(answers) < 3:
        answers += channel.wait()
    return sorted(answer["ok"] for answer in answers)
OPERATIONS = {"ask": ask}
"""
    on_the_host.install("asker", source)

    def serve(calls: list[dict[str, object]], answer: Callable[..., None]) -> None:
        for call in calls:
            answer([{"cid": call["cid"], "ok": f"answer {call['text']}"}])

    reply = on_the_host.request("ask", {}, timeout_sec=60, serve=serve)
    assert reply == ["answer 0", "answer 1", "answer 2"]


def test_a_worker_that_dies_says_its_code() -> None:
    with closing(opened("OnTheHost")) as sandbox:
        (worker,) = workers(sandbox)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(SandboxError, match="137") as caught:
            sandbox.exec(["true"])
        assert caught.value.kind == "died"


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    content = os.urandom(1 << 20)
    with closing(opened("Lossy")) as sandbox:
        sandbox.write({"a": content})
        assert sandbox.read(["a"]) == {"a": content}
        assert sandbox.exec(["cat", "a"]).stdout == content


def test_a_service_that_goes_away_is_no_fault_of_the_code_inside() -> None:
    with closing(opened("Breaks")) as sandbox:
        with pytest.raises(SandboxError, match="the service went away") as caught:
            sandbox.exec(["sh", "-c", "touch gone; sleep 60"])
        assert caught.value.kind == "engine"
        assert caught.value.kind not in CANDIDATE_KILLS


def test_a_sandbox_ends_at_its_deadline_there() -> None:
    with closing(opened("OnTheHost", SandboxLimits(deadline_sec=12))) as sandbox:
        with pytest.raises(SandboxError) as caught:
            sandbox.exec(["sleep", "86420"], timeout_sec=60)
        assert caught.value.kind in ("timeout", "died")
    assert not pids_of("sleep\0" + "86420\0")


HOST = """
import sys, time, threading
from meta_agent.sandboxes import open_sandbox
sandbox = open_sandbox(sys.argv[1], run="victim")
threading.Thread(target=lambda: sandbox.exec(["sleep", "75319"]), daemon=True).start()
print(sandbox.work_dir, flush=True)
time.sleep(300)
"""


def test_a_sandbox_is_deleted_after_a_kill_9_of_its_host() -> None:
    argv = [sys.executable, "-c", HOST, service("OnTheHost")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout
        work = Path(host.stdout.readline().strip())
        assert within(60, lambda: bool(pids_of("sleep\0" + "75319\0")))
        host.kill()
    assert within(60, lambda: not pids_of("sleep\0" + "75319\0"))
    assert within(60, lambda: not work.parent.exists())


@pytest.mark.parametrize(
    ("backend", "named"),
    [
        (service("Down"), "service.invalid"),
        (service("NoLogin"), "TESTS_API_KEY"),
        (service("Nobody"), "'Nobody'"),
        ("harbor:e3b", "'e3b'"),
        ("harbor:e2b", "E2B"),
    ],
)
def test_a_service_that_cannot_be_used_is_named_before_the_run(
    backend: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TESTS_API_KEY", raising=False)
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    with pytest.raises(PreflightError) as caught:
        choose_backend(backend, code_by_llm=False)
    assert named in str(caught.value) and "meta-agent doctor" in str(caught.value.hint)


def test_an_interpreter_without_harbor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_AGENT_HARBOR_PYTHON", sys.executable)
    with pytest.raises(PreflightError, match="'harbor'") as caught:
        choose_backend("harbor:e2b", code_by_llm=False)
    assert "harbor[e2b]" in str(caught.value.hint)


def test_code_of_a_model_is_refused_where_nothing_is_kept_apart() -> None:
    assert choose_backend(service("OnTheHost"), code_by_llm=False).name == service("OnTheHost")
    with pytest.raises(PreflightError, match="host, network, peers, processes"):
        choose_backend(service("OnTheHost"), code_by_llm=True, allow_unsafe=True)


@pytest.fixture(scope="module")
def rooms() -> Iterator[_conformance.Rooms]:
    need_backend("docker")
    with closing(_conformance.Rooms(lambda limits: opened("InDocker", limits))) as made:
        yield made


@pytest.mark.docker
@pytest.mark.parametrize("check", _conformance.checks(), ids=lambda check: check.name)
def test_containers_over_a_client_hold_what_they_promise(
    check: _conformance.Check, rooms: _conformance.Rooms
) -> None:
    result = rooms.run(check)
    if result.status == "not promised":
        assert result.promise not in PROMISED
        pytest.skip(f"a service does not promise {result.promise!r}")
    assert (result.status, result.detail) == ("passed", "")


@pytest.mark.docker
def test_code_of_a_model_runs_in_a_container_elsewhere() -> None:
    need_backend("docker")
    assert choose_backend(service("InDocker"), code_by_llm=True).name == service("InDocker")


def workers(sandbox: WorkerSandbox) -> list[int]:
    """The processes of this machine that work in the folder of this sandbox."""
    work = Path(sandbox.work_dir)
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").resolve() == work:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def pids_of(command: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text() == command:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def within(limit_sec: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + limit_sec
    while not holds() and time.monotonic() < until:
        time.sleep(0.1)
    return holds()
