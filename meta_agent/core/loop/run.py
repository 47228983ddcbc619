"""A run in progress: what every verb needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from meta_agent.core.chat import ModelClient
from meta_agent.core.config import RunConfig
from meta_agent.core.display import Display
from meta_agent.core.errors import Interrupted
from meta_agent.core.history import HarnessRepo, standard_trailers
from meta_agent.core.lab.live import Lab
from meta_agent.core.ledger import DONE, Ledger
from meta_agent.core.ledger.kinds import Kind
from meta_agent.core.loop.extensions import Extensions
from meta_agent.core.loop.plan import Plan
from meta_agent.core.protocols import Factor, Hypothesis
from meta_agent.core.skills import SkillLibrary

T = TypeVar("T")


@dataclass(slots=True)
class Run:
    """What every verb needs. `id` prefixes every key in the ledger."""

    id: str
    config: RunConfig
    plan: Plan
    ledger: Ledger
    repo: HarnessRepo
    lab: Lab
    skills: SkillLibrary
    display: Display
    clock: int
    """Seconds since the epoch at the run's start: commits are dated from it, not from now."""
    stopping: Callable[[], bool]
    extensions: Extensions
    models: ModelClient | None = None
    """Every model call of the run; None where it asks no model."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What a change may be about: with a frozen policy not what acts through training."""
        return self.plan.factors

    def once(self, name: str, kind: Kind, intent: Mapping[str, object], work: Callable[[], T]) -> T:
        """`Ledger.once` under this run's prefix; the place where a drain takes effect."""
        if self.stopping():
            raise Interrupted
        key = name if name.startswith(f"{self.id}/") else f"{self.id}/{name}"
        return self.ledger.once(key, kind, intent, work)

    def phase(self, name: str, detail: str) -> None:
        """Says what happens now (the display also journals it)."""
        self.display.phase(name, detail)

    def note(self, text: str) -> None:
        """A line for the reader (the display also journals it)."""
        self.display.note(text)

    @property
    def finished(self) -> bool:
        """Whether this run was recorded done before: then it is only read."""
        row = self.ledger.run(self.id)
        return row is not None and row.exit_reason == DONE

    def finish(self) -> None:
        self.ledger.finish_run(self.id, DONE)

    def trailers(self, candidate: str, hypothesis: Hypothesis) -> dict[str, str]:
        return standard_trailers(
            run=self.id,
            candidate=candidate,
            factor=hypothesis.label,
            hypothesis=hypothesis.statement,
            assisted_by=f"meta-agent:{self.author}",
        )

    @property
    def author(self) -> str:
        """The model that writes the edits; in a replay the recorded one, so that commits agree."""
        return self.extensions.proposer.author

    def date(self, generation: int, index: int) -> int:
        """A commit date that is the same when the step is repeated."""
        return self.clock + generation * 1000 + index
