"""How much a run measures: sizes that follow from the profile, declared before anything is seen.

The default fits 2 cores: a table in ARCHITECTURE.md says where its seconds go.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from meta_agent.config import RunConfig
from meta_agent.gate import ErrorBudget
from meta_agent.protocols import JSON


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one run."""

    steps: int
    """Optimiser steps of a full training arm."""
    looks: tuple[int, ...]
    """Training seeds behind each look at a finalist, ascending.

    Seed 0 ranks candidates and is the promoted checkpoint; the looks use seeds 1 and up, so that
    the luck which made a finalist does not count again for it.
    """
    finalists: int
    """Candidates per generation that go on to the confirm split."""
    search: int
    """Tasks of the search split used for evidence and screening."""
    confirm: int
    vault: int
    alpha: float
    """Chance of one false promotion in the whole run."""
    min_effect: float
    """A promotion's lower bound has to be above this (a share, not points)."""
    generations: int

    @property
    def budget(self) -> ErrorBudget:
        """The error budget over every finalist and look of the run."""
        candidates = self.generations * self.finalists
        return ErrorBudget(self.alpha, candidates=candidates, looks=len(self.looks))

    def to_json(self) -> dict[str, JSON]:
        """The plan as a run stores it."""
        return {**asdict(self), "looks": list(self.looks)}


def plan_for(config: RunConfig) -> Plan:
    """The plan of a profile."""
    tiny = config.profile == "tiny"
    return Plan(
        steps=config.train_steps,
        looks=(2,) if tiny else (4, 6),
        finalists=1,
        search=64 if tiny else 512,
        confirm=96 if tiny else 512,
        vault=96 if tiny else 512,
        alpha=0.05,
        min_effect=0.0,
        generations=config.generations,
    )
