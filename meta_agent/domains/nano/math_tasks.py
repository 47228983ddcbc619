"""nano-math's problems: chains of sums as typed into a pocket calculator, done from left to right.

`9+6*3-4` is 9, 15, 45, 41. Promises: the splits are deterministic, and no computation is in two of
them (`semantic_key`: swapping the first two numbers of a sum or product makes no new problem).
Every total on the way is from 0 to 999: sums are easy to learn and products of large totals are
not, so no problem is certain to be solved, however carefully it is worked.

Not covered: precedence, brackets, division, or words around the numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.nano._draw import Draw

COUNTS: Final[Mapping[Split, int]] = {"train": 1536, "search": 512, "confirm": 512, "vault": 512}
SHARES: Final[Mapping[Split, int]] = {"train": 49, "search": 17, "confirm": 17, "vault": 17}
LENGTHS: Final = {"2": 15, "3": 25, "4": 30, "5": 20, "6": 10}  # steps of a problem: weight
OPERATORS: Final = {"+": 36, "-": 30, "*": 34}
FACTORS: Final = "23456789"
DIGITS: Final = "123456789"
MAX_TOTAL: Final = 999


@dataclass(frozen=True, slots=True)
class Problem:
    """One task with its answer: this never leaves the domain."""

    key: str
    split: Split
    chain: str
    answer: int

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


def steps_of(chain: str) -> list[str]:
    """Returns what follows the first number: an operator and a digit for each step."""
    return [chain[place : place + 2] for place in range(1, len(chain), 2)]


def applied(total: int, step: str) -> int:
    """Returns the total after one step."""
    digit = int(step[1])
    if step[0] == "*":
        return total * digit
    return total + digit if step[0] == "+" else total - digit


def totals(chain: str) -> list[int]:
    """Returns the total after each step."""
    return list(itertools.accumulate(steps_of(chain), applied, initial=int(chain[0])))[1:]


def semantic_key(chain: str) -> str:
    """Returns what problems share that are the same computation."""
    first, step = chain[0], chain[1:3]
    if step[0] != "-":
        first, other = sorted((first, step[1]))
        step = step[0] + other
    return first + step + chain[3:]


def owner_of(chain: str) -> Split:
    """Returns the one split that may ask this."""
    place = int.from_bytes(hashlib.sha256(semantic_key(chain).encode()).digest()[:4], "big") % 100
    bounds = itertools.accumulate(SHARES[split] for split in SPLITS)
    return next(split for split, bound in zip(SPLITS, bounds, strict=True) if place < bound)


def draw_chain(draw: Draw) -> str:
    """Returns a chain whose totals are all in range."""
    chain = draw.choice(DIGITS)
    total = int(chain)
    for _ in range(int(draw.weighted(LENGTHS))):
        step = _draw_step(draw)
        while not 0 <= applied(total, step) <= MAX_TOTAL:
            step = _draw_step(draw)
        chain, total = chain + step, applied(total, step)
    return chain


def _draw_step(draw: Draw) -> str:
    operator = draw.weighted(OPERATORS)
    return operator + draw.choice(FACTORS if operator == "*" else DIGITS)


@cache
def problems(split: Split) -> tuple[Problem, ...]:
    """Returns the problems of a split; within it no two are the same computation."""
    by_text: dict[str, Problem] = {}
    for index in range(COUNTS[split]):
        key = f"nano-math/{split}/{index:04d}"
        draw = Draw(key)
        chain = draw_chain(draw)
        while owner_of(chain) != split or semantic_key(chain) in by_text:
            chain = draw_chain(draw)
        by_text[semantic_key(chain)] = Problem(key, split, chain, totals(chain)[-1])
    return tuple(by_text.values())
