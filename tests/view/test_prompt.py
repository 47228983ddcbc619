"""The question on a real terminal: a pty, a child process, keys typed after the prompt appears."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from meta_agent.core.display import DecisionView
from meta_agent.core.ledger import Ledger
from meta_agent.reports import RunState, reduce
from meta_agent.reports.terminal import asked

from .sample import HOSTILE, write_sample

ASKING = """
import json, signal, sys
from meta_agent.core.ledger import Ledger
from meta_agent.core.display import Question
from meta_agent.reports import open_display, reduce
stopped = []
signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
with Ledger.open(sys.argv[1], owner_lock=False) as ledger:
    state = reduce(ledger)
    display = open_display(live=sys.argv[2] == "live")
    try:
        reply = display.ask(Question(ledger, state.run, state.waiting[0]), lambda: bool(stopped))
    finally:
        display.close()
print(json.dumps(reply))
"""
PROMPT = b"[d]iff: "


class Terminal:
    """A child process whose stdin and stderr are a terminal that we hold."""

    def __init__(self, ledger: Path, kind: str) -> None:
        self._leader, follower = pty.openpty()
        self.seen = b""
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASKING, str(ledger), kind],
            env={**environment, "TERM": "xterm"},
            stdin=follower,
            stdout=subprocess.PIPE,
            stderr=follower,
        )
        os.close(follower)

    def wait_for(self, words: bytes) -> None:
        """Reads until the words are there; what came before them is not looked at again."""
        began = time.monotonic()
        while words not in self.seen:
            assert time.monotonic() - began < 60, self.seen
            if select.select([self._leader], [], [], 0.5)[0]:
                self.seen += os.read(self._leader, 65536)
        self.seen = self.seen.partition(words)[2]

    def type(self, words: str) -> None:
        os.write(self._leader, words.encode())

    def answer(self) -> Any:
        output, _ = self.process.communicate(timeout=60)
        return json.loads(output)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._leader)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompt") / "ledger.sqlite"
    write_sample(path, waits_for="g1/c2")
    return path


@pytest.fixture(params=["live", "lines"])
def terminal(waiting: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    opened = Terminal(waiting, request.param)
    yield opened
    opened.close()


def test_a_person_looks_at_the_diff_and_approves(terminal: Terminal) -> None:
    terminal.wait_for(b"g1/c2: may it be tested?")
    terminal.wait_for(PROMPT)
    terminal.type("d\n")
    terminal.wait_for(b"+    tested = 0.1")
    terminal.wait_for(PROMPT)
    terminal.type("Approve\n")
    assert terminal.answer() == ["APPROVE", ""]


def test_a_revision_needs_words_and_an_empty_line_is_no_answer(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("\n")
    terminal.wait_for(PROMPT)
    terminal.type("yes\n")
    terminal.wait_for(PROMPT)
    terminal.type("r\n")
    terminal.wait_for(b"what should change: ")
    terminal.type("  \n")
    terminal.wait_for(b"what should change: ")
    terminal.type("keep the old prompt\n")
    assert terminal.answer() == ["REVISE", "keep the old prompt"]


def test_an_abort_may_say_why(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("b\n")
    terminal.wait_for(b"why (may be empty): ")
    terminal.type("\n")
    assert terminal.answer() == ["ABORT", ""]


def test_what_was_typed_before_the_question_appeared_is_no_answer(terminal: Terminal) -> None:
    terminal.type("approve\n")
    terminal.wait_for(PROMPT)
    terminal.type("b\n")
    terminal.wait_for(b"why (may be empty): ")
    terminal.type("too early\n")
    assert terminal.answer() == ["ABORT", "too early"]


def test_the_end_of_input_is_no_answer(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.type("\x04")
    assert terminal.answer() is None


def test_ctrl_c_ends_the_wait_without_an_answer(terminal: Terminal) -> None:
    terminal.wait_for(PROMPT)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.answer() is None


@pytest.mark.parametrize("kind", ["live", "lines"])
def test_without_a_terminal_nobody_is_asked(waiting: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(waiting), kind],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) is None
    assert "may it be tested" not in done.stderr


# --- what the question shows ---------------------------------------------------------------------


def printed(drawing: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=140).print(drawing)
    return stream.getvalue()


@pytest.fixture
def state(waiting: Path) -> RunState:
    with Ledger.open(waiting, owner_lock=False) as ledger:
        return reduce(ledger)


def test_before_a_test_the_question_shows_idea_change_and_cost(state: RunState) -> None:
    shown = printed(asked.waiting(state))
    for part in (
        "g1/c2: may it be tested?",
        "if the recipe counts tests",
        "signal.dead_group_ratio down by 0.1",
        "swe/recipe.py",
        "$0.2387",
        "meta-agent approve g1/c2",
    ):
        assert part in shown


def test_before_a_merge_the_question_shows_the_verdict_with_its_numbers(state: RunState) -> None:
    verdict = {
        "kind": "PROMOTE",
        "reasons": ["better", HOSTILE],
        "effect": {"delta": 0.1, "ci_low": 0.04, "ci_high": 0.16, "pairs": 512},
        "evidence": {"findings": [{"code": "infra.lost", "severity": "note", "message": "two"}]},
    }
    decision = DecisionView("k", "merge", "g0/c0", "r1/g0/c0", None, verdict=verdict)
    shown = printed(asked.question(state, decision))
    for part in ("may it be merged?", "PROMOTE", "+10.0 [+4.0, +16.0]", "infra.lost: two"):
        assert part in shown
    assert "\x1b[2J" not in shown and "\u202e" not in shown
