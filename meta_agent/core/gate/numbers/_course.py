"""The course of a test, declared before its first pair, and the bounds that it gives on the way.

Two ways to bound an effect:

* a *look* at a declared moment: `statistics.effect` at the look's share of alpha;
* training pairs: one more training seed on either side, looked at after each. Per-seed mean
  differences go into a sequential test (`sequential.Wealth`); tasks stay a level of their own. That
  test does not expect rare failures, so `Collapse` asks what runs that fall to nothing would take
  back.

A claim that has come near may go on: from `NEAR` of the wealth that proves it, it buys pairs beyond
its `maximum`, up to `further`. That needs no correction, because the test may stop at any moment.

`training_pairs` is the rule of runs from before 2026-11-26. It has the t-test alone and never goes
on. It stays so that their verdicts can be recomputed.

A gain is given up (`futility_high` below `Course.target`) once the bets against it are won at the
budget's futility, which can only cost wins. Units without an outcome on both sides are left out
here, and a promotion must survive their being counted against the candidate
(`statistics.worst_case`).

Not covered: deciding (`judge`), and buying (`core.loop.verbs.claim`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, NamedTuple, get_args

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.numbers.sequential import T_ALONE, WITH_SIGNS, Wealth
from meta_agent.core.gate.numbers.statistics import Pairs, effect, upper_anytime
from meta_agent.core.protocols import JSON, Effect

COLLAPSE: Final = 0.10
"""A few good training seeds look like certainty to a test that takes them as normal. So a promotion
has to survive one run in ten falling to nothing, which no few seeds could show."""

NEAR: Final = 0.25
"""The part of the wealth that proves a claim from which the claim buys further pairs."""

Rule = Literal["training_pairs", "pairs_and_signs"]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Course:
    """What was declared: the unit, how many at most, and the effect that it is tuned to find."""

    rule: Rule
    maximum: int
    target: float
    collapse: float = COLLAPSE
    """Of training runs: this share may lose everything, and the gain has to outlast that."""
    further: int = 0
    """The number of pairs up to which a claim that has come near goes on; 0: it never does."""

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

    def to_json(self) -> dict[str, JSON]:
        """Returns the course as evidence keeps it: `further` only if it was declared."""
        fields: dict[str, JSON] = asdict(self)
        return fields if self.further else {k: v for k, v in fields.items() if k != "further"}

    @property
    def wealth(self) -> Wealth:
        return T_ALONE if self.rule == "training_pairs" else WITH_SIGNS

    def goes_on(self, units: int, wealth: float, bar: float) -> bool:
        """Returns whether an undecided claim buys one more pair after so many."""
        return units < self.maximum or (units < self.further and wealth >= NEAR * bar)


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
    bets = terms.course.wealth
    anytime = effect(pairs, alpha=terms.alpha, wealth=bets)
    futile = upper_anytime(pairs, alpha=terms.futility, wealth=bets)
    shares = pairs.cells.mean(axis=1) if pairs.cells.size else pairs.cells[:0].sum(axis=1)
    wealth = bets.of(shares - terms.min_effect)
    against = bets.of(terms.course.target - shares)
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
