"""The plan of a sequential test (`Course`), declared before its first pair, and its bounds.

There are two ways to bound an effect:

* a *look* at a declared moment: `statistics.effect` at the look's share of alpha;
* training pairs: one more training seed on either side, looked at after each. Per-seed mean
  differences go into a sequential test (`sequential.Wealth`); tasks stay a level of their own. That
  test does not expect rare failures, so `Collapse` asks what runs that fall to nothing would take
  back.

A claim that has come near may go on: from `NEAR` of the wealth that proves it, it buys pairs beyond
its `maximum`, up to `further`. That needs no correction, because the test may stop at any moment.

`training_pairs` is the rule of runs from before 2026-11-26. It has the t-test alone and never goes
on. It stays so that their verdicts can be recomputed.

A gain is given up if `futility_high` is below `Course.target`: the test has then shown, at the
budget's futility error, that the gain is smaller. This can only cost wins. Pairs without an outcome
on both sides are left out here. A promotion must survive their being counted against the candidate
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
"""The share of training runs that may fall to nothing, and that a promotion has to survive.

A few good training seeds look like certainty to a test that takes them as normal, and no few seeds
could show that one run in ten collapses.
"""

NEAR: Final = 0.25
"""The part of the wealth that proves a claim from which the claim buys further pairs."""

Rule = Literal["training_pairs", "pairs_and_signs"]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Course:
    """The plan of a sequential test of pairs of training runs, declared before the first pair.

    `target` is the gain that the test looks for and `maximum` the number of pairs. Raises
    ConfigError if a value is out of range.
    """

    rule: Rule  # which bets the test makes; "training_pairs" is that of old runs
    maximum: int
    target: float
    collapse: float = COLLAPSE
    """The assumed share of training runs that lose everything. A promoted gain outlasts it."""
    further: int = 0
    """The most pairs of a test that is near its proof; 0: `maximum`."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(
                f"this verdict used the rule {self.rule!r}, but only {', '.join(RULES)} exist here",
                hint="recompute the verdict with the version of meta-agent that made it",
            )
        if self.maximum < 2 or not 0 < self.target < 1:
            raise ConfigError(
                f"the test of training pairs has maximum={self.maximum} pairs and "
                f"target={self.target}; set maximum to 2 or more, and target between 0 and 1"
            )
        if not 0 <= self.collapse < 1:
            raise ConfigError(
                f"collapse (the assumed share of trainings that fail) is {self.collapse}; set a "
                "share from 0 to below 1"
            )

    def to_json(self) -> dict[str, JSON]:
        """Returns the fields as a JSON object, without the field `further` if it is 0."""
        fields: dict[str, JSON] = asdict(self)
        return fields if self.further else {k: v for k, v in fields.items() if k != "further"}

    @property
    def wealth(self) -> Wealth:
        return T_ALONE if self.rule == "training_pairs" else WITH_SIGNS

    def goes_on(self, units: int, wealth: float, bar: float) -> bool:
        """Returns whether an undecided test runs another pair of trainings after `units` pairs.

        `wealth` is the evidence so far (an e-value), and `bar` the evidence that proves the gain.
        """
        return units < self.maximum or (units < self.further and wealth >= NEAR * bar)


class Collapse(NamedTuple):
    """How often training runs lose everything (collapse), and what a collapsed run loses.

    `rate` is the assumed share of such runs. `fits` is the largest share that the observed pairs
    do not rule out at 5 %. `level` is the loss: the baseline's clean success. `worst` is the
    lowest difference between two paired runs.
    """

    rate: float
    level: float
    fits: float
    worst: float

    def leaves(self, low: float) -> float:
        """Returns the lower bound of the mean gain over all training runs, collapsed runs included.

        `low` is the lower bound of the mean gain over the runs that do not collapse.
        """
        return (1 - self.rate) * low - self.rate * self.level


def collapse_of(pairs: Pairs, declared: float, elsewhere: Sequence[float] = ()) -> Collapse:
    """Returns the assumed rate at which a candidate's training runs collapse (lose everything).

    The rate is `declared`, or Laplace's estimate if that is higher and a collapse is observed: a
    loss of over half of the baseline's clean success. `elsewhere` holds differences of the same
    candidate on other tasks, one per training seed.
    """
    shares = [*map(float, pairs.cells.mean(axis=1) if pairs.cells.size else ()), *elsewhere]
    collapsed = sum(share < -pairs.level / 2 for share in shares)
    rate = max(declared, (collapsed + 1) / (len(shares) + 2)) if collapsed else declared
    fits = 1 - 0.05 ** (1 / len(shares)) if shares else 1.0
    return Collapse(rate, pairs.level, fits, min(shares, default=0.0))


class Bounds(NamedTuple):
    """An estimated gain with bounds at the test's error, and the test's figures (`numbers`).

    A gain above `futility_high` is ruled out at the error that is set for giving up early.
    """

    effect: Effect
    futility_high: float
    numbers: Mapping[str, JSON]


def task_order(keys: Iterable[str], salt: str) -> list[str]:
    """Returns the task keys in a pseudo-random order that depends only on the salt and the keys."""
    return sorted(keys, key=lambda key: (hashlib.sha256(f"{salt}/{key}".encode()).digest(), key))


def bounds_at_look(
    pairs: Pairs, alpha: float, futility: float, *, confidence: bool = True
) -> Bounds:
    """Returns the estimated gain with bounds at error `alpha` for one interim analysis.

    The analysis has to be planned. `futility` is the error of the bound for giving up early.
    Without `confidence` the effect has no `p_improvement`.
    """
    futile = effect(pairs, alpha=futility, confidence=False)
    return Bounds(effect(pairs, alpha=alpha, confidence=confidence), futile.ci_high, {})


@dataclass(frozen=True, slots=True)
class Terms:
    """A sequential test: its plan, its errors of proof and of giving up, and the gain to exceed."""

    course: Course
    alpha: float
    futility: float
    min_effect: float = 0.0


def bounds_under_way(pairs: Pairs, terms: Terms) -> Bounds:
    """Returns the estimated gain with bounds that hold after every pair of training runs."""
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
