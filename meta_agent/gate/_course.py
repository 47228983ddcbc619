"""The course of a test, declared before its first pair, and the bounds that it gives on the way.

Three ways to bound an effect, one for each thing that can be bought:

* a *look* at a declared moment: `statistics.effect` at the look's share of alpha;
* `training_pairs`: one more training seed on either side, looked at after each. Per-seed mean
  differences go into the sequential t-test; tasks stay a level of their own. That test takes seeds
  as normal, so `Collapse` asks beside it what runs that fall to nothing would take back;
* `task_blocks`: tasks of a frozen policy in an order that does not depend on results, looked at
  after each block. A task's attempts are averaged into one difference and go into the betting test.

A gain is given up (`futility_high` below `Course.target`) once the bets against it are won at the
budget's futility, which can only cost wins. Units without an outcome on both sides are left out
here, and a promotion must survive their being counted against the candidate
(`statistics.worst_case`).

Not covered: deciding (`judge`), and buying (`steps.confirm`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from meta_agent.errors import ConfigError
from meta_agent.gate.sequential import BettingTest, Design, t_wealth
from meta_agent.gate.statistics import Pairs, SeedSpread, effect, upper_anytime
from meta_agent.protocols import JSON, Effect

BOLDNESS: Final = 1.3
"""Simulated: of a gain at the target the median cost falls from 0.72 to 0.66 of a fixed size."""

COLLAPSE: Final = 0.10
"""A few good training seeds look like certainty to a test that takes them as normal. So a promotion
has to survive one run in ten falling to nothing, which no few seeds could show."""

Rule = Literal["training_pairs", "task_blocks"]
RULES: Final = ("training_pairs", "task_blocks")
ONE_ATTEMPT: Final = 0.3
"""E[d^2] expected of single attempts; half of it is taken for luck, which samples average out."""


@dataclass(frozen=True, slots=True)
class Course:
    """What was declared: the unit, how many at most, and the effect that it is tuned to find."""

    rule: Rule
    maximum: int
    target: float
    order: str = ""
    """Salts the order of tasks."""
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


def collapse_of(pairs: Pairs, declared: float, elsewhere: Sequence[float] = ()) -> Collapse:
    """`elsewhere` are differences of training seeds that this change has shown in other places.

    A loss of more than half of the baseline's level is a collapse. One that was seen anywhere
    raises the rate to what all that was seen says, by Laplace's rule.
    """
    shares = [*map(float, pairs.cells.mean(axis=1) if pairs.cells.size else ()), *elsewhere]
    seen = sum(share < -pairs.level / 2 for share in shares)
    rate = max(declared, (seen + 1) / (len(shares) + 2)) if seen else declared
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


def bounds_at_look(
    pairs: Pairs, alpha: float, futility: float, pilot: SeedSpread | None = None
) -> Bounds:
    """At a declared moment."""
    seen = effect(pairs, alpha=alpha, pilot=pilot)
    return Bounds(seen, effect(pairs, alpha=futility, pilot=pilot).ci_high, {})


@dataclass(frozen=True, slots=True)
class Terms:
    """A course with the errors it may make."""

    course: Course
    alpha: float
    futility: float
    min_effect: float = 0.0
    pilot: SeedSpread | None = None


def bounds_under_way(pairs: Pairs, terms: Terms) -> Bounds:
    """After any number of units."""
    by_rule = {"training_pairs": _training_pairs, "task_blocks": _task_blocks}
    return by_rule[terms.course.rule](pairs, terms)


def _training_pairs(pairs: Pairs, terms: Terms) -> Bounds:
    seen = effect(pairs, alpha=terms.alpha, pilot=terms.pilot, anytime=True)
    futile = upper_anytime(pairs, alpha=terms.futility, pilot=terms.pilot)
    shares = pairs.cells.mean(axis=1) if pairs.cells.size else pairs.cells[:0].sum(axis=1)
    wealth = t_wealth(shares - terms.min_effect)
    against = t_wealth(terms.course.target - shares)
    return Bounds(seen, futile, _numbers(terms, len(shares), wealth, against))


def _task_blocks(pairs: Pairs, terms: Terms) -> Bounds:
    test = BettingTest(_design(terms, pairs.samples))
    if not pairs.cells.size:
        return Bounds(Effect(0.0, -1.0, 1.0, 0, 1), 1.0, _numbers(terms, 0, 1.0, 1.0))
    column = dict(zip(pairs.tasks, pairs.cells[0], strict=True))
    order = task_order(column, terms.course.order)
    reading = test.take_all(float(column[key]) for key in order)
    low, high = test.above(terms.alpha), test.below(terms.alpha)
    seen = Effect(reading.mean, low, high, pairs.pairs, 1, _sure(test))
    numbers = _numbers(terms, reading.units, reading.wealth, reading.wealth_against)
    return Bounds(seen, test.below(terms.futility), numbers)


def _sure(test: BettingTest) -> float:
    """As `Effect.p_improvement` of training pairs: 1 - 1 / wealth on the sign that the mean has."""
    if test.reading.mean > 0:
        return max(0.5, 1 - 1 / test.wealth_above(0.0))
    return min(0.5, 1 / test.wealth_below(0.0))


def _design(terms: Terms, samples: int) -> Design:
    return Design(
        alpha=terms.alpha,
        target=max(terms.course.target, terms.min_effect + 1e-6),
        min_effect=terms.min_effect,
        miss=terms.futility,
        second_moment=ONE_ATTEMPT * (0.5 + 0.5 / max(1, samples)),
        max_units=terms.course.maximum,
        boldness=BOLDNESS,
    )


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
