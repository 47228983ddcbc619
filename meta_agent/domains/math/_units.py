r"""Reads the unit after a value: `cm`, `feet per second squared`, `dollars a day`, `marbles`.

A word is a unit if it stands in the table below, or if the problem or the gold answer counts such
things. An answer with any other word after its value is refused.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final, NamedTuple

_TABLE: Final = """
    length nm=1e-9 mm,millimeter,millimetre=1e-3 cm,centimeter,centimetre=1e-2 m,meter,metre=1
    length km,kilometer,kilometre=1000 in,inch=0.0254 ft,foot,feet=0.3048 yd,yard=0.9144
    length mi,mile=1609.344
    mass mg,milligram=1e-3 g,gram=1 kg,kilogram=1000 oz,ounce=28.349523125 lb,pound=453.59237
    volume ml,milliliter,millilitre=1e-3 L,liter,litre=1 gallon=3.785411784 quart=0.946352946
    volume pint=0.473176473 cup=0.2365882365
    time ms,millisecond=1e-3 s,sec,second=1 min,minute=60 h,hr,hour=3600 day=86400 week=604800
    months month=1 year,yr=12 decade=120 century,centurie=1200
    dollars cent,\u00a2=0.01 dollar,usd,$=1
    angle degree,deg,\u00b0=1
    percent percent,%=1
    factor dozen=12 hundred=100 thousand=1000 million=1e6 billion=1e9 trillion=1e12
"""
_ALONE: Final = (
    "\u00a3 \u20ac,euro \u00a5,yen rupee radian,rad ton tonne celsius fahrenheit kelvin unit "
    "N,newton J,joule W,watt V,volt A,ampere pa,pascal hz,hertz rpm"
)
_ALIASES: Final = (
    (r"\\pounds", "\u00a3"),
    (r"\\euro", "\u20ac"),
    (r"\^\s*\{?\s*\\circ\s*\}?|\\degree", "\u00b0"),
    (r"\u00b0\s*C\b", " celsius "),
    (r"\u00b0\s*F\b", " fahrenheit "),
    (r"\bmph\b", " mile/hour "),
    (r"\bk(?:ph|mph|mh)\b", " km/hour "),
    (r"\b(?:mod(?:ulo)?|base|out of)\s+\d+", " "),
)
_POWERS: Final = {"square": 2, "sq": 2, "cubic": 3, "squared": 2, "cubed": 3}
_EXPONENT = re.compile(r"\^\s*\{?\s*(-?[1-9])\s*\}?")
_PER = re.compile(r"\s*/\s*|\s+(?:per|an?)\s+")


class Unit(NamedTuple):
    """A unit of measure: dimensions with powers, `size` in base units, `factor` such as million."""

    dims: frozenset[tuple[str, int]] = frozenset()
    size: Fraction = Fraction(1)
    factor: Fraction = Fraction(1)
    is_compound: bool = False


def _sizes() -> dict[str, tuple[str, Fraction]]:
    """Returns the dimension and the size in base units of every measure, by name."""
    sizes = {name: (names, Fraction(1)) for names in _ALONE.split() for name in names.split(",")}
    for line in _TABLE.strip().splitlines():
        dimension, *entries = line.split()
        for names, size in (entry.split("=") for entry in entries):
            sizes |= dict.fromkeys(names.split(","), (dimension, Fraction(size)))
    return sizes


_SIZES: Final = _sizes()


def singular(word: str) -> str:
    """Returns a word in lower case without its plural ending; a single letter stays as it is."""
    word = word if len(word) == 1 else word.lower()
    endings = ("es", "s") if word.endswith(("ches", "shes", "xes")) else ("s",)
    for ending in endings:
        if word.endswith(ending) and len(word) > len(ending) + 1 and word not in _SIZES:
            return word[: -len(ending)]
    return word


def unit_of(text: str, nouns: frozenset[str]) -> Unit | None:
    """Returns the unit that a text names (`Unit()` for ""), or None. Words in `nouns` are units."""
    for pattern, plain in _ALIASES:
        text = re.sub(pattern, plain, text)
    text = re.sub(r"[().,\\{}]", " ", _EXPONENT.sub(r" **\1 ", text)).strip()
    powers: dict[str, int] = {}
    size = factor = Fraction(1)
    for place, part in enumerate(_PER.split(text)):
        words = [singular(word) for word in part.split() if word not in ("of", "the")]
        exponents = [_exponent(word) for word in words]
        names = [word for word, power in zip(words, exponents, strict=True) if not power]
        measures = [_SIZES[name] for name in names if name in _SIZES]
        factor *= math.prod(size for dimension, size in measures if dimension == "factor")
        measures = [measure for measure in measures if measure[0] != "factor"]
        power = math.prod(filter(None, exponents)) * (-1 if place else 1)
        counted = [name for name in names if name not in _SIZES]
        if len(measures) > 1 or not nouns.issuperset(counted) or (abs(power) > 1 > len(measures)):
            return None
        dimension, base_size = (
            measures[0] if measures else (counted[-1] if counted else "", Fraction(1))
        )
        powers[dimension] = powers.get(dimension, 0) + power
        size *= base_size**power
    return Unit(frozenset(item for item in powers.items() if item[0]), size, factor)


def _exponent(word: str) -> int:
    return int(word[2:]) if word.startswith("**") else _POWERS.get(word, 0)
