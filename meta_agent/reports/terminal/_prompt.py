"""A question to the person at the terminal, and the answer.

What was typed before the question appeared is thrown away: nobody approves by typing ahead. Only a
whole word or its letter counts; an empty line asks again. The wait looks up five times a second,
so that Ctrl-C (which only asks the run to stop) ends it.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final

from rich.console import Console

from meta_agent.core.display import Question, Reply
from meta_agent.reports.state import reduce
from meta_agent.reports.terminal import asked

_LOOK_UP_SEC: Final = 0.2
_LONGEST_LINE: Final = 4096
_CHOICES: Final = "[a]pprove  [r]evise  a[b]ort the run  [d]iff: "
_WORDS: Final = {
    word: choice
    for choice in ("approve", "revise", "abort", "diff")
    for word in (choice, {"abort": "b"}.get(choice, choice[0]))
}


def person_at(stream: IO[str]) -> bool:
    """Returns True if a person can read `stream` and type an answer."""
    try:
        return stream.isatty() and os.isatty(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):  # stdin is closed, or no file
        return False


def prompt(question: Question, stream: IO[str], stopping: Callable[[], bool]) -> Reply | None:
    """Asks a person for a decision on a terminal until there is an answer.

    Returns None if the input ends or `stopping` returns True.
    """
    console = Console(file=stream, highlight=False)
    state = reduce(question.ledger, question.run)
    console.print(asked.question(state, question.decision))
    terminal = sys.stdin.fileno()
    with suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)
    while (line := _ask(stream, _CHOICES, terminal, stopping)) is not None:
        choice = _WORDS.get(line.strip().lower())
        if choice == "approve":
            return Reply("APPROVE")
        if choice == "diff":
            console.print(asked.question_diff(state, question.decision))
        elif choice:
            return _with_reason(choice, stream, terminal, stopping)
    return None


def _with_reason(
    choice: str, stream: IO[str], terminal: int, stopping: Callable[[], bool]
) -> Reply | None:
    """Asks for the reason. A revision needs one; an abort may have none."""
    if choice == "abort":
        reason = _ask(stream, "why (may be empty): ", terminal, stopping)
        return None if reason is None else Reply("ABORT", reason.strip())
    while (reason := _ask(stream, "what should change: ", terminal, stopping)) is not None:
        if reason.strip():
            return Reply("REVISE", reason.strip())
    return None


def _ask(stream: IO[str], words: str, terminal: int, stopping: Callable[[], bool]) -> str | None:
    stream.write(words)
    stream.flush()
    return _read_line(terminal, stopping)


def _read_line(terminal: int, stopping: Callable[[], bool]) -> str | None:
    """Returns one line, or None at the end of input or when the run is to stop."""
    line = b""
    while not line.endswith(b"\n"):
        if stopping():
            return None
        if not select.select([terminal], [], [], _LOOK_UP_SEC)[0]:
            continue
        got = os.read(terminal, _LONGEST_LINE)
        if not got:
            return None
        line += got
    return line.decode("utf-8", "replace")
