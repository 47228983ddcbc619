r"""The answers that need no algebra to compare.

`literal` reads plain numbers exactly (`1,234`, `$5.00`, `-3`, `3/4`, `\frac{3}{4}`, `10\%`); two
literals are compared here, without a worker. A percent sign is a unit: 10% equals 10% and 10, never
0.1.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

MAX_ANSWER_CHARS: Final = 2000
_MAX_DIGITS: Final = 400
_NUMBER = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+|\d+)?(\.\d+)?", re.ASCII)
_FRACTION = re.compile(r"([-+]?)(?:\\[dt]?frac\{(-?\d+)\}\{(-?\d+)\}|(\d+)\s*/\s*(\d+))", re.ASCII)
_SOFT = re.compile(r"\\[,;:! ]|\\(?:left|right|displaystyle|\$)|[$~]|\{,\}|\s+")
_REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\(?:overline|dot|bar)\{?(\d+)\}?", re.ASCII)
_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\]]?[.:)]*")
_CHOICE = re.compile(r"\\?\(([A-Z])\)[\s~:.}\\]+(.*)", re.DOTALL)
_WORDS = re.compile(r"(?:\\(?:text|mathrm|textbf|mbox)\s*\{([^{}\\$]*)\}|([A-Za-z][A-Za-z .'-]*))")


def literal(answer: str) -> Fraction | None:
    """The exact value of a plain number or fraction; None for all else."""
    text = _plain(answer)
    if len(text) > _MAX_DIGITS:
        return None
    found = _FRACTION.fullmatch(text)
    if found:
        sign, *parts = found.groups()
        over, under = (int(part) for part in parts if part is not None)
        return None if under == 0 else Fraction(over, under) * (-1 if sign == "-" else 1)
    repeating = _REPEATING.fullmatch(text)
    if repeating:
        return _repeated(*repeating.groups())
    found = _NUMBER.fullmatch(text)
    if not found or not (found[2] or found[3]):
        return None
    return Fraction((found[1] + (found[2] or "0") + (found[3] or "")).replace(",", ""))


def _repeated(sign: str, whole: str, fixed: str, period: str) -> Fraction:
    r"""The value of `0.1\overline{6}`."""
    ahead = int(f"{whole or 0}{fixed}")
    value = (ahead + Fraction(int(period), 10 ** len(period) - 1)) / Fraction(10 ** len(fixed))
    return -value if sign == "-" else value


def _plain(answer: str) -> str:
    """Without what carries no value: dollars, thin spaces, percent or degree, a full stop."""
    text = _SOFT.sub(lambda m: "," if m[0] == "{,}" else "", answer)
    text = re.sub(r"(?:\\?%|\^\{?\\circ\}?|\\degree)$", "", text)
    return re.sub(r"(?<=\d)\.$", "", text)


def words(answer: str) -> str | None:
    r"""An answer in words (`\text{Evelyn}`, `even`, `(A)`): lower case, single blanks; or None."""
    text = answer.strip().strip("$").strip()
    letter = _LETTER.fullmatch(text)
    if letter:
        return letter[1].lower()
    found = _WORDS.fullmatch(text)
    if not found:
        return None
    said = " ".join((found[1] or found[2] or "").lower().split()).strip(" .()")
    return said or None


def choice(answer: str) -> str | None:
    r"""The letter of `\textbf{(A) } 5`, a choice with what it stands for; one letter alone."""
    found = _CHOICE.match(re.sub(r"^\\(?:text\w*|math\w+)\s*\{", "", answer.strip()))
    if not found or re.search(r"\b[A-Z]\b|\b(?:or|and|not)\b|[,;?]\s*[A-Za-z\\]", found[2]):
        return None
    return found[1].lower()
