"""The plan of a sequential test (`Course`), and how often training runs collapse.

The test buys one more training seed on either side and looks after each. Per-seed mean differences
go into it (`sequential`); tasks stay a level of their own. It does not expect rare failures, so
`Collapse` asks what runs that fall to nothing would take back.

A claim that has come near may go on: from `NEAR` of the wealth that proves it, it buys pairs beyond
its `maximum`, up to `further`. That needs no correction, because the test may stop at any moment.

Not covered: deciding (`judge`), and buying (`core.loop.verbs.claim`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.numbers.statistics import Pairs
from meta_agent.core.protocols import JSON

COLLAPSE: Final = 0.10
"""The share of training runs that may fall to nothing, and that a promotion has to survive.

A few good training seeds look like certainty to a test that takes them as normal, and no few seeds
could show that one run in ten collapses.
"""

NEAR: Final = 0.25
"""The part of the wealth that proves a claim from which the claim buys further pairs."""


@dataclass(frozen=True, slots=True)
class Course:
    """The plan of a sequential test of pairs of training runs, declared before the first pair.

    `target` is the gain that the test looks for and `maximum` the number of pairs. Raises
    ConfigError if a value is out of range.
    """

    maximum: int
    target: float
    collapse: float = COLLAPSE
    """The assumed share of training runs that lose everything. A promoted gain outlasts it."""
    further: int = 0
    """The most pairs of a test that is near its proof; 0: `maximum`."""

    def __post_init__(self) -> None:
        if self.maximum < 2 or not 0 < self.target < 1 or not 0 <= self.collapse < 1:
            raise ConfigError(
                f"the test of training pairs has maximum={self.maximum} pairs, "
                f"target={self.target} and collapse={self.collapse}; set maximum to 2 or more, "
                "target between 0 and 1, and collapse from 0 to below 1"
            )

    def to_json(self) -> dict[str, JSON]:
        """Returns the fields as a JSON object, without the field `further` if it is 0."""
        fields: dict[str, JSON] = asdict(self)
        return fields if self.further else {k: v for k, v in fields.items() if k != "further"}

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
    shares = [*map(float, pairs.by_seed), *elsewhere]
    collapsed = sum(share < -pairs.level / 2 for share in shares)
    rate = max(declared, (collapsed + 1) / (len(shares) + 2)) if collapsed else declared
    fits = 1 - 0.05 ** (1 / len(shares)) if shares else 1.0
    return Collapse(rate, pairs.level, fits, min(shares, default=0.0))


def task_order(keys: Iterable[str], salt: str) -> list[str]:
    """Returns the task keys in a pseudo-random order that depends only on the salt and the keys."""
    return sorted(keys, key=lambda key: (hashlib.sha256(f"{salt}/{key}".encode()).digest(), key))
