"""A rule: an edit that experience suggests when the evidence looks a certain way.

A rule returns a `Diagnosis` or None. A diagnosis holds a strength between 0 and 1 (the share of the
failures that the change could explain), a hypothesis that can fail, and the edit as whole new
texts. A rule reads its `Case` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from meta_agent.core.protocols import Factor, Hypothesis
from meta_agent.proposers.rules._case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a rule suggests: an edit with its reason, its strength, and the change it predicts."""

    strength: float
    change: str
    effect: str
    because: str
    delta: float  # of the metric, as expected
    edits: Mapping[str, str]
    evidence: tuple[str, ...]
    risk: str
    metric: str = "clean_success"
    direction: Literal["up", "down"] | None = None
    """Where the metric should move. None: the sign of `delta` says it."""

    def hypothesis(self, rule: Rule) -> Hypothesis:
        return Hypothesis(
            factor=rule.factor,
            statement=f"if {self.change} then {self.effect} because {self.because}",
            metric=self.metric,
            direction=self.direction or ("up" if self.delta >= 0 else "down"),
            expected_delta=self.delta,
            risks=(self.risk,),
            evidence=self.evidence,
            rule=rule.name,
        )


class Rule(NamedTuple):
    """A named function that suggests an edit of one factor if the evidence calls for it.

    A factor is a group of harness files. `repairs` marks rules that restore a valid score.
    """

    name: str
    factor: Factor
    repairs: bool
    diagnose: Callable[[Case], Diagnosis | None]


def rule(
    name: str, factor: Factor, *, repairs: bool = False
) -> Callable[[Callable[[Case], Diagnosis | None]], Rule]:
    """Returns a decorator that makes a `Rule` named `name` of a function that suggests edits."""
    return lambda diagnose: Rule(name, factor, repairs, diagnose)


def clamp(strength: float) -> float:
    """Returns a suggestion's strength, limited to the range from 0 to 1."""
    return max(0.0, min(1.0, strength))
