"""A solver of the kind that hands in its first idea unless it is told to look at it again.

It finds the place, and its first edit is right in `first_right` of the cases. Where the system
prompt tells it to run something before it submits, or where the scaffold does not take an
unchecked hand-in, it runs a check, reads what came out, and mends the edit if it was wrong (in
`mends` of the cases). Nothing else in a prompt moves it, but every other wording, task and sample
draws other luck, as with a real model.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.acceptance.brains._answers import Fix
from tests.loopback import Call, Say
from tests.loopback._speech import text_of

CHECKED = re.compile(r"\bbefore\b[^.]*\bsubmit[^.]*\b(run|check|reproduce)\b", re.IGNORECASE)
CHECKED_TOO = re.compile(r"\b(run|check|reproduce)\b[^.]*\bbefore\b[^.]*\bsubmit", re.IGNORECASE)
_HOLDS, _FAILS = "the example gives what was expected", "the example still goes wrong"
_CHECK = (
    "import sys; text = open(sys.argv[1]).read(); print(sys.argv[3 + (sys.argv[2] not in text)])"
)
_TRIES = 3


class Step(NamedTuple):
    """One call of the conversation so far, and what it gave."""

    tool: str
    result: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Solver:
    """The brain of a policy server."""

    fixes: Sequence[Fix]
    first_right: float = 0.35
    mends: float = 0.9

    def __call__(self, call: Call) -> Say:
        fix = self._asked(call)
        return self.spoken(call, *self._next(call, fix, self.steps(call.messages)))

    def steps(self, messages: Sequence[Mapping[str, Any]]) -> list[Step]:
        """The calls of the conversation with what they gave."""
        results = {
            m["tool_call_id"]: text_of(m["content"]) for m in messages if m["role"] == "tool"
        }
        return [
            Step(
                call["function"]["name"],
                results.get(call["id"], ""),
                json.loads(call["function"]["arguments"]),
            )
            for message in messages
            for call in message.get("tool_calls") or ()
        ]

    def told_to_check(self, call: Call) -> bool:
        """Whether the system prompt demands a check before the work is handed in."""
        return self.demands_a_check("\n".join(_system(call)))

    @staticmethod
    def demands_a_check(text: str) -> bool:
        """Whether a sentence of it does."""
        return bool(CHECKED.search(text) or CHECKED_TOO.search(text))

    def spoken(self, call: Call, tool: str, arguments: dict[str, Any]) -> Say:
        """A native call."""
        assert tool in call.tool_names, f"{tool} is not on offer: {call.tool_names}"
        return Say(f"Next: {tool}.", tool_calls=[(tool, arguments)])

    def _asked(self, call: Call) -> Fix:
        text = "\n".join(text_of(m.get("content")) for m in call.messages if m["role"] == "user")
        return next(fix for fix in self.fixes if fix.issue.strip() in text)

    def _next(self, call: Call, fix: Fix, done: list[Step]) -> tuple[str, dict[str, Any]]:
        if not done:
            folder = fix.file.partition("/")[0]
            return "search", {"pattern": _subject(fix.issue), "path": folder}
        last = done[-1]
        edits = sum(step.tool == "edit" for step in done)
        if last.tool == "search":
            return self._edit(call, fix, right=_luck(call, fix, edits) < self.first_right)
        if last.tool == "run" and _FAILS in last.result and edits < _TRIES:
            return self._edit(call, fix, right=_luck(call, fix, edits) < self.mends)
        if last.tool == "submit" or (last.tool == "edit" and self.told_to_check(call)):
            return "run", {"command": shlex.join(["python3", "-c", _CHECK, *_expected(fix)])}
        return "submit", {}

    def _edit(self, call: Call, fix: Fix, *, right: bool) -> tuple[str, dict[str, Any]]:
        new = fix.new if right else f"# a closer look at {_luck(call, fix, 9):.4f}\n{fix.old}"
        return "edit", {"path": fix.file, "old": fix.old, "new": new}


def _system(call: Call) -> list[str]:
    return [text_of(m["content"]) for m in call.messages if m["role"] == "system"]


def _expected(fix: Fix) -> list[str]:
    return [fix.file, fix.new, _HOLDS, _FAILS]


def _subject(issue: str) -> str:
    found = re.search(r"`(\w+)", issue)
    return f"def {found[1]}" if found else "def "


def _luck(call: Call, fix: Fix, edits: int) -> float:
    """In [0, 1), by wording, task, sample and try."""
    drawn = json.dumps([_system(call), fix.name, call.raw.get("seed"), edits])
    return int.from_bytes(hashlib.sha256(drawn.encode()).digest()[:6]) / 256**6
