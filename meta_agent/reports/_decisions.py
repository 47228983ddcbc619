"""What people decided, or are asked to decide: steps of kind `decision`, read tolerantly.

A decision that nobody has made yet is a step without an outcome; its intent says what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self

from meta_agent.core.ledger import Step
from meta_agent.core.protocols import JSON

Answer = Literal["APPROVE", "REVISE", "ABORT"]
Gate = Literal["test", "merge", "stuck"]

A_PERSON: Final = "a person"  # no names: the ledger travels further than its author may like

_ASKS: Final[Mapping[str, str]] = {
    "test": "may it be tested?",
    "merge": "may it be merged?",
    "stuck": "nothing has been promoted lately: go on?",
}


class Reply(NamedTuple):
    """What a person said."""

    answer: Answer
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class DecisionView:
    """One question to a person, with the answer where there is one."""

    key: str
    gate: str  # a `Gate`; other words from other versions are shown as they are
    subject: str  # what a person types: `g0/c1`, or `g2` for a whole generation
    candidate: str | None
    answer: str | None  # None: waits
    feedback: str = ""
    by: str = ""
    at: float | None = None
    verdict: Mapping[str, Any] | None = None  # what the gate said, where a merge is asked for
    failed: tuple[str, ...] = ()  # what has failed lately, where the loop is stuck

    @classmethod
    def parse(cls, step: Step) -> Self:
        asked: Mapping[str, Any] = step.intent if isinstance(step.intent, dict) else {}
        said = step.fields
        verdict = asked.get("verdict")
        return cls(
            key=step.key,
            gate=str(asked.get("gate", "")),
            subject=str(asked.get("subject", "")),
            candidate=asked.get("candidate"),
            answer=str(said.get("answer") or "?") if step.done else None,
            feedback=str(said.get("feedback") or ""),
            by=str(said.get("by") or ""),
            at=step.finished_at,
            verdict=verdict if isinstance(verdict, dict) else None,
            failed=tuple(str(one) for one in asked.get("failed") or ()),
        )

    @property
    def waits(self) -> bool:
        return self.answer is None

    @property
    def asks(self) -> str:
        """The question in words."""
        return f"{self.subject}: {_ASKS.get(self.gate, self.gate)}"

    @property
    def told(self) -> str:
        """The answer in words: `a person: APPROVE (test)`."""
        said = f": {self.feedback}" if self.feedback else ""
        return f"{self.by or A_PERSON}: {self.answer or 'not decided yet'} ({self.gate}){said}"

    def to_json(self) -> dict[str, JSON]:
        return {
            "subject": self.subject,
            "gate": self.gate,
            "candidate": self.candidate,
            "answer": self.answer,
            "feedback": self.feedback,
            "by": self.by or None,
        }
