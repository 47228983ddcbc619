"""A run in progress: its settings, its stores and its clients, for every step of the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from meta_agent.core.chat import ModelClient
from meta_agent.core.config import RunConfig
from meta_agent.core.display import Display
from meta_agent.core.errors import Interrupted
from meta_agent.core.history import HarnessRepo, standard_trailers
from meta_agent.core.lab.live import Lab
from meta_agent.core.ledger import DONE, Ledger
from meta_agent.core.ledger.kinds import StepKind
from meta_agent.core.loop.extensions import Extensions
from meta_agent.core.loop.plan import Plan
from meta_agent.core.protocols import JSON, Factor, Hypothesis
from meta_agent.core.skills import SkillLibrary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What a strategy tells the authors of edits: how it searches, and what they may edit."""

    words: str
    """How a parent is chosen, in one sentence for the authors of edits."""
    factors: tuple[Factor, ...] = ()
    """The factors that the next author may edit. Empty: all that the plan allows."""


@dataclass(slots=True)
class Run:
    """The settings, stores and clients of a run. Its ledger keys begin with `id`."""

    id: str
    config: RunConfig
    plan: Plan
    ledger: Ledger
    repo: HarnessRepo
    lab: Lab
    skills: SkillLibrary
    display: Display
    clock: int
    """Start of the run in seconds since the epoch. Commit dates derive from it."""
    stopping: Callable[[], bool]
    extensions: Extensions
    models: ModelClient | None = None
    """The client for all language model calls. None if the run makes none."""
    terms: SearchTerms | None = None
    """None if ideas are tried in bundles, in a race or by `score-only`."""
    grants: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By generation: the attempts that were made before it, and those that its authors may use."""
    stage_factors: tuple[Factor, ...] = ()
    """The factors that the present stage of a run may edit. Empty: all that the plan allows."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Returns the factors (groups of harness files) that the authors of edits may change."""
        return (self.terms and self.terms.factors) or self.stage_factors or self.plan.factors

    def once(
        self, name: str, kind: StepKind, intent: Mapping[str, object], work: Callable[[], T]
    ) -> T:
        """Does `work` once, as ledger step `name`, and returns its outcome.

        A later call returns the recorded outcome. Raises Interrupted if the run was asked to stop.
        """
        if self.stopping():
            raise Interrupted
        key = name if name.startswith(f"{self.id}/") else f"{self.id}/{name}"
        return self.ledger.once(key, kind, intent, work)

    def once_with_trials(
        self,
        name: str,
        kind: StepKind,
        intent: Mapping[str, object],
        work: Callable[[], Mapping[str, JSON]],
    ) -> dict[str, JSON]:
        """Does `work` once, as `once` does, and counts the attempts that its measurements made.

        Their keys are recorded as `measured`, so a resumed run counts them without the work.
        """

        def measure() -> dict[str, JSON]:
            before = self.lab.budget.keys
            outcome = work()
            return {**outcome, "measured": sorted(self.lab.budget.keys - before)}

        outcome = self.once(name, kind, intent, measure)
        self.lab.recount(outcome["measured"])
        return outcome

    def phase(self, name: str, detail: str) -> None:
        """Shows which phase the run is in, and records it as an event."""
        self.display.phase(name, detail)

    def note(self, text: str) -> None:
        """Shows one line to the user, and records it as an event."""
        self.display.note(text)

    @property
    def finished(self) -> bool:
        """Returns True if the ledger records this run as done, so that nothing more is written."""
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
        """Returns what writes the edits: a model (a replay's recorded one), or `rules`."""
        return self.extensions.proposer.author

    def date(self, generation: int, index: int) -> int:
        """Returns a fixed date for commit `index` of a generation, in seconds since the epoch."""
        return self.clock + generation * 1000 + index
