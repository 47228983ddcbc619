"""nano-code's problems: a function to write, told by a sketch and examples.

A problem is a function, and how it is called: as a function whose value is returned (`f`), or as a
program that reads a line and prints one (`l`). The sketch is what whoever asks can say of it
(`x*?+4`), mostly with holes. Three examples are visible; the grader asks for two other arguments.

Promises: the splits are deterministic, and no function is in two of them (`semantic_key`: what it
does, however it is spelled), nor in a demonstration. No other function of the language gives the
hidden results. Hidden arguments are never visible: they are larger numbers.

Not covered: functions of several arguments, or of anything but numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from meta_agent.core.protocols import Split
from meta_agent.domains.nano import code_language as language
from meta_agent.domains.nano._draw import Draw

Call = Literal["f", "l"]
Case = tuple[str, str]  # an argument and what comes out
Key = tuple[int, ...]  # the coefficients of a polynomial, the constant one first
Owner = Split | Literal["demos"]

COUNTS: Final[Mapping[Split, int]] = {"train": 1536, "search": 512, "confirm": 512, "vault": 512}
# Of the functions, in per cent. What demonstrations show, no task asks for: else a policy knows the
# train split's functions by heart, and training can't teach it what a second try is for.
SHARES: Final[Mapping[Owner, int]] = {
    "train": 25,
    "search": 15,
    "confirm": 15,
    "vault": 15,
    "demos": 30,
}
STEPS: Final = {"1": 4, "2": 32, "3": 64}  # of a function: weight
HOLE: Final = "?"
HOLES: Final = {"0": 8, "1": 60, "2": 32}  # in a sketch: weight
OPERATOR_PERCENT: Final = 75  # of the holes; there are three operators, so trying all is possible
FIRST_ARGUMENTS: Final = ("0", "1")  # as people do: the last example is drawn
LAST_ARGUMENTS: Final = tuple("2345")
HIDDEN_ARGUMENTS: Final = tuple(str(number) for number in range(11, 40))
HIDDEN: Final = 2
VISIBLE_RESULTS: Final = range(-9, 100)


@dataclass(frozen=True, slots=True)
class Problem:
    """One task with its answer: this never leaves the domain."""

    key: str
    split: Split
    call: Call
    body: str
    sketch: str
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()

    @property
    def solution(self) -> str:
        """Returns the program that solves it."""
        return spelled(self.call, self.body)


def spelled(call: Call, body: str) -> str:
    """Returns the program with this body whose result goes where the call looks for it."""
    return (language.RETURN if call == "f" else language.PRINT) + body


@cache
def result(body: str, argument: str) -> str:
    """Returns what a function gives for an argument."""
    program = language.parse(language.RETURN + body)
    outcome = program.result(argument) if program else None
    if outcome is None:
        raise ValueError(f"{body!r} has no result for {argument!r}")
    return outcome


@cache
def semantic_key(body: str) -> Key:
    """Returns what functions share that do the same, however they are spelled."""
    total: Key = (0, 1)
    for operator, operand in zip(body[1::2], body[2::2], strict=True):
        other = (0, 1) if operand == "x" else (int(operand),)
        total = _product(total, other) if operator == "*" else _sum(total, other, operator)
    while total and not total[-1]:
        total = total[:-1]
    return total


def _sum(first: Key, other: Key, operator: str) -> Key:
    sign = 1 if operator == "+" else -1
    pairs = itertools.zip_longest(first, other, fillvalue=0)
    return tuple(a + sign * b for a, b in pairs)


def _product(first: Key, other: Key) -> Key:
    if len(other) == 1:
        return tuple(a * other[0] for a in first)
    return (0, *first)


@cache
def _spellings() -> Mapping[Key, tuple[str, ...]]:
    by_key: dict[Key, list[str]] = {}
    for body in language.bodies():
        by_key.setdefault(semantic_key(body), []).append(body)
    return {key: tuple(bodies) for key, bodies in by_key.items()}


@cache
def _values(key: Key) -> tuple[int, ...]:
    """Returns what comes out for each of the hidden arguments."""
    arguments = (int(argument) for argument in HIDDEN_ARGUMENTS)
    return tuple(sum(c * x**power for power, c in enumerate(key)) for x in arguments)


@cache
def functions() -> Mapping[Key, tuple[str, ...]]:
    """Returns every function that depends on its argument, changes it, and goes not below zero,
    by key, with all that spells it, the shortest first."""
    return {
        key: bodies
        for key, bodies in _spellings().items()
        if key != (0, 1) and len(key) > 1 and min(_values(key)) >= 0
    }


def owner_of(key: Key) -> Owner:
    """Returns the one split that may ask for this function, or `demos`."""
    place = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:4], "big") % 100
    bounds = itertools.accumulate(SHARES.values())
    return next(owner for owner, bound in zip(SHARES, bounds, strict=True) if place < bound)


@cache
def functions_of(owner: Owner, steps: int) -> tuple[str, ...]:
    """Returns the functions that this owner may ask for, in their shortest spelling."""
    return tuple(
        bodies[0]
        for key, bodies in functions().items()
        if owner_of(key) == owner and len(bodies[0]) == 1 + 2 * steps
    )


def fits(body: str, cases: tuple[Case, ...]) -> bool:
    """Says whether a function gives these results."""
    return all(result(body, argument) == expected for argument, expected in cases)


@cache
def fillings(sketch: str) -> tuple[str, ...]:
    """Returns every function that a sketch may mean."""
    options = [c if c != HOLE else _options(place) for place, c in enumerate(sketch)]
    return tuple("".join(chosen) for chosen in itertools.product(*options))


def _options(place: int) -> str:
    return language.OPERATORS if place % 2 else language.OPERANDS


def _sketched(body: str, draw: Draw) -> str:
    holes: list[int] = []
    for _ in range(min(int(draw.weighted(HOLES)), len(body) - 1)):
        free_places = [place for place in range(1, len(body)) if place not in holes]
        kind = int(draw.chance(OPERATOR_PERCENT))  # operators stand in odd places
        holes.append(
            draw.choice([place for place in free_places if place % 2 == kind] or free_places)
        )
    return "".join(HOLE if place in holes else c for place, c in enumerate(body))


def _cases(body: str, arguments: Iterable[str]) -> tuple[Case, ...]:
    return tuple((argument, result(body, argument)) for argument in arguments)


def _separates(body: str, arguments: Sequence[str]) -> bool:
    """Says whether no other function of the language has these results."""
    places = tuple(HIDDEN_ARGUMENTS.index(argument) for argument in arguments)
    values = _values(semantic_key(body))
    return _shared(places)[tuple(values[place] for place in places)] == 1


@cache
def _shared(places: tuple[int, ...]) -> Counter[tuple[int, ...]]:
    """Counts the functions of the language by what they give for some hidden arguments."""
    return Counter(zip(*(_column(place) for place in places), strict=True))


@cache
def _column(place: int) -> tuple[int, ...]:
    return tuple(_values(key)[place] for key in _spellings())


def generate(split: Split, draw: Draw, key: str, owner: Owner | None = None) -> Problem:
    """Returns a problem on a function of this split, or of another owner."""
    call: Call = "f" if draw.chance(50) else "l"
    while True:
        body = draw.choice(functions_of(owner or split, int(draw.weighted(STEPS))))
        visible = _cases(body, [*FIRST_ARGUMENTS, draw.choice(LAST_ARGUMENTS)])
        hidden = draw.distinct(HIDDEN_ARGUMENTS, HIDDEN)
        fits_display = all(int(expected) in VISIBLE_RESULTS for _, expected in visible)
        if fits_display and _separates(body, hidden):
            sketch = _sketched(body, draw)
            return Problem(key, split, call, body, sketch, visible, _cases(body, hidden))


@cache
def problems(split: Split) -> tuple[Problem, ...]:
    """Returns the problems of a split; within it no two look alike."""
    by_content: dict[tuple[str, Call, str, tuple[Case, ...]], Problem] = {}
    for index in range(COUNTS[split]):
        key = f"nano-code/{split}/{index:04d}"
        draw = Draw(key)
        problem = generate(split, draw, key)
        while looks(problem) in by_content:
            problem = generate(split, draw, key)
        by_content[looks(problem)] = problem
    return tuple(by_content.values())


def looks(problem: Problem) -> tuple[str, Call, str, tuple[Case, ...]]:
    """Returns what two problems share that are one and the same to whoever works on them."""
    return problem.body, problem.call, problem.sketch, problem.visible
