"""A rule: one thing that experience says to try when the evidence looks a certain way.

It returns a `Diagnosis` or None: a strength between 0 and 1 (how much of the failure it would
explain), a falsifiable hypothesis, and the edit as whole new texts. Nothing is applied here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from meta_agent.core.protocols import Factor, Hypothesis
from meta_agent.proposers.rules._case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a rule says about a case. Parts of one sentence: if `change` then `effect`."""

    strength: float
    subject: str  # of the commit: what changes, in a few words
    change: str  # if ...
    effect: str  # then ...
    because: str
    metric: str = "clean_success"
    expected_delta: float
    direction: Literal["up", "down"] | None = None
    """Of the metric; that of `expected_delta` where none is said."""
    edits: Mapping[str, str]
    evidence: tuple[str, ...]
    risks: tuple[str, ...] = ()

    def hypothesis(self, rule: Rule) -> Hypothesis:
        return Hypothesis(
            factor=rule.factor,
            statement=f"if {self.change} then {self.effect} because {self.because}",
            metric=self.metric,
            direction=self.direction or ("up" if self.expected_delta >= 0 else "down"),
            expected_delta=self.expected_delta,
            risks=self.risks,
            evidence=self.evidence,
            rule=rule.name,
        )


class Rule(NamedTuple):
    """One idea. `repairs` marks ideas that restore validity and may come before any gain."""

    name: str
    factor: Factor
    repairs: bool
    diagnose: Callable[[Case], Diagnosis | None]


def rule(
    name: str, factor: Factor, *, repairs: bool = False
) -> Callable[[Callable[[Case], Diagnosis | None]], Rule]:
    """Makes a rule of the function below it."""
    return lambda diagnose: Rule(name, factor, repairs, diagnose)


def line(case: Case, name: str, unit: str = "") -> str:
    """A metric as a line of evidence."""
    found = case.find(name)
    return f"{name} was not measured" if found is None else f"{found[0]} is {found[1]:.3g}{unit}"


def clamp(strength: float) -> float:
    """Between nothing and certain."""
    return max(0.0, min(1.0, strength))
