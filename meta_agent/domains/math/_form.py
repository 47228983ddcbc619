r"""Tells a finished answer in LaTeX from one that leaves the work to the grader.

The library math-verify works out a determinant, a derivative or a `\gcd` before it compares. So an
answer may hold only numbers, letters, arithmetic, roots, brackets, sets, intervals, and commands of
the gold answer or related ones (`\cos` if the gold has `\sin`). An expression that stands in the
problem, in any order, is no answer either.

Does not cover: arithmetic of other numbers that was not carried out, such as `6 \cdot 7`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from meta_agent.domains.math._answer import ASIDES, decimal, literal

_FORM_NAMES: Final = """
    frac sqrt cdot times div ast pi e i infty exp pm mp overline cup cap setminus emptyset
    varnothing in mid mathbb mathbf le ge leq geq leqslant geqslant lt gt ne neq to alpha beta gamma
    theta phi varphi lambda mu omega sigma
"""
_FORMS: Final = frozenset(_FORM_NAMES.split())
_KIN: Final = tuple(
    frozenset(names.split())
    for names in (
        "log ln lg exp",
        "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh",
        "binom dbinom tbinom choose",
        "sum prod",
    )
)
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?|\\(.)", re.DOTALL)
_RUN = re.compile(r"[A-Za-z]+")
_VARIABLE = re.compile(r"[A-DF-Za-df-hj-z]")  # e and i are numbers
_COMPARES = re.compile(r"[<>=]|\\(?:in|to|mid|[lg](?:t|eq?|eqslant)|neq?)(?![A-Za-z])")
_SIGNS: Final = frozenset("0123456789.,+-*/^_=()[]{}<>:;| \t\n\\")
_MATRIX = re.compile(r"\\begin\s*\{(\w+)\*?\}(.*?)\\end\s*\{\1\*?\}", re.DOTALL)
_CONTENT = re.compile(r"\d[\d,]*(?:\.\d+)?|\\[A-Za-z]+|[A-Za-z]|[-+/^!=,<>|]")
_SILENT: Final = frozenset((r"\cdot", r"\times", r"\left", r"\right", r"\text"))
_FORMULA = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_FACTORED = re.compile(
    r"(?:^|[.?!$]\s+|\b(?:and|then|to|fully|completely)\s+)factor(?:i[sz]e)?\b(?! of)|\bfactored\b"
    r"|\bfactori[sz]ation\b",
    re.IGNORECASE,
)
_EXPANDED = re.compile(r"\bexpand(?:ed)?\b", re.IGNORECASE)


def asked_form(problem: str) -> str:
    """Returns `factored` or `expanded` if a problem asks for one of them, else an empty text."""
    factored, expanded = _FACTORED.search(problem), _EXPANDED.search(problem)
    if factored and not expanded:
        return "factored"
    return "expanded" if expanded and not factored else ""


def is_finished(value: str, gold: str) -> bool:
    r"""Returns whether an answer is worked out: no command such as `\gcd` that `gold` lacks."""
    if literal(value) is not None:
        return True
    if _MATRIX.search(value):
        if not _MATRIX.search(gold) or _skeleton(value) not in ("M", _skeleton(gold)):
            return False
        value = _MATRIX.sub(lambda m: "(" + re.sub(r"&|\\\\", ",", m[2]) + ")", value)
    commands = {name for name, _ in _COMMAND.findall(gold)}
    allowed = _FORMS.union(commands, *(kin for kin in _KIN if kin & commands))
    if not all(name in allowed for name, _ in _COMMAND.findall(value) if name) or "..." in value:
        return False
    plain, letters = _COMMAND.sub(" ", value), set("".join(_RUN.findall(_COMMAND.sub(" ", gold))))
    gold_words = frozenset(_RUN.findall(gold))
    if not all(
        len(run) == 1 or run in gold_words or set(run) <= letters for run in _RUN.findall(plain)
    ):
        return False
    if not letters and _VARIABLE.search(plain) and not _COMPARES.search(value):
        return False
    return not set(_RUN.sub("", plain)) - _SIGNS - set(gold) and ("|" not in plain or "|" in gold)


def _skeleton(text: str) -> str:
    return re.sub(r"\s", "", _MATRIX.sub(lambda m: "V" if "v" in m[1] else "M", text))


def lists_more(value: str) -> bool:
    """Returns whether an answer lists several values, by commas or semicolons outside brackets."""
    depth = 0
    for sign in value:
        depth += (sign in "([{") - (sign in ")]}")
        if sign in ",;" and depth <= 0:
            return literal(value) is None
    return False


def ratio(value: str) -> list[str]:
    """Returns the terms of a ratio such as `1 : 2 : 3`, split at colons outside brackets."""
    depth, terms = 0, [""]
    for sign in value.replace(r"\colon", ":").replace("{:}", ":"):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == ":" and depth <= 0:
            terms.append("")
        else:
            terms[-1] += sign
    return [term.strip() for term in terms]


def restates(answer: str, gold: str, problem: str) -> bool:
    """Returns whether an answer only repeats an expression of the problem, its parts in any order.

    Returns False for a plain number, and if all parts of the answer stand in the gold answer.
    """
    content = _content(answer)
    if literal(answer) is not None or content.total() < 2 or content <= _content(gold):
        return False
    formulas = [next(filter(None, formula)) for formula in _FORMULA.findall(problem)]
    if any(content <= _content(formula) for formula in formulas):
        return True
    numbers = [part for part in content.elements() if part[0].isdigit()]
    is_arithmetic = len(numbers) > 1 and not any(part.isalpha() for part in content)
    if not is_arithmetic or literal(gold) is None or Counter(numbers) <= _content(gold):
        return False
    return Counter(numbers) <= _content(problem)


def _content(text: str) -> Counter[str]:
    """Counts the numbers, letters, commands and signs of an expression, but no product signs."""
    text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", ASIDES.sub(r" \1 ", text))
    text = re.sub(r"\\(?:frac|sqrt)(?=\d)", lambda m: m[0] + " ", text).replace("{,}", ",")
    text = re.sub(r"(\\frac )(\d)(\d)", r"\1\2 \3", text)
    parts = (part.rstrip(",") for part in _CONTENT.findall(text))
    return Counter(
        str(decimal(p) or p) if p[:1].isdigit() else p for p in parts if p and p not in _SILENT
    )
