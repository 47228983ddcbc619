"""The seam between a run and how it searches, and the records that pass through it.

Everything else (sandboxes, commits, measuring, the journal) is the same for every strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from meta_agent.backtest.live import Trained
from meta_agent.protocols import Candidate
from meta_agent.steps.run import Run, Version
from meta_agent.steps.verbs.collect import Collected, Reading

Standing = Literal["proven", "unproven", "start"]


class Read(NamedTuple):
    """What a generation started from."""

    collected: Collected
    reading: Reading


class Found(NamedTuple):
    """What a search ended with, measured on the search split and proven nowhere yet."""

    version: Version
    candidates: tuple[Candidate, ...]
    """Those in it, in the order in which they were merged."""
    read: Mapping[int, Read]
    """By generation, what it was written from."""

    @property
    def acting(self) -> bool:
        """Whether anything in it changes what is done: what only watches has its own verdict."""
        return any(one.factor != "diagnostics" for one in self.candidates)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def last(self) -> Candidate | None:
        """The newest member."""
        return self.candidates[-1] if self.candidates else None


class HandedOver(NamedTuple):
    """What a run gives to its owner."""

    version: Version
    trained: Trained | None
    """Its weights; None: those of training seed 0."""
    standing: Standing
    words: str = ""
    """In a sentence: what is known of it."""


class Strategy(Protocol):
    """A way to search: from the first version to what is handed over."""

    def carry_out(self, run: Run, first: Version) -> HandedOver: ...
