"""What a run shows to people (`Display`), and what it asks them (`DecisionView`).

A decision is a step of kind `decision` in the ledger. While nobody has made it, the step has no
outcome, and its intent holds the question. Steps of older versions are read as far as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

from meta_agent.core.ledger import Step
from meta_agent.core.protocols import JSON, Verdict

Answer = Literal["APPROVE", "REVISE", "ABORT"]
Gate = Literal["diagnosis", "test", "backtest", "merge", "stuck"]

A_PERSON: Final = "a person"  # no names: the ledger travels further than its author may like

_ASKS: Final[Mapping[str, str]] = {
    "diagnosis": "its evidence is read: may ideas be asked for?",
    "test": "may it be tested?",
    "backtest": "its replay is done: may it be trained?",
    "merge": "may it be merged?",
    "stuck": "nothing has been better lately: go on?",
}


class PersonReply(NamedTuple):
    """A person's decision on a question of the run, with optional feedback."""

    answer: Answer
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class DecisionView:
    """One decision of a run that a person makes: the question, and the answer if there is one."""

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
        """Returns the decision that a step of the ledger (the run's record) asks a person for."""
        intent: Mapping[str, Any] = step.intent if isinstance(step.intent, dict) else {}
        reply = step.fields
        verdict = intent.get("verdict")
        return cls(
            key=step.key,
            gate=str(intent.get("gate", "")),
            subject=str(intent.get("subject", "")),
            candidate=intent.get("candidate"),
            answer=str(reply.get("answer") or "?") if step.is_done else None,
            feedback=str(reply.get("feedback") or ""),
            by=str(reply.get("by") or ""),
            at=step.finished_at,
            verdict=verdict if isinstance(verdict, dict) else None,
            failed=tuple(str(candidate_id) for candidate_id in intent.get("failed") or ()),
        )

    @property
    def waits(self) -> bool:
        """Returns True if no person has answered the question yet."""
        return self.answer is None

    @property
    def asks(self) -> str:
        """Returns the question to the person in words."""
        return f"{self.subject}: {_ASKS.get(self.gate, self.gate)}"

    @property
    def answer_sentence(self) -> str:
        """Returns the person's decision in words, such as `a person: APPROVE (test)`."""
        feedback = f": {self.feedback}" if self.feedback else ""
        return f"{self.by or A_PERSON}: {self.answer or 'not decided yet'} ({self.gate}){feedback}"

    def to_json(self) -> dict[str, JSON]:
        return {
            "subject": self.subject,
            "gate": self.gate,
            "candidate": self.candidate,
            "answer": self.answer,
            "feedback": self.feedback,
            "by": self.by or None,
        }


class Standing(NamedTuple):
    """Where a run stands, in words."""

    share: float | None = None
    """The share of the planned attempts that is done; None if no plan is recorded."""
    progress: str = ""
    so_far: str = ""
    spent: str = ""


class Display(Protocol):
    """Shows people the progress of a run. Any thread may call it."""

    def begin(self, headline: Sequence[str]) -> None:
        """Shows what is about to run, one fact a line: tasks, policy, meta-agent and API keys."""
        ...

    def stand(self, standing: Standing) -> None:
        """Shows where the run stands. `phase`, which follows, repeats the progress in words."""
        ...

    def phase(
        self, name: str, detail: str = "", *, done: int | None = None, total: int | None = None
    ) -> None:
        """Shows the phase of the run, such as `train`, a detail, and `done` of `total` parts."""
        ...

    def note(self, text: str) -> None:
        """Shows a line of text about the run."""
        ...

    def metric(self, series: str, step: int, values: Mapping[str, float]) -> None:
        """Shows the numbers (`values`) at one step of the training that `series` names."""
        ...

    def verdict(self, candidate: str, factor: str, verdict: Verdict, statement: str = "") -> None:
        """Shows the verdict on a candidate, and what the candidate claims (`statement`)."""
        ...

    def waits(self, question: str) -> None:
        """Shows the question to a person that the run waits for."""
        ...

    def close(self) -> None:
        """Ends the display and restores the terminal. It can be called twice."""
        ...
