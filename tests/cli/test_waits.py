"""A run that makes no progress says on every screen what it waits for: real waits of each kind."""

import html
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.ledger import Ledger, waiting
from meta_agent.core.ledger.waiting import Wait, Watch
from meta_agent.core.protocols import Answerer, Call
from meta_agent.core.workspace import init_workspace
from meta_agent.llm_clients.asking._retry import RetryPolicy
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from meta_agent.policies.training import PolicyChild, RolloutEvent, Row, TrainJob
from meta_agent.reports import reduce, state, wait_words
from meta_agent.reports.pages.html import render_html
from meta_agent.sandboxes import open_sandbox
from tests.loopback import Say, openai_server
from tests.models._clients import RUN, opened, request
from tests.training import _host

from ._command import Runner

ASKING = """
import time
def ask(args, channel):
    channel.calls([{"kind": "model"}])
    channel.wait()
    time.sleep(100)
OPERATIONS = {"ask": ask}
"""
PATIENT = RequestTimeouts(connect_sec=1, silent_sec=60, total_sec=120)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LEAST_PATIENCE_SEC", 0.3), ("BEAT_SEC", 0.05), ("LIMIT_SHARE", 0.005)):
        monkeypatch.setattr(waiting, name, seconds)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return init_workspace(tmp_path / "w", domain="swe", create_repo=lambda path: path.mkdir()).root


@contextmanager
def begun(root: Path) -> Iterator[Ledger]:
    with Ledger.open(root / "ledger.sqlite") as ledger:
        ledger.start_run(RUN, {"workspace": str(root)}, config_hash="h")
        yield ledger


@contextmanager
def in_thread(work: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Runs `work` beside the block. `end` makes it return, with an error or without."""

    def run() -> None:
        with suppress(MetaAgentError):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()


def held_up(root: Path, ledger: Ledger, meta_agent: Runner) -> dict[str, Any]:
    """Returns `no_progress` of `status --json` once there is one. Every screen names the wait."""
    reported: list[Wait] = []
    with Watch(ledger, RUN, reported.append):
        while (document := status(root, meta_agent))["no_progress"] is None:
            time.sleep(0.05)
        wait = document["no_progress"]["waits_for"]
        screens = [meta_agent(name, cwd=root).stdout for name in ("status", "report")]
        screens = [" ".join(screen.split()) for screen in screens]
        screens.append(html.unescape(render_html(reduce(ledger))))
        while not reported:
            time.sleep(0.05)
    for text in (*screens, wait_words(reported[0])):
        assert str(wait["subject"]).split("`")[0].strip() in text
    (advice,) = [part for part in document["sentences"] if part["about"] == "next"]
    assert (advice["words"], advice["command"]) == (wait["advice"], wait["command"])
    return dict(wait)


def status(root: Path, meta_agent: Runner) -> dict[str, Any]:
    return meta_agent("status", "--json", cwd=root).document


def test_a_model_server_that_does_not_answer(root: Path, meta_agent: Runner) -> None:
    over = threading.Event()

    def silent(_: Any) -> Say:
        over.wait(60)
        return Say("It is late.")

    with (
        openai_server(silent) as url,
        opened(
            root,
            meta_model="openai/any",
            base_urls={"all": url},
            timeouts=PATIENT,
            retry=RetryPolicy(attempts=1),
        ) as run,
        in_thread(lambda: run.client.chat(request("one"), conversation="c", turn=0), over.set),
    ):
        wait = held_up(root, run.ledger, meta_agent)
    assert wait["kind"] == "model" and wait["limit_sec"] == 61
    assert "analyst" in wait["subject"] and str(url) in wait["subject"]
    assert wait["command"] == "meta-agent doctor --live"


def test_a_command_in_a_sandbox_that_sleeps(root: Path, meta_agent: Runner) -> None:
    with begun(root) as ledger, open_sandbox("process", run="test") as box:
        box.exec(["true"])
        sleeping = ["sleep", "321"]
        with in_thread(lambda: box.exec(sleeping, timeout_sec=400), box.close):
            wait = held_up(root, ledger, meta_agent)
        assert wait["kind"] == "sandbox" and "`sleep 321`" in wait["subject"]
        assert "process" in wait["subject"] and wait["limit_sec"] == 445
        assert status(root, meta_agent)["no_progress"] is None


@pytest.mark.train
def test_a_training_child_that_is_stopped(root: Path, meta_agent: Runner) -> None:
    job = TrainJob(dict(_host.RECIPE), steps=2, seed=5, output=root / "checkpoints/out")
    with begun(root) as ledger, PolicyChild(threads=1) as child:
        child.load("nano")

        def stop(event: RolloutEvent) -> list[Row]:
            rows = _host.rows_of(child, event)
            os.kill(child.pid, signal.SIGSTOP)
            return rows

        with in_thread(lambda: child.train(job, stop), lambda: os.kill(child.pid, signal.SIGKILL)):
            wait = held_up(root, ledger, meta_agent)
    assert wait["kind"] == "training" and f"process {child.pid}" in wait["subject"]
    assert wait["command"].endswith(f"-p {child.pid}")


def test_who_waits_for_this_process_is_not_waited_for(root: Path) -> None:
    """A guest that has asked the host is silent until the host answers."""
    asked, answers = threading.Event(), list[Callable[[], None]]()

    def serve(calls: list[Call], answer: Answerer) -> None:
        answers.append(lambda: answer([{"cid": call["cid"], "ok": 7} for call in calls]))
        asked.set()

    def subjects() -> list[str]:
        return [wait.subject for wait in waiting.open_waits(time.time() + 9)]

    with open_sandbox("process", run="test") as box:
        box.install("asking", ASKING)
        ask = partial(box.request, "ask", {}, timeout_sec=100, serve=serve)
        with in_thread(ask, box.close):
            asked.wait()
            assert subjects() == []
            answers[0]()
            while subjects() == []:
                time.sleep(0.05)
            assert "`ask`" in subjects()[0]


def test_patience_comes_from_the_wait_itself() -> None:
    def silent(seconds: float, limit: float = 600.0) -> Wait:
        return Wait("model", "it", limit, "", "", since=0.0, moved_at=100.0 - seconds)

    def held(wait: Wait, recorded_at: float = 0.0) -> bool:
        return waiting.stalled([wait], recorded_at, 100.0) is not None

    assert held(silent(4)) and not held(silent(2)), "a share of its limit"
    assert held(silent(0.4, limit=10)) and not held(silent(0.2, limit=10)), "but not less"
    assert not held(silent(4), recorded_at=98.0)  # the run records steps meanwhile


def test_a_killed_run_says_what_it_last_waited_for(root: Path, meta_agent: Runner) -> None:
    with waiting_process(root) as process:
        while not status(root, meta_agent)["waits_for"]:
            time.sleep(0.05)
        process.kill()
        process.wait()
        document = status(root, meta_agent)
        assert document["no_progress"] is None and not document["live"]
        assert "the moon" in document["sentences"][0]["words"]
        # Another process has the ledger now and has not written yet: what lies there is not its.
        with begun(root):
            assert status(root, meta_agent)["waits_for"] == []


def test_a_stopped_process_is_told_from_a_slow_one(
    root: Path, meta_agent: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "FROZEN_SEC", 2.0)
    with waiting_process(root) as process:
        while not status(root, meta_agent)["waits_for"]:
            time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        while (held := status(root, meta_agent)["no_progress"]) is None:
            time.sleep(0.1)
        printed = meta_agent("status", cwd=root).stdout
        assert held["waits_for"] is None and str(process.pid) in printed


@contextmanager
def waiting_process(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that owns the ledger, with a run that waits for long."""
    code = f"""
import time
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.waiting import Watch, waiting
with Ledger.open({str(root / "ledger.sqlite")!r}) as ledger:
    ledger.start_run({RUN!r}, {{}}, config_hash="h")
    with Watch(ledger, {RUN!r}, print), waiting("model", "the moon", limit_sec=1e6, advice=""):
        time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as process:
        while not (root / waiting.FILE).exists():
            time.sleep(0.05)
        try:
            yield process
        finally:
            process.kill()


def test_a_damaged_file_is_no_wait(root: Path, meta_agent: Runner) -> None:
    with begun(root):
        for text in (
            "",
            "[]",
            "{",
            '{"run": 1}',
            json.dumps({"run": RUN, "pid": str(os.getpid())}),
        ):
            (root / waiting.FILE).write_text(text)
            assert status(root, meta_agent)["waits_for"] == []
