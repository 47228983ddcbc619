r"""What an answer wears and does not mean: bold and colour, Unicode signs, words around a number.

`undressed` takes off what stands around the whole answer, never a part of it, so that nothing a
reader would see as a second answer disappears. `plain_text` is an answer as it reads aloud, to
compare answers in words (`6\text{ PM}` and `6 PM`).
"""

from __future__ import annotations

import re
from typing import Final

_ROUNDS: Final = 4
_ASIDE: Final = r"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|mbox|hbox|emph|operatorname)"
ASIDES = re.compile(_ASIDE + r"\s*\{([^{}]*)\}")
_AROUND = re.compile(
    r"\\(?:(?:text)?color\s*\{\w+\}|boldsymbol|pmb|bm|underline|emph|math(?:rm|bf|it|sf|tt)"
    r"|text\w*|mbox|hbox|[lL]arge|LARGE|[hH]uge|bf|displaystyle)\s*(?=\{)"
)
_BEFORE = re.compile(
    r"\\(?:color\s*\{\w+\}|(?:[lL]arge|LARGE|[hH]uge|bf|displaystyle|textstyle)(?![A-Za-z]))\s*"
)
_CURRENCY = re.compile(r"(?:\\pounds|\\euro|[£€¥])(?![A-Za-z])\s*")
_COUNTED = re.compile(r"([-+]?\d[\d,]*(?:\.\d+)?)\s+([A-Za-z][A-Za-z ]*)\.?", re.ASCII)
_SPACES = re.compile(r"(?:\\[,;:! ]|[~$\s])+")
_SIGNS: Final = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\u00d7": r"\times ",
        "\u00b7": r"\cdot ",
        "\u22c5": r"\cdot ",
        "\u00f7": r"\div ",
        "\u03c0": r"\pi ",
        "\u03b8": r"\theta ",
        "\u221e": r"\infty ",
        "\u2264": r"\le ",
        "\u2265": r"\ge ",
        "\u2260": r"\ne ",
        "\u2248": r"\approx ",
        "\u222a": r"\cup ",
        "\u2229": r"\cap ",
        "\u2208": r"\in ",
        "\u00b1": r"\pm ",
        "\u00b0": r"^\circ ",
        "\u00b2": "^{2}",
        "\u00b3": "^{3}",
        "\u00bd": r"\frac{1}{2}",
    }
)
_ROOT = re.compile(r"\u221a\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+|[A-Za-z]))")


def undressed(answer: str) -> str:
    """An answer without what it wears as a whole; its meaning is untouched."""
    text = _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2] or m[3]}}}", answer).translate(_SIGNS)
    text = re.sub(r"^\s*~", r"\\approx ", text)  # a blank only between two things
    for _ in range(_ROUNDS):
        bare = _CURRENCY.sub("", _outside(text), count=1) if _starts_with_money(text) else text
        bare = _outside(bare)
        if bare == text:
            break
        text = bare
    return text


def _starts_with_money(text: str) -> bool:
    return _CURRENCY.match(text.strip()) is not None


def _outside(text: str) -> str:
    """Without one command around the whole, or before it; `42 dollars` as a number and a unit."""
    text = text.strip()
    around = _AROUND.match(text)
    if around and _closes_last(text, around.end()):
        text = text[around.end() + 1 : -1].strip()
    before = _BEFORE.match(text)
    text = text[before.end() :] if before else text
    counted = _COUNTED.fullmatch(text)
    return rf"{counted[1]}\text{{ {counted[2]}}}" if counted else text


def _closes_last(text: str, start: int) -> bool:
    """Whether the brace at `start` has the last sign of the text as its partner."""
    depth = 0
    for place in range(start, len(text)):
        escaped = text[place - 1 : place] == "\\"
        depth += 0 if escaped else (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place == len(text) - 1
    return False


def plain_text(answer: str) -> str:
    """As it reads aloud: texts without their commands, single blanks, lower case."""
    text = ASIDES.sub(lambda m: f" {m[1]} ", answer)
    return " ".join(_SPACES.sub(" ", text).split()).lower().rstrip(". ")
