r"""Reads an answer as a plain number, as words, or as a value in LaTeX with a unit.

A blank between two numbers is never dropped: `2 1/3` is a mixed number and `1 2` is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NamedTuple

from meta_agent.domains.math._units import Unit, unit_of

MAX_ANSWER_CHARS: Final = 2000
_MAX_DIGITS: Final = 400
_GROUPS: Final = r"\d{1,3}(?:(?:,|\{,\}|\\[,!])\d{3})+(?!\d)"
_PERIOD: Final = r"\\(?:overline|dot|bar)\s*\{?\d+\}?"
_DECIMAL: Final = rf"(?:(?:(?:{_GROUPS}|\d+)(?:\.\d*)?|\.\d+)(?:(?<=[.\d]){_PERIOD})?)"
_OVER: Final = (
    rf"(?:\\[dtc]?frac\s*(?:\{{\s*(-?{_DECIMAL})\s*\}}|(\d))\s*(?:\{{\s*(-?{_DECIMAL})\s*\}}|(\d))"
    rf"|({_DECIMAL})\s*/\s*({_DECIMAL}))"
)
_FRACTION = re.compile(rf"(?:(\d+)(?:\s+|(?=\\)))?{_OVER}", re.ASCII)
_SCIENTIFIC = re.compile(rf"({_DECIMAL})(?:[eE]([-+]?\d{{1,3}}))?", re.ASCII)
_REPEATED = re.compile(rf"(\d*)\.?(\d*)({_PERIOD})", re.ASCII)
_IN_TEXT = re.compile(rf"(?<![\w.}}])(\d+)\s+(\d+)/(\d+)(?![\d.])|(?<![\d.\\]){_DECIMAL}", re.ASCII)
_TWO_NUMBERS = re.compile(r"\d\}?\s+\d|\d\s+\\frac", re.ASCII)
_ASIDE: Final = r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|hbox|emph|operatorname)\s*"
ASIDES = re.compile(_ASIDE + r"\{([^{}]*)\}")
_AROUND = re.compile(
    rf"(?:\\(?:(?:text)?color\s*\{{\w+\}}|boldsymbol|pmb|bm|underline|[lL]arge|bf)\s*|{_ASIDE})\{{"
)
_BEFORE = re.compile(
    r"\\(?:color\s*\{\w+\}|(?:[lL]arge|LARGE|[hH]uge|bf|displaystyle)(?![A-Za-z]))"
)
_SPACES = re.compile(r"(?:\\[,;:! ]|[~$\s])+")
_ROOT = re.compile("\u221a" + r"\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+|[A-Za-z]))")
_LATEX: Final = (
    r"- - \times \cdot \cdot \div \pi \theta \infty \le \ge \ne \approx \cup \cap \in \pm ^\circ "
    r"^{2} ^{3} \frac{1}{2} \emptyset"
)
_UNICODE: Final = (
    "\u2212\u2013\u00d7\u00b7\u22c5\u00f7\u03c0\u03b8\u221e\u2264\u2265\u2260\u2248\u222a\u2229"
    "\u2208\u00b1\u00b0\u00b2\u00b3\u00bd\u2205"
)
_SIGNS: Final = str.maketrans(
    {sign: f"{latex} " for sign, latex in zip(_UNICODE, _LATEX.split(), strict=True)}
)
_MATRIX = re.compile(
    r"(\\\{|[(\[|])?\s*\\begin\s*\{(?:([bBpdv]?)(?:small)?matrix\*?\}|array\}\s*\{[^{}]*\})"
    r"(.*?)(?:\\\\\s*)?\\end\s*\{[a-z]*(?:matrix|array)\*?\}\s*(\\\}|[)\]|])?",
    re.DOTALL | re.IGNORECASE,
)
_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\]]?[.:)]*")
_CHOICE = re.compile(r"\\?\(([A-Z])\)[\s~:.}\\]+(.*)", re.DOTALL)
_WORDS = re.compile(
    r"(?:\\(?:text|mathrm|textbf|mbox)\s*\{([^{}\\$\d]*)\}|([A-Za-z][A-Za-z .'-]*))"
)
_MONEY = re.compile(r"([-+]?)\s*(\\?\$|\\pounds|\\euro|[\u00a3\u20ac\u00a5])\s*(?=[-\d.])")
_MARKS: Final = r"(?:\\?%|\^\s*\{?\s*\\circ\s*\}?|\\degree)"
_UNIT = re.compile(
    rf"(.*?[^\s\\,;:!~])((?:\s|~|\\[,;:! ]|{_ASIDE}\{{[^{{}}]*\}}|{_MARKS}|(?<=\}})\^\{{?-?\d\}}?"
    rf"|(?<=\}})/)+[\s.)]*)",
    re.DOTALL,
)
_COUNTED = re.compile(
    r"([-+]?\s*[\d.,/]*[\d.])(\s+|-|(?=[A-Za-z]{2}))([A-Za-z][^\\=+*_\d]*(?:\^\{?\d\}?)?)"
)
_COMPOUND = re.compile(r"\s*([\d.]+)\s*([A-Za-z]+)[\s,.]*(?:and\s+(?=\d))?")


class Quantity(NamedTuple):
    """A value in LaTeX and its unit, which is `Unit()` for a value without one."""

    value: str
    unit: Unit


def undressed(answer: str) -> str:
    """Returns LaTeX without outer `$`, fonts and colours; Unicode signs become LaTeX commands.

    A matrix in any environment and brackets becomes a `pmatrix`, a determinant a `vmatrix`.
    """
    text = _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2] or m[3]}}}", answer).translate(_SIGNS)
    text = re.sub(r"\\(?:left|right)(?![A-Za-z])\s*", "", text)
    text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", text)
    text = _MATRIX.sub(_plain_matrix, text)
    bare = ""
    while bare != text:
        bare = text = text.strip()
        if (len(text) > 1 and text[0] == text[-1] == "$") or text[:2] + text[-2:] in (
            r"\(\)",
            r"\[\]",
        ):
            text = text.strip("$") if text[0] == "$" else text[2:-2]
        elif (around := _AROUND.match(text)) and _closes_last(text, around.end() - 1):
            text = text[around.end() : -1]
        elif before := _BEFORE.match(text):
            text = text[before.end() :]
    return text


def _plain_matrix(match: re.Match[str]) -> str:
    before, kind, cells, after = (part or "" for part in match.groups())
    pair = before + after
    if kind in ("v", "V") or pair in (r"\{", r"\}"):
        return match[0]
    name = "vmatrix" if pair == "||" else "pmatrix"
    before, after = ("", "") if pair in ("()", "[]", "||", r"\{\}") else (before, after)
    cells = re.sub(r"\\hline(?![A-Za-z])", "", cells).strip()
    return rf"{before}\begin{{{name}}}{cells}\end{{{name}}}{after}"


def _closes_last(text: str, start: int) -> bool:
    """Returns whether the brace at `start` has the last sign of the text as its partner."""
    depth = 0
    for brace in re.finditer(r"(?<!\\)[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.end() == len(text)
    return False


def literal(answer: str) -> Fraction | None:
    """Returns the exact value of a plain number or fraction; None for anything else."""
    text = re.sub(rf"\s*{_MARKS}$", "", _MONEY.sub(r"\1", undressed(answer), count=1))
    text = re.sub(r"(?<=\d)\.$", "", text)
    negative, text = text.startswith("-"), re.sub(r"^[-+]\s*", "", text)
    if len(text) > _MAX_DIGITS:
        return None
    if mixed := _FRACTION.fullmatch(text):
        over, under = (_signed(part) for part in mixed.groups()[1:] if part is not None)
        value = None if under == 0 else over / under + int(mixed[1] or 0)
    else:
        value = decimal(text)
    return -value if negative and value is not None else value


def _signed(text: str) -> Fraction:
    value = decimal(text.removeprefix("-")) or Fraction(0)
    return -value if text.startswith("-") else value


def decimal(text: str) -> Fraction | None:
    """Returns the exact value of a decimal number such as `1,234.5` or `2e5`, or None."""
    parts = _SCIENTIFIC.fullmatch(text)
    if parts is None:
        return None
    digits = re.sub(r"\{,\}|\\[,!]|,", "", parts[1])
    if repeated := _REPEATED.fullmatch(digits):
        period = re.sub(r"\D", "", repeated[3])
        ahead = int(f"{repeated[1] or 0}{repeated[2]}")
        value = ahead + Fraction(int(period), 10 ** len(period) - 1)
        return value / Fraction(10 ** len(repeated[2]))
    return Fraction(digits) * Fraction(f"1e{parts[2] or 0}")


def as_fraction(number: Fraction) -> str:
    r"""Returns a number in LaTeX as `\frac{numerator}{denominator}`."""
    return rf"\frac{{{number.numerator}}}{{{number.denominator}}}"


def exact(value: str) -> str | None:
    """Returns LaTeX with decimals as fractions; None if two numbers stand side by side."""

    def fraction(match: re.Match[str]) -> str:
        before = value[: match.start()]
        if match[1]:
            return rf"\left({match[1]}+\frac{{{match[2]}}}{{{match[3]}}}\right)"
        in_brackets = sum(map(before.count, "([")) + before.count(r"\{") > sum(
            map(before.count, ")]")
        ) + before.count(r"\}")
        if in_brackets and "," in match[0]:
            return match[0]
        number = decimal(match[0])
        if number is None or match[0].isdigit():
            return match[0]
        return str(number) if number.denominator == 1 else f"{{{as_fraction(number)}}}"

    whole = literal(value) if _SCIENTIFIC.fullmatch(value) else None
    text = _IN_TEXT.sub(fraction, value if whole is None else as_fraction(whole))
    return None if _TWO_NUMBERS.search(re.sub(r"\\[,;:! ]|~", " ", text)) else text


def quantity(text: str, nouns: frozenset[str], letters: str) -> Quantity | None:
    """Splits an answer into value and unit. Returns None if the words after the value are no unit.

    Words in `nouns` (singular) count as units; variables of the gold answer (`letters`) do not.
    """
    money = _MONEY.match(text)
    text = money[1] + text[money.end() :] if money else text
    parts = _UNIT.fullmatch(text)
    counted = None if parts else _COUNTED.fullmatch(text)
    if counted and not set(counted[3].replace(" ", "")) <= set(letters):
        value, words = counted[1], counted[3]
    elif total := _total(ASIDES.sub(r" \1 ", text)):
        return total
    else:
        value, words = (parts[1], ASIDES.sub(r" \1 ", parts[2])) if parts else (text, "")
    unit = unit_of(f"{money[2].lstrip(chr(92)) if money else ''} {words}", nouns)
    return None if unit is None else Quantity(value, unit)


def _total(text: str) -> Quantity | None:
    """Returns a length such as `5 feet 6 inches` as one number, in base units, or None."""
    parts = list(_COMPOUND.finditer(text))
    if len(parts) < 2 or "".join(part[0] for part in parts) != text:
        return None
    units = [unit_of(part[2], frozenset()) for part in parts]
    if None in units or len({unit.dims for unit in units if unit}) > 1:
        return None
    sizes = [unit.size for unit in units if unit]
    if sizes != sorted(sizes, reverse=True) or not units[0] or not units[0].dims:
        return None
    total = sum(Fraction(part[1]) * size for part, size in zip(parts, sizes, strict=True))
    return Quantity(f"{total.numerator}/{total.denominator}", Unit(units[0].dims, is_compound=True))


def words(answer: str) -> str | None:
    r"""Returns an answer of words (`\text{Evelyn}`, `(A)`) in lower case; None for any other."""
    text = answer.strip().strip("$").strip()
    if letter := _LETTER.fullmatch(text):
        return letter[1].lower()
    match = _WORDS.fullmatch(text)
    if match is None:
        return None
    return " ".join((match[1] or match[2] or "").lower().split()).strip(" .()") or None


def choice(answer: str) -> str | None:
    r"""Returns a choice such as `\textbf{(A) } 5` as its letter in lower case; None for others."""
    letter = _CHOICE.match(re.sub(r"^\\(?:text\w*|math\w+)\s*\{", "", answer.strip()))
    if not letter or re.search(r"\b[A-Z]\b|\b(?:or|and|not)\b|[,;?]\s*[A-Za-z\\]", letter[2]):
        return None
    return letter[1].lower()


def plain_text(answer: str) -> str:
    """Returns an answer in lower case, without LaTeX text commands, extra spaces or final dots."""
    text = ASIDES.sub(lambda m: f" {m[1]} ", answer)
    return " ".join(_SPACES.sub(" ", text).split()).lower().rstrip(". ")
