r"""The values that one answer states, each of which has to be right.

The library takes the last side of an equation, the first number before an `\approx`, and drops text
as it drops units: whatever stands beside the right number would not be looked at. Here `41 = 42` is
two values, `42 \text{ or } 41` is two answers, and `\not= 42` is no name for 42.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from meta_agent.domains.math._answer import literal

MAX_SIDES: Final = 6
_EITHER = re.compile(r"\b(?:or|and|either|maybe|not|respectively)\b", re.IGNORECASE)
_LISTING = re.compile(r"\\(?:text\w*|mathrm|mbox)\s*\{\s*,?\s*(?:and|or)\s*\}|\b(?:and|or)\b")
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)|\\equiv(?![A-Za-z])")
_ABOUT = re.compile(r"\\(?:(?:thick)?approx(?:eq)?|simeq|cong|doteq)(?![A-Za-z])")
_NEAR: Final = Fraction(1, 50)
_NAME = re.compile(
    r"[A-Za-z]{1,12}'*|\(?[A-Za-z](?:,\s*[A-Za-z])*\)?|[A-Za-z]+_(?:\w|\{\w+\})"
    r"|[A-Za-z]+\([A-Za-z0-9, ]*\)|\\[A-Za-z]+(?:\s*\{[A-Za-z .]*\})?(?:\s*[A-Za-z]+)?",
)
_RELATION = re.compile(
    r"[<>]|\\(?:not|neq?|geq?|leq?|geqslant|leqslant|gt|lt|ll|gg|sim|in|notin|ni|to|subset)(?![A-Za-z])"
)
_SIGN = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_NO_NAMES: Final = frozenset(
    {"e", "i", r"\pi", r"\infty", r"\cdot", r"\times", r"\div", r"\pm", r"\mp", r"\text", r"\left"}
    | {r"\right", r"\quad", r"\qquad", r"\dots", r"\ldots", r"\cdots", r"\frac", r"\sqrt"}
)
_RUN = re.compile(r"[A-Za-z]+")
_TOLD = re.compile(r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|operatorname)\s*\{([^{}]*)\}")
_LETTERS: Final = 3  # variables beside each other, as in a product
_QUANTITY_NAMES: Final = """
    answer result value total sum difference product quotient remainder number count amount average
    mean median mode range area volume perimeter circumference length width height depth radius
    diameter distance side angle slope degree speed rate time age cost price profit loss revenue
    ratio probability expected variance max min maximum minimum largest smallest greatest least gcd
    lcm det rank dim tr deg arg ways solutions of the a an in for is final surface shaded
"""
_QUANTITIES: Final = frozenset(_QUANTITY_NAMES.split())
_FUNCTION = re.compile(r"[A-Za-z]\([A-Za-z]\)")
_BASED = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*(\d{1,3})\s*\}?", re.ASCII)


def strays(answer: str, gold: str) -> bool:
    r"""`\frac{22}{7} \approx 3.14` says one thing twice; `42 \approx 41` says two."""
    head, *rest = _ABOUT.split(answer)
    said = [literal(part) for part in rest]
    wanted = literal(gold) or literal(_EQUALS.split(head)[-1])
    if wanted is None:
        return False
    return any(one is not None and _is_another(one, wanted) for one in said)


def _is_another(one: Fraction, wanted: Fraction) -> bool:
    """Not what one would write after `about`: further off, or another whole number."""
    whole = one.denominator == wanted.denominator == 1
    return one != wanted if whole else abs(one - wanted) > _NEAR * abs(wanted)


def listed(answer: str, gold: str) -> str:
    r"""Where the gold is a list, `1 \text{ and } 2` is one as well."""
    return _LISTING.sub(",", answer) if "," in gold and not _EITHER.search(gold) else answer


def values(answer: str, gold: str, problem: str = "") -> list[str]:
    """The values that a chain of equations states: of `x = 6 * 7 = 42`, `6 * 7` and `42`.

    A name on the left is none. Where the gold is an equation itself, each side is put in its place.
    Empty where there are more than could be compared.
    """
    if "," in answer or ("=" in gold and _EQUALS.sub("", gold).count("=")):
        return [answer]
    sides = [side.strip() for side in _EQUALS.split(answer)]
    if len(sides) < 2:
        return [answer]
    if not all(sides) or any(side.count("{") != side.count("}") for side in sides):
        return [answer]  # the sign belongs to something else, such as the limits of a sum
    left, *others = sides
    if "=" in gold:
        named = gold.split("=")[0] if _FUNCTION.fullmatch(left) else left
        found = [f"{named} = {side}" for side in others]
    else:
        found = others if _is_name(left, gold, problem) else sides
    found = list(dict.fromkeys(found))
    return found if len(found) <= MAX_SIDES else []


def _is_name(side: str, gold: str, problem: str) -> bool:
    r"""`x`, `f(2)`, `a_{10}`; beside a gold with digits also `\frac{dy}{dx}`. Never a constant.

    Words of it name something: a quantity, or what the problem speaks of.
    """
    if not _names_a_quantity(side, gold + " " + problem):
        return False
    if _RELATION.search(side) or side[-1:] in "+-*/^_":
        return False
    if all(sign in _NO_NAMES for sign in _SIGN.findall(side)) and side[:1] not in ("|", "#"):
        return False
    return bool(_NAME.fullmatch(side)) or (_has_digit(gold) and not _has_digit(side))


def _names_a_quantity(side: str, known: str) -> bool:
    said = _EITHER.sub(" ", known).lower()
    words = _QUANTITIES | frozenset(_RUN.findall(said))
    told = " ".join(_TOLD.findall(side))
    plain = re.sub(r"\\[A-Za-z]+", " ", _TOLD.sub(" ", side))
    letters = [run for run in _RUN.findall(plain) if len(run) > _LETTERS and not run.isupper()]
    runs = [run.lower() for run in (*_RUN.findall(told), *letters) if len(run) > 1]
    return all(run in words for run in runs) and not _EITHER.search(side)


def _has_digit(text: str) -> bool:
    return any(sign.isdigit() for sign in text)


def bases_differ(answer: str, gold: str) -> bool:
    """`2516_9` for `2516_8`: the library leaves the base out. Also a base that is none."""
    given, wanted = _based(answer), _based(gold)
    if given is None:
        return False
    digits, base = given
    if wanted is not None:
        return given != wanted
    return not 2 <= base <= 36 or any(int(sign, 36) >= base for sign in digits)


def _based(text: str) -> tuple[str, int] | None:
    found = _BASED.fullmatch(text.strip().strip("$"))
    if not found or not found[1][0].isdigit():
        return None
    return found[1], int(found[2])
