"""Grades the final answer of a reply against the gold (right) answer of its problem.

Plain numbers are compared exactly, words as words, and anything else by algebra in the worker. A
gold answer must be a plain number, words, or LaTeX that math-verify parses and finds equal to
itself. `sort_golds` refuses the others while a file is loaded. An answer that does not parse, or
whose comparison runs out of time, is wrong, and its verdict says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from meta_agent.core.protocols import JSON, Outcome
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math import _answer, _form
from meta_agent.domains.math._answer import Quantity, literal, words
from meta_agent.domains.math._reply import read_reply, rivals
from meta_agent.domains.math._units import Unit, singular
from meta_agent.domains.math._verify import Comparison, Verifier

GoldKind = Literal["literal", "words", "expression"]
_MAX_SIDES: Final = 6
_EITHER = re.compile(r"\b(?:or|and|either|maybe|not|respectively)\b", re.IGNORECASE)
_LISTING = re.compile(r"\\(?:text\w*|mathrm|mbox)\s*\{\s*,?\s*(?:and|or)\s*\}|\b(?:and|or)\b")
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)|\\equiv(?![A-Za-z])")
_ABOUT = re.compile(r"\\(?:(?:thick)?approx(?:eq)?|simeq|cong|doteq)(?![A-Za-z])")
_BASED = re.compile(r"(-?[0-9][0-9A-Za-z]*)\s*_\s*\{?\s*(\d{1,3})\s*\}?", re.ASCII)
_BASE = re.compile(r"[0-9)]\}?\s*_\s*\{?\s*(\w+)")
_BASE_NAMES: Final = {"2": "binary", "8": "octal", "16": "hexadecimal"}
_PAIR = re.compile(r"(\d+)\s*\{?:\}?\s*(\d+)", re.ASCII)
_CLOCK = re.compile(r"\d+(?::\d+){2,}", re.ASCII)
_PRIME = re.compile(r"'|\\prime(?![A-Za-z])")
_DEGREE = re.compile(r"\\circ(?![A-Za-z])|\\degree(?![A-Za-z])")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_SPEAKS_OF: Final = {
    "percent": re.compile(r"%|percent", re.IGNORECASE),
    "angle": re.compile(r"angle|degree|\\circ|\u00b0|\barc|rotat", re.IGNORECASE),
}
_RELATION = re.compile(r"[<>]|\\(?:not|neq?|[lg]eq?|[lg]eqslant|[lg]t|sim|in|to)(?![A-Za-z])")
_SYMBOL = re.compile(
    r"\\(?!(?:pi|infty|frac|text\w*|math\w+|[a-z]*dots|sqrt|cdot|times|div|pm|q?quad)(?![A-Za-z]))[A-Za-z]+|(?<![A-Za-z\\])(?![ei](?![A-Za-z]))[A-Za-z]+"
)
_NAME = re.compile(r"[A-Za-z]{1,12}'*|[A-Za-z]+_(?:\w|\{\w+\})|[A-Za-z]+\([A-Za-z0-9, ]*\)")
_QUANTITY_NAMES: Final = """
    answer result value total sum difference product number average mean median area volume
    perimeter length width height radius distance angle slope degree speed time age cost price
    profit ratio probability of the a is final
"""
_QUANTITIES: Final = frozenset(_QUANTITY_NAMES.split())
_COUNTED = re.compile(
    r"\b(?:how many|number of|many|\d+)\s+((?:[a-z]+\s+){0,2}[a-z]+)|\b([a-z]{3,}s)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold (right) answer, how to compare with it (`kind`), and the text of its problem."""

    text: str
    kind: GoldKind
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Golds:
    """The gold answers of a file: usable ones by task key, and reasons for refused lines."""

    usable: dict[str, Gold]
    refused: dict[int, str]


def sort_golds(rows: Sequence[MathRow], verifier: Verifier) -> Golds:
    """Sorts gold answers into usable ones and those that `verifier` cannot compare (refused)."""
    golds = {row.key: Gold(row.gold, _kind(row.gold), row.problem) for row in rows}
    hard = [row for row in rows if golds[row.key].kind == "expression"]
    questions = [
        _question(gold := golds[r.key], _gold_quantity(gold), _gold_quantity(gold)) for r in hard
    ]
    checks = verifier.check([q or {} for q in questions]) if hard else []
    refused: dict[int, str] = {}
    for row, question, check in zip(hard, questions, checks, strict=True):
        reason = _refusal(question is not None, check)
        if reason and "\\text" in row.gold:
            golds[row.key] = replace(golds[row.key], kind="words")
        elif reason:
            refused[row.line] = reason
            del golds[row.key]
    return Golds(golds, refused)


def _kind(text: str) -> GoldKind:
    if literal(text) is not None:
        return "literal"
    # A single letter may be a choice or a variable: as words both are compared alike.
    return "expression" if words(text) is None else "words"


def _refusal(is_question: bool, check: Comparison) -> str:
    """Returns why a gold answer cannot be graded, or "" if it can."""
    if not is_question:
        return "the gold has two numbers side by side"
    if check.end != "ok":
        return f"the gold cannot be checked ({check.end})"
    if check.reason:
        return "the gold does not parse"
    return "" if check.equal else "the gold is not equal to itself"


def grade_text(gold: Gold, text: str, verifier: Verifier) -> Outcome:
    """Grades a reply by its final answer. Other values after the final answer must be right too."""
    reply = read_reply(text)
    if reply.answer is None:
        return Outcome(False, {"verdict": "no_answer"})
    outcome = grade_answer(gold, reply.answer, verifier)
    others = rivals(reply, gold.problem) if outcome.success else []
    if all(grade_answer(replace(gold, problem=""), other, verifier).success for other in others):
        return outcome
    return Outcome(False, {"verdict": "several_answers", "answer": reply.answer})


def grade_answer(gold: Gold, answer: str, verifier: Verifier) -> Outcome:
    """Grades one answer, taken out of its reply, against the gold answer."""
    if len(answer) > _answer.MAX_ANSWER_CHARS:
        return Outcome(False, {"verdict": "answer_too_long"})
    bare = _answer.undressed(answer)
    if gold.kind == "words" or _reads_same(gold, bare):
        return _outcome("equal" if _same_words(gold, bare) else "different", answer, "words")
    value, *rounded = [bare] if _ABOUT.search(gold.text) else _ABOUT.split(_listed(bare, gold.text))
    outcome = _outcome("several_answers", answer)
    for side in _sides(value.strip(), gold):
        outcome = _graded_value(gold, side, answer, verifier)
        if not outcome.success:
            return outcome
    if not all(_is_rounded(gold, text.strip(), verifier) for text in rounded):
        return _outcome("several_answers", answer)
    return outcome


def _outcome(verdict: str, answer: str, compared_by: str = "", reason: str = "") -> Outcome:
    detail: dict[str, JSON] = {"verdict": verdict, "answer": answer}
    detail |= {"compared_by": compared_by} if compared_by else {}
    return Outcome(verdict == "equal", detail | ({"reason": reason} if reason else {}))


def _same_words(gold: Gold, answer: str) -> bool:
    gold_words = words(gold.text)
    if gold_words is None or gold_words not in (words(answer), _answer.choice(answer)):
        return _reads_same(gold, answer)
    return True


def _reads_same(gold: Gold, answer: str) -> bool:
    r"""Returns whether a gold answer has words (`\text`) and the answer reads the same."""
    plain = _answer.plain_text
    return "\\text" in gold.text and plain(answer) == plain(gold.text) != ""


def _listed(answer: str, gold: str) -> str:
    r"""Returns `1 \text{ and } 2` as a list if the gold is a list."""
    return _LISTING.sub(",", answer) if _is_list(gold) else answer


def _is_list(gold: str) -> bool:
    return "," in gold or "\\pm" in gold or _LISTING.search(gold) is not None


def _sides(answer: str, gold: Gold) -> list[str]:
    """Returns the values that a chain of equations states: `6 * 7` and `42` for `x = 6 * 7 = 42`.

    A name on the left is no value. If the gold answer is an equation, each value is made into one
    with the same left side. The list is empty if there are more than six values.
    """
    sides = [side.strip() for side in _EQUALS.split(answer)]
    is_chain = all(side and side.count("{") == side.count("}") for side in sides)
    golden = _EQUALS.split(gold.text)
    if "," in answer or len(golden) > 2 or len(sides) < 2 or not is_chain:
        return [answer]
    first, *others = sides
    if len(golden) == 2:
        name = golden[0] if re.fullmatch(r"[A-Za-z]\([A-Za-z]\)", first) else first
        sides = [f"{name} = {side}" for side in others]
    elif _is_name(first, gold):
        sides = others
    return list(dict.fromkeys(sides)) if len(sides) <= _MAX_SIDES else []


def _is_name(side: str, gold: Gold) -> bool:
    r"""Returns whether the left side of an equation is a name such as `x`, `f(2)` or `a_{10}`.

    Words are a name if they mean a quantity (`area`) or stand in the problem.
    """
    asides = " ".join(_answer.ASIDES.findall(side))
    plain = re.sub(r"\\[A-Za-z]+", " ", _answer.ASIDES.sub(" ", side))
    long = [run for run in re.findall(r"[A-Za-z]{4,}", plain) if not run.isupper()]
    names = [run.lower() for run in (*re.findall(r"[A-Za-z]{2,}", asides), *long)]
    known_words = _QUANTITIES.union(re.findall("[a-z]+", f"{gold.text} {gold.problem}".lower()))
    if not known_words.issuperset(names) or _EITHER.search(" ".join(names)):
        return False
    if _RELATION.search(side) or side[-1] in "+-*/^_" or not (names or _SYMBOL.search(side)):
        return False
    has_digits = re.search(r"\d", gold.text) and not re.search(r"\d", side)
    return bool(_NAME.fullmatch(side) or has_digits)


def _nouns(gold: Gold) -> frozenset[str]:
    """Returns, in the singular, what a problem counts and the words of the gold answer."""
    counted = [
        word for pair in _COUNTED.findall(gold.problem.lower()) for word in " ".join(pair).split()
    ]
    return frozenset(
        singular(w) for w in (*counted, *re.findall("[A-Za-z]{2,}", gold.text)) if len(w) > 1
    )


def _gold_quantity(gold: Gold) -> Quantity:
    """Returns the gold as a value with its unit."""
    text = _listed(_answer.undressed(gold.text), gold.text)
    letters = re.sub(r"\\[A-Za-z]+|[A-Za-z]{3,}", "", text)
    return _answer.quantity(text, _nouns(gold), letters) or Quantity(text, Unit())


def _graded_value(gold: Gold, text: str, answer: str, verifier: Verifier) -> Outcome:
    """Grades one value of an answer, most often the only one."""
    target = _gold_quantity(gold)
    quantity = _answer.quantity(text, _nouns(gold), target.value)
    if quantity is None or (_form.lists_more(quantity.value) and not _is_list(gold.text)):
        return _outcome("several_answers", answer)
    if _form.restates(quantity.value, gold.text, gold.problem):
        return _outcome("restates_the_problem", answer)
    if not _form.is_finished(quantity.value, target.value):
        return _outcome("not_worked_out", answer)
    if _is_other_kind(quantity, target, gold, answer):
        return _outcome("different", answer, "literal")
    question = _question(gold, target, quantity)
    if question is None:
        return _outcome("unparsable_answer", answer, reason="two numbers stand side by side")
    number, gold_number = literal(str(question["answer"])), literal(str(question["gold"]))
    if number is not None and gold_number is not None and not question.get("form"):
        return _outcome("equal" if number == gold_number else "different", answer, "literal")
    (check,) = verifier.check([question])
    if check.end != "ok" or check.reason:
        verdict = "unparsable_answer" if check.end == "ok" else check.end
        return _outcome(verdict, answer, reason=check.reason)
    verdict = "equal" if check.equal else "wrong_form" if check.wrong_form else "different"
    return _outcome(verdict, answer, "algebra")


def _is_other_kind(quantity: Quantity, target: Quantity, gold: Gold, answer: str) -> bool:
    """Returns whether units, bases, ratios, clock times or derivatives differ.

    An answer may leave out a unit of the gold. A percent or degree sign, or a base, that only one
    of both has must be in the problem, since it changes the value.
    """
    unit, other = quantity.unit, target.unit
    if unit.dims != other.dims and (
        (unit.dims and other.dims) or unit.is_compound or other.is_compound
    ):
        return True
    for name, _ in unit.dims - other.dims:
        speaks = _SPEAKS_OF.get(name)
        if speaks and not speaks.search(
            gold.problem + gold.text + " ".join(answer.split("=")[:-1])
        ):
            return True
    value, target_value = quantity.value, target.value
    return (
        len(_PRIME.findall(value)) != len(_PRIME.findall(target_value))
        or _has_other_degrees(value, target_value, gold.problem)
        or _has_other_base(value, target_value, gold.problem)
        or _is_other_ratio(value, target_value)
    )


def _has_other_degrees(value: str, target: str, problem: str) -> bool:
    missing = len(_DEGREE.findall(target)) - len(_DEGREE.findall(value))
    is_free = missing > 0 and not _TRIGONOMETRY.search(value)
    return missing != 0 and not is_free and not _SPEAKS_OF["angle"].search(problem)


def _has_other_base(value: str, target: str, problem: str) -> bool:
    bases, golden = sorted(_BASE.findall(value)), sorted(_BASE.findall(target))
    based = _BASED.fullmatch(value)
    if based and not all(int(sign, 36) < int(based[2]) <= 36 for sign in based[1].lstrip("-")):
        return True
    if bases == golden:
        return False
    (base, *others) = {*bases, *golden}
    is_said = re.search(rf"(?<!\d){base}(?!\d)", problem) or "base" in problem.lower()
    is_said = is_said or _BASE_NAMES.get(base, "base") in problem.lower()
    return bool(others) or (bool(bases) and bool(golden)) or not (base == "10" or is_said)


def _is_other_ratio(value: str, target: str) -> bool:
    pair, golden_pair = _PAIR.fullmatch(value), _PAIR.fullmatch(target)
    if golden_pair and (pair or len(golden_pair[2]) > 1):
        return pair is None or (int(pair[1]), pair[2]) != (int(golden_pair[1]), golden_pair[2])
    terms, golden = len(_form.ratio(value)), len(_form.ratio(target))
    if terms != golden and max(terms, golden) > 2:
        return True
    value, target = re.sub(r"[\s{}]", "", value), re.sub(r"[\s{}]", "", target)
    is_clock = _CLOCK.fullmatch(value) and _CLOCK.fullmatch(target)
    return bool(is_clock) and value.lstrip("0") != target.lstrip("0")


def _question(gold: Gold, target: Quantity, answer: Quantity) -> dict[str, JSON] | None:
    """Returns what the worker is asked; None if two numbers stand side by side in the answer."""
    ratio = answer.unit.factor / target.unit.factor
    if answer.unit.dims and target.unit.dims:
        ratio *= answer.unit.size / target.unit.size
    texts = [_answer.exact(_plain(part.value)) for part in (target, answer)]
    if texts[0] is None or texts[1] is None:
        return None
    number = literal(texts[1])
    if number is not None:
        texts[1] = _fraction(number * ratio)
    elif ratio != 1:
        texts[1] = rf"{_fraction(ratio)}\cdot({texts[1]})"
    question: dict[str, JSON] = {"gold": texts[0], "answer": texts[1]}
    digits = re.fullmatch(r"-?(\d*)\.(\d+)", answer.value)
    if digits and ratio == 1:
        significant = (digits[1] + digits[2]).lstrip("0")
        question |= {"places": len(digits[2]), "digits": len(significant)}
    form = _form.asked_form(gold.problem)
    return question | {"form": form} if form else question


def _plain(value: str) -> str:
    """Returns a value without its base; a ratio as a fraction, or as a tuple from three terms."""
    if based := _BASED.fullmatch(value):
        return based[1]
    if len(terms := _form.ratio(value)) > 2:
        return f"({', '.join(terms)})"
    pair = _PAIR.fullmatch(value)
    return rf"\frac{{{pair[1]}}}{{{pair[2]}}}" if pair and int(pair[2]) else value


def _fraction(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else _answer.as_fraction(number)


def _is_rounded(gold: Gold, text: str, verifier: Verifier) -> bool:
    """Returns whether a number after `\\approx` is the gold answer, rounded to as many places."""
    number, target = literal(text), literal(gold.text)
    digits = re.fullmatch(r"-?\d[\d,]*(?:\.(\d+))?", text)
    if number is None or digits is None:
        return False
    places = len(digits[1] or "")
    if target is not None:
        return abs(number - target) * 2 <= Fraction(1, 10**places)
    gold_text = _answer.exact(_gold_quantity(gold).value) or ""
    question: dict[str, JSON] = {"gold": gold_text, "answer": _fraction(number)}
    return verifier.check([question | {"places": places, "digits": 6}])[0].equal
