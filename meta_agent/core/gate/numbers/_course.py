"""The course of a test, declared before its first pair, and the bounds that it gives on the way.

Two ways to bound an effect:

* a *look* at a declared moment: `statistics.effect` at the look's share of alpha;
* `training_pairs`: one more training seed on either side, looked at after each. Per-seed mean
  differences go into the sequential t-test; tasks stay a level of their own. That test takes seeds
  as normal, so `Collapse` asks beside it what runs that fall to nothing would take back.

A gain is given up (`futility_high` below `Course.target`) once the bets against it are won at the
budget's futility, which can only cost wins. Units without an outcome on both sides are left out
here, and a promotion must survive their being counted against the candidate
(`statistics.worst_case`).

Not covered: deciding (`judge`), and buying (`steps.claim`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.numbers.sequential import t_wealth
from meta_agent.core.gate.numbers.statistics import Pairs, effect, upper_anytime
from meta_agent.core.protocols import JSON, Effect

COLLAPSE: Final = 0.10
"""A few good training seeds look like certainty to a test that takes them as normal. So a promotion
has to survive one run in ten falling to nothing, which no few seeds could show."""

Rule = Literal["training_pairs"]
RULES: Final = ("training_pairs",)


@dataclass(frozen=True, slots=True)
class Course:
    """What was declared: the unit, how many at most, and the effect that it is tuned to find."""

    rule: Rule
    maximum: int
    target: float
    collapse: float = COLLAPSE
    """Of training runs: this share may lose everything, and the gain has to outlast that."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(
                f"a verdict was decided by the rule {self.rule!r}; known are {', '.join(RULES)}",
                hint="recompute it with the version of meta-agent that made it",
            )
        if self.maximum < 2 or not 0 < self.target < 1:
            raise ConfigError(
                f"maximum={self.maximum}, target={self.target}: need 2 or more, and 0 < target < 1"
            )
        if not 0 <= self.collapse < 1:
            raise ConfigError(f"collapse={self.collapse}: need a share from 0 to below 1")


class Collapse(NamedTuple):
    """What a mixture of good runs and lost ones leaves of a gain.

    Of the training runs a share `rate` loses all that the baseline has (`level`), the others gain
    what the test has shown. Rates that are larger than that fit the few pairs just as well: `fits`
    is the largest at which so many without a collapse happen once in twenty.
    """

    rate: float
    level: float
    fits: float
    worst: float

    def leaves(self, low: float) -> float:
        """The lower bound of the mean, where `low` is that of runs that do not collapse."""
        return (1 - self.rate) * low - self.rate * self.level

    def needs(self, least: float) -> float:
        """The lower bound of which more than `least` is left."""
        return (least + self.rate * self.level) / (1 - self.rate)


def collapse_of(pairs: Pairs, declared: float, elsewhere: Sequence[float] = ()) -> Collapse:
    """`elsewhere` are differences of training seeds that this change has shown in other places.

    A loss of more than half of the baseline's level is a collapse. One that was seen anywhere
    raises the rate to what all that was seen says, by Laplace's rule.
    """
    shares = [*map(float, pairs.cells.mean(axis=1) if pairs.cells.size else ()), *elsewhere]
    collapsed = sum(share < -pairs.level / 2 for share in shares)
    rate = max(declared, (collapsed + 1) / (len(shares) + 2)) if collapsed else declared
    fits = 1 - 0.05 ** (1 / len(shares)) if shares else 1.0
    return Collapse(rate, pairs.level, fits, min(shares, default=0.0))


class Bounds(NamedTuple):
    """The effect with its bounds, and the numbers of the test behind them."""

    effect: Effect
    futility_high: float
    numbers: Mapping[str, JSON]


def task_order(keys: Iterable[str], salt: str) -> list[str]:
    """Tasks in an order that depends on the salt and their names alone."""
    return sorted(keys, key=lambda key: (hashlib.sha256(f"{salt}/{key}".encode()).digest(), key))


def bounds_at_look(pairs: Pairs, alpha: float, futility: float) -> Bounds:
    """At a declared moment."""
    return Bounds(effect(pairs, alpha=alpha), effect(pairs, alpha=futility).ci_high, {})


@dataclass(frozen=True, slots=True)
class Terms:
    """A course with the errors it may make."""

    course: Course
    alpha: float
    futility: float
    min_effect: float = 0.0


def bounds_under_way(pairs: Pairs, terms: Terms) -> Bounds:
    """After any number of pairs of training runs."""
    anytime = effect(pairs, alpha=terms.alpha, anytime=True)
    futile = upper_anytime(pairs, alpha=terms.futility)
    shares = pairs.cells.mean(axis=1) if pairs.cells.size else pairs.cells[:0].sum(axis=1)
    wealth = t_wealth(shares - terms.min_effect)
    against = t_wealth(terms.course.target - shares)
    return Bounds(anytime, futile, _numbers(terms, len(shares), wealth, against))


def _numbers(terms: Terms, units: int, wealth: float, against: float) -> dict[str, JSON]:
    most = terms.course.maximum
    return {
        "wealth": wealth,
        "bar": 1 / terms.alpha,
        "wealth_against": against,
        "bar_against": 1 / terms.futility,
        "units": units,
        "maximum": most,
        "saved": max(0, most - units),
    }
