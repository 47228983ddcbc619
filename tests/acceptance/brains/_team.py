"""A meta-agent that reads its evidence and works as asked, one brain for all four roles.

The role follows from the tools on offer. The analyst reads the report, the metrics and the prompt
in force; where few attempts check their work and the prompt does not ask for it, that is its first
hypothesis. What else it has to say is a wording that changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.loopback import Call, Say
from tests.loopback._speech import text_of

PROMPTS = "swe/prompts.py"
METRIC = "measured.verification.verified_share"
_RULE = "- There is no network and no version history.\n"
_REMEDY = (
    _RULE + "- Before you submit, run the example of the report again. If it still goes wrong, "
    "change the source and run it once more.\n"
)
_WORDS = ("You repair one bug", "You fix one bug"), ("Work in small steps", "Take small steps")
_NUMBERED = re.compile(r"^(\d+): (.+)$", re.MULTILINE)
Said = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Step:
    """One call of the conversation so far, and what it gave."""

    tool: str
    arguments: Mapping[str, Any]
    result: str


def steps(messages: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The calls of a conversation, in order."""
    results = {m["tool_call_id"]: text_of(m["content"]) for m in messages if m["role"] == "tool"}
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return [
        Step(
            call["function"]["name"],
            json.loads(call["function"]["arguments"]),
            results.get(call["id"], ""),
        )
        for call in calls
    ]


def lines(text: str) -> list[tuple[int, str]]:
    """The numbered lines of a page that a tool showed."""
    return [(int(number), line) for number, line in _NUMBERED.findall(text)]


class Team:
    """The brain of a meta-agent server."""

    def __call__(self, call: Call) -> Say:
        done = steps(call.messages)
        tool, arguments = self.role(call)(call, done)
        thinking = f"{len(done)} steps are done; what they gave says how to go on."
        return Say(f"Step {len(done)}.", tool_calls=[(tool, arguments)], thinking=thinking)

    def role(self, call: Call) -> Callable[[Call, list[Step]], Said]:
        """Who is asked, by the tools on offer."""
        roles = {
            "submit_hypotheses": self.analyst,
            "finish": self.proposer,
            "decide": self.reviewer,
            "write_skill": self.librarian,
        }
        return next(role for tool, role in roles.items() if tool in call.tool_names)

    def analyst(self, call: Call, done: list[Step]) -> Said:
        reads = [
            "evidence/report.md",
            "evidence/metrics.csv",
            PROMPTS,
            "evidence/rollouts/index.csv",
        ]
        if len(done) < len(reads):
            return "read_file", {"path": reads[len(done)], "lines": 400}
        return "submit_hypotheses", {"hypotheses": self.hypotheses(done)}

    def hypotheses(self, done: list[Step]) -> list[dict[str, Any]]:
        metrics, prompt = done[1].result, done[2].result
        line = next(((n, text) for n, text in lines(metrics) if text.startswith(METRIC)), None)
        found = []
        if line and float(line[1].split(",")[1]) < 0.6 and "Before you submit" not in prompt:
            found.append(_checks_its_work(*line))
        return [*found, _another_wording(done)]

    def proposer(self, call: Call, done: list[Step]) -> Said:
        told = text_of(call.messages[1]["content"])
        old, new = _edit_for(told, done[0].result if done else "")
        work: list[Said] = [
            ("view", {"path": PROMPTS}),
            ("shell", {"command": "git status --short; ls ../evidence; env"}),
            ("edit", {"path": PROMPTS, "old": old, "new": new}),
            ("run_contract_tests", {}),
            ("finish", {"subject": "say it in the system prompt"}),
        ]
        assert len(done) < len(work), f"not taken: {done[-1].result}"
        return work[len(done)]

    def reviewer(self, call: Call, done: list[Step]) -> Said:
        return "decide", {"approve": True, "reasons": ["it changes what the hypothesis names"]}

    def librarian(self, call: Call, done: list[Step]) -> Said:
        lesson = (
            "## Lesson\n\nSay in the system prompt what must happen before the work is handed in."
        )
        return "write_skill", {
            "description": "When a model hands in unchecked work",
            "lesson": lesson,
        }


def _checks_its_work(number: int, text: str) -> dict[str, Any]:
    return {
        "factor": "scaffold",
        "statement": "If the prompt demands a run of the report's example before submit, then more "
        "attempts solve their task, because wrong first edits are seen and mended.",
        "metric": "clean_success",
        "direction": "up",
        "expected_delta": 0.3,
        "at_risk": ["tasks that are close to the turn limit"],
        "evidence": [{"path": "evidence/metrics.csv", "line": number, "quote": text}],
        "plan": "One more rule in SYSTEM of swe/prompts.py.",
    }


def _another_wording(done: list[Step]) -> dict[str, Any]:
    number, text = next(row for row in lines(done[3].result) if row[0] == 1)
    return {
        "factor": "scaffold",
        "statement": "If the prompt is worded otherwise, then more attempts solve their task, "
        "because the model reads it with more care.",
        "metric": "clean_success",
        "direction": "up",
        "expected_delta": 0.02,
        "evidence": [{"path": "evidence/rollouts/index.csv", "line": number, "quote": text}],
        "plan": "Another wording in SYSTEM of swe/prompts.py.",
    }


def _edit_for(told: str, prompt: str) -> tuple[str, str]:
    if "wrong first edits are seen" in told:
        return _RULE, _REMEDY
    return next((pair for pair in _WORDS if pair[0] in prompt), _WORDS[0])
