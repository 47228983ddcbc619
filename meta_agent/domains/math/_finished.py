r"""What a finished answer is made of: an allow-list of forms, and of words that can be a unit.

The library would work out a determinant, a derivative, `\gcd` or `\max` as readily as it compares
them, and drops whatever words it does not know. So only what is listed here may stand in an answer:
numbers, letters, arithmetic, roots, brackets, sets and intervals; one unit after the value, of
words that name units or that the problem counts. What the gold has, an answer may have too, and the
kin of it (`\cos` where the gold has `\sin`).

Does not cover: plain arithmetic that was not carried out (`6 \cdot 7`), which other graders of
these sets accept as well.
"""

from __future__ import annotations

import re
from typing import Final

from meta_agent.domains.math._answer import literal
from meta_agent.domains.math._dress import ASIDES

_FORM_NAMES: Final = r"""
    frac dfrac tfrac cfrac sqrt cdot times div ast pi e i infty circ degree exp pm mp
    left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle
    overline dot bar cup cap setminus emptyset varnothing in mid mathbb mathbf boldsymbol
    le ge leq geq leqslant geqslant lt gt ne neq to mapsto quad
    alpha beta gamma theta phi varphi lambda mu omega sigma
"""
_FORMS: Final = frozenset(_FORM_NAMES.split())
_KIN: Final = tuple(
    frozenset(names.split())
    for names in (
        "log ln lg exp",
        "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh",
        "binom dbinom tbinom choose",
        "langle rangle",
        "begin end",
        "sum prod",
    )
)
_MEASURE_NAMES: Final = """
    m km cm mm ft in inch inches foot feet yard yards yd mile miles mi meter meters metre metres
    centimeter centimeters kilometer kilometers millimeter millimeters nm light-years
    g kg mg gram grams kilogram kilograms ounce ounces oz pound pounds lb lbs ton tons tonnes
    l ml liter liters litre litres gallon gallons quart quarts pint pints cup cups
    s sec second seconds min minute minutes h hr hrs hour hours day days week weeks month months
    year years decade decades
    mph kph ms hz rpm n j w v a pa degree degrees deg radian radians rad
    newton newtons joule joules watt watts volt volts
    dollar dollars cent cents usd euro euros yen rupees percent percents unit units
"""
_COUNTED_NAMES: Final = """
    am pm o'clock noon midnight celsius fahrenheit kelvin point points
    people persons person men women children boys girls students friends teams players
    apples oranges books marbles cards balls coins eggs cookies boxes bags pages pens pencils
    ways times pairs items pieces cars tickets games steps solutions integers numbers digits
    edges vertices sides triangles squares cubes tiles handshakes subsets values multiples factors
    divisors zeros roots elements colors outcomes arrangements paths words letters total
    each left altogether remaining more fewer
"""
_MEASURES: Final = frozenset(_MEASURE_NAMES.split())
_KIND: Final = (
    dict.fromkeys(_MEASURES, "m")
    | dict.fromkeys(("square", "sq", "cubic"), "a")
    | dict.fromkeys(("squared", "cubed"), "b")
    | dict.fromkeys(("per", "in", "of", "the", "a", "an"), "p")
)
_TWO_UNITS: Final = re.compile("m[^p]*m|(?<!m)b|a(?![mw])")
_UNITS: Final = frozenset(_KIND) | frozenset(_COUNTED_NAMES.split())
_MANY: Final = frozenset("kKMBT")  # thousands, millions
_NONE: Final[frozenset[str]] = frozenset()
_PART: Final = re.compile(r"(?:mod(?:ulo)?|base|out of)\s+\d+", re.IGNORECASE)
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)\*?|\\(.)", re.DOTALL)
_RUN: Final = re.compile(r"[A-Za-z]+")
_VARIABLE: Final = re.compile(r"[A-DF-Za-df-hj-z]")  # e and i are numbers
_COMPARES: Final = re.compile(r"[<>=]|\\(?:in|to|mid|[lg](?:t|eq?|eqslant)|neq?)(?![A-Za-z])")
_COUNTED: Final = re.compile(
    r"\b(?:how many|number of|many|\d+)\s+((?:[a-z]+\s+){0,2}[a-z]+)|\b([a-z]{3,}s)\b",
    re.IGNORECASE,
)
_SIGNS: Final = frozenset("0123456789.,+-*/^_=()[]{}<>:;| \t\n$~%\\")
_THOUSANDS: Final = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))")
_ABOUT: Final = re.compile(r"\\(?:(?:thick)?approx(?:eq)?|simeq|cong|doteq)(?![A-Za-z])")
_MATRIX: Final = re.compile(r"\\begin\s*\{(\w+)\*?\}.*?\\end\s*\{\1\*?\}", re.DOTALL)
_SPACES: Final = re.compile(r"\\[,;:! ]|\\(?:left|right)(?![A-Za-z])|[\s~$]+")
_POWER: Final = re.compile(r"(\s*\^\s*(?:\{\s*-?[23]\s*\}|-?[23]))?[\s.)$]*")


def why_unfinished(answer: str, gold: str, problem: str) -> str:
    """What keeps a value from being a finished answer, as a verdict; empty where nothing does."""
    if literal(answer) is not None:
        return ""
    value, *about = _ABOUT.split(answer)
    if any(literal(one) is None for one in about) and not _ABOUT.search(gold):
        return "not_worked_out"
    if _MATRIX.search(value) and _skeleton(value) not in ("M", _skeleton(gold)):
        return "not_worked_out"
    rest = _MATRIX.sub(_cells, value) if _MATRIX.search(gold) else value
    bare = _without_unit(rest, gold, problem)
    if bare is None or _apart(bare, gold):
        return "several_answers"
    return "" if _is_form(bare, gold) else "not_worked_out"


def _skeleton(text: str) -> str:
    return _SPACES.sub("", _MATRIX.sub("M" if "vmatrix" not in text else "V", text))


def _cells(found: re.Match[str]) -> str:
    """A matrix as a list of what is in it."""
    inside = found[0].split("}", 1)[1].rsplit("\\end", 1)[0]
    return f"({inside.replace('&', ',').replace(chr(92) * 2, ',')})"


def _without_unit(value: str, gold: str, problem: str) -> str | None:
    """A value without the one unit after it; None where other words stand there."""
    asides = list(ASIDES.finditer(value))
    told = [found for found in asides if found[1].strip()]
    if len(told) > max(1, len(ASIDES.findall(gold))):
        return None
    known = _UNITS | _words(gold) | (_counted(problem) if told else _NONE)
    if not all(_is_unit(found[1], known, gold) for found in told):
        return None
    last = bool(told) and _POWER.fullmatch(value, told[-1].end()) is not None
    if told and not last and not ASIDES.search(gold):
        return None
    return ASIDES.sub(" ", value[: told[-1].start()] if last else value)


def _is_unit(text: str, known: frozenset[str], gold: str) -> bool:
    """Whether words are one unit: two measures stand apart (`feet per second`), powers with one."""
    plain = re.sub(r"[().,$]|\^\s*-?[23]", " ", _PART.sub(" ", text)).replace("/", " per ").split()
    words = [word.lower() for word in plain]
    if not all(word in known for word in words):
        return False
    if _MANY & {*plain} - {*_RUN.findall(gold)}:
        return False
    said = _words(gold)
    kinds = "".join("w" if word in said else _KIND.get(word, "w") for word in words)
    return _TWO_UNITS.search(kinds) is None


def _words(text: str) -> frozenset[str]:
    return frozenset(_RUN.findall(text.lower()))


def _counted(problem: str) -> frozenset[str]:
    """What a problem has several of: words in the plural, and those after a number."""
    found = [word for pair in _COUNTED.findall(problem.lower()) for word in pair]
    return frozenset(word for phrase in found for word in phrase.split())


def _apart(value: str, gold: str) -> bool:
    """Whether a sign for another value stands outside of all brackets, where the gold has none."""
    depth = 0
    for sign in _THOUSANDS.sub("", _SPACES.sub("", value)):
        depth += (sign in "([{") - (sign in ")]}")
        if sign in ",;" and depth <= 0:
            return "," not in gold
    return False


def _is_form(value: str, gold: str) -> bool:
    """Whether every sign, letter and command of it may stand in an answer to this gold."""
    commands = {one[0] for one in _COMMAND.findall(gold)}
    allowed = _FORMS | commands
    allowed |= frozenset().union(*(kin for kin in _KIN if kin & commands))
    used = [one[0] for one in _COMMAND.findall(value) if one[0]]
    plain = _COMMAND.sub(" ", value)
    if not all(name in allowed for name in used) or "..." in plain:
        return False
    letters = set("".join(_RUN.findall(_COMMAND.sub(" ", gold))))
    runs = [run for run in _RUN.findall(plain) if len(run) > 1]
    known = _words(gold)
    if not all(run.lower() in known or set(run) <= letters for run in runs):
        return False
    if not letters and _VARIABLE.search(plain) and not _COMPARES.search(value):
        return False
    signs = set(_RUN.sub("", plain)) - _SIGNS - set(gold)
    return not signs and ("|" not in plain or "|" in gold)
