"""nano-swe's problems: a one-expression repository, one mutated token, an issue of two characters.

Promises: the splits are deterministic, and no fixed function is in two splits (the semantic key is
its polynomial). Visible tests fail on the buggy code. The grader's inputs are never the visible
ones, and there are enough of them to prove equality (4 by 4 values for degree 3 or less).

An issue says where the bug is and what belongs there (`35`: a 5 at position 3), where only (`3?`),
what kind of token is wrong (`o?` operator, `n?` number, `w?` variable), or only the symptom (`l?`
the first test gives too little, `h?` too much).

Not covered: programs with two bugs.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.nano import expression
from meta_agent.domains.nano._draw import Draw

COUNTS: Final[Mapping[Split, int]] = {"train": 1536, "search": 512, "confirm": 512, "vault": 512}
FUNCTION_SHARES: Final[Mapping[Split, int]] = {
    "train": 49,
    "search": 17,
    "confirm": 17,
    "vault": 17,
}
ISSUE_WEIGHTS: Final = {"exact": 12, "position": 60, "kind": 22, "symptom": 6}
# What a repository may hold. The language allows more, so an edit may lead out of this form.
FORM: Final = (
    expression.VARIABLES,
    expression.OPERATORS,
    expression.DIGITS,
    expression.OPERATORS,
    expression.OPERANDS,
)
BUG_POSITIONS: Final = (0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4)  # operators break most often
KIND_LETTERS: Final = {"operator": "o", "number": "n", "variable": "w"}
VISIBLE_INPUTS: Final = range(2, 10)
HIDDEN_INPUTS: Final = range(11, 60)
VISIBLE_TESTS: Final = 2
Inputs = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """One task with its answer: this never leaves the domain."""

    key: str
    split: Split
    fixed: str
    buggy: str
    issue: str
    visible: tuple[Inputs, ...]
    hidden: tuple[Inputs, ...]

    @property
    def position(self) -> int:
        """Where the bug is."""
        return next(i for i, c in enumerate(self.buggy) if c != self.fixed[i])

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


def _sources() -> Iterator[str]:
    return ("".join(code) for code in itertools.product(*FORM))


@cache
def functions() -> Mapping[expression.Polynomial, tuple[str, ...]]:
    """Returns every non-constant function of this form with all the code that spells it."""
    sources: dict[expression.Polynomial, list[str]] = {}
    for code in _sources():
        sources.setdefault(expression.polynomial(code), []).append(code)
    return {
        key: tuple(codes)
        for key, codes in sources.items()
        if any(powers != (0, 0) for powers, _ in key)
    }


@cache
def functions_of(split: Split) -> tuple[expression.Polynomial, ...]:
    """Returns the functions that may be the *fixed* one in this split: a partition of all."""
    ordered = sorted(functions(), key=lambda key: hashlib.sha256(repr(key).encode()).digest())
    bounds = [0, *itertools.accumulate(FUNCTION_SHARES[name] for name in SPLITS)]
    index = SPLITS.index(split)
    low, high = (len(ordered) * bounds[index + step] // 100 for step in (0, 1))
    return tuple(ordered[low:high])


def kind_of(token: str) -> str:
    """Returns which kind of token this character is."""
    if token in expression.OPERATORS:
        return "operator"
    return "number" if token in expression.DIGITS else "variable"


def alternatives(token: str) -> str:
    """Returns what a bug may have put in this token's place, and so what a fix may be."""
    if kind_of(token) == "number":
        near = (str(int(token) + step) for step in (-1, 1))
        return "".join(digit for digit in near if digit in expression.DIGITS)
    pool = expression.OPERATORS if kind_of(token) == "operator" else expression.VARIABLES
    return pool.replace(token, "")


def _mutate(fixed: str, draw: Draw) -> str:
    position = draw.choice(BUG_POSITIONS)
    token = draw.choice(alternatives(fixed[position]))
    return fixed[:position] + token + fixed[position + 1 :]


def _symptom(fixed: str, buggy: str, visible: tuple[Inputs, ...]) -> str:
    for x, y in visible:
        got, want = expression.evaluate(buggy, x, y), expression.evaluate(fixed, x, y)
        if got != want:
            return "l" if got < want else "h"
    return ""  # the visible tests do not see this bug


def _issue(fixed: str, buggy: str, symptom: str, draw: Draw) -> str:
    position = next(i for i, c in enumerate(buggy) if c != fixed[i])
    style = draw.weighted(ISSUE_WEIGHTS)
    if style == "exact":
        return f"{position}{fixed[position]}"
    if style == "position":
        return f"{position}?"
    return (KIND_LETTERS[kind_of(fixed[position])] if style == "kind" else symptom) + "?"


def generate(split: Split, index: int, attempt: int) -> Problem | None:
    """Returns a problem of this split, or None where the visible tests would miss the bug."""
    key = f"nano-swe/{split}/{index:04d}"
    draw = Draw(f"{key}/{attempt}")
    owned = functions_of(split)
    fixed = draw.choice(functions()[owned[index % len(owned)]])
    buggy = _mutate(fixed, draw)
    xs, ys = (draw.distinct(VISIBLE_INPUTS, VISIBLE_TESTS) for _ in "xy")
    visible = tuple(zip(xs, ys, strict=True))
    symptom = _symptom(fixed, buggy, visible)
    if not symptom:
        return None
    side = expression.MAX_DEGREE + 1
    grid = itertools.product(draw.distinct(HIDDEN_INPUTS, side), draw.distinct(HIDDEN_INPUTS, side))
    issue = _issue(fixed, buggy, symptom, draw)
    return Problem(key, split, fixed, buggy, issue, visible, tuple(grid))


@cache
def problems(split: Split) -> tuple[Problem, ...]:
    """Returns the problems of a split; within it no two share fix, bug and issue."""
    by_content: dict[tuple[str, str, str], Problem] = {}
    for index in range(COUNTS[split]):
        for attempt in itertools.count():
            problem = generate(split, index, attempt)
            if problem and (problem.fixed, problem.buggy, problem.issue) not in by_content:
                by_content[problem.fixed, problem.buggy, problem.issue] = problem
                break
    return tuple(by_content.values())
