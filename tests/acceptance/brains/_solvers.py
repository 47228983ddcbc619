"""Simulated policies for problems and programs: what they know is the data set's own answers.

Each is right in a share of its attempts, drawn by the wording of its system prompt, the task and
the sample, so that another wording draws other luck and no wording helps. What does help is a
scaffold that lets a reply come to its end, and one that takes the code that a reply ends in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from tests.loopback import Call, Say
from tests.loopback._speech import text_of


def luck(call: Call, name: str, purpose: str = "") -> float:
    """In [0, 1), by wording, task, sample and purpose."""
    system = [text_of(m["content"]) for m in call.messages if m["role"] == "system"]
    drawn = json.dumps([system, name, call.raw.get("seed"), purpose])
    return int.from_bytes(hashlib.sha256(drawn.encode()).digest()[:6]) / 256**6


def asked(call: Call, known: Mapping[str, str]) -> str:
    """The problem of a conversation, by the text that stands in it."""
    first = "\n".join(text_of(m["content"]) for m in call.messages if m["role"] == "user")
    return next(problem for problem in known if problem.strip() in first)


@dataclass(frozen=True)
class Mathematician:
    """Reasons at length before it boxes; some problems it calculates first, by a native call."""

    golds: Mapping[str, str]
    right: float = 1.0  # below, a wording may look better by luck, and a race take it along

    def __call__(self, call: Call) -> Say:
        problem = asked(call, self.golds)
        turn = sum(message["role"] == "assistant" for message in call.messages)
        if turn == 0 and luck(call, problem, "calculates") < 0.2:
            return Say("First the sum.", tool_calls=[("python", {"code": "print(6 * 7)"})])
        wanted = _tokens_for(problem)
        room = int(call.raw.get("max_tokens") or call.raw.get("max_completion_tokens") or 1 << 20)
        if room < wanted:
            stop = "max_tokens" if call.path.endswith("messages") else "length"
            return Say("step " * room, stop=stop, output_tokens=room)
        gold = self.golds[problem]
        answer = gold if luck(call, problem) < self.right else "-1"
        return Say(f"After some steps: \\boxed{{{answer}}}", output_tokens=wanted)


def _tokens_for(problem: str) -> int:
    """How long a problem is thought about, whoever asks and however often: 200 to 1,200 tokens."""
    return 200 + int.from_bytes(hashlib.sha256(problem.encode()).digest()[:4]) % 1000


@dataclass(frozen=True)
class Programmer:
    """Shows its first idea, finds fault with it, and ends with what it means; in text alone."""

    golds: Mapping[str, str]
    right: float = 1.0  # below, a wording may look better by luck, and a race take it along
    first_right: float = 0.0

    def __call__(self, call: Call) -> Say:
        problem = asked(call, self.golds)
        tested = any("[exit" in text_of(m["content"]) for m in call.messages[2:])
        return Say(self._said(call, problem, "submit" if tested else "test"))

    def _said(self, call: Call, problem: str, tool: str) -> str:
        draft = self._code(problem, right=luck(call, problem, "draft") < self.first_right)
        final = self._code(problem, right=luck(call, problem) < self.right)
        return (
            f"A first idea:\n```{tool}\n{draft}```\nThat forgets a case. So I mean this:\n"
            f"```{tool}\n{final}```\n"
        )

    def _code(self, problem: str, *, right: bool) -> str:
        return self.golds[problem] if right else problem + "    return None\n"
