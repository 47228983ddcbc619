"""The sealed grader of math: the answer a text ends in, against the gold.

Promises: a gold is taken only if it can be graded at all (a literal number, words, or something
that math-verify parses and finds equal to itself); others are refused when a file is loaded, with
their lines. Then one answer, the last box first, is compared: literals exactly, words as words, all
else by algebra in the worker. No answer, an answer that does not parse, one that runs out of time:
each is an unsolved attempt that says which it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from meta_agent.core.protocols import Outcome
from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math._answer import (
    MAX_ANSWER_CHARS,
    choice,
    literal,
    words,
)
from meta_agent.domains.math._dress import plain_text, undressed
from meta_agent.domains.math._finished import why_unfinished
from meta_agent.domains.math._reply import others, read_reply
from meta_agent.domains.math._sides import bases_differ, listed, strays, values
from meta_agent.domains.math._verify import Comparison, Verifier

_PERCENT = re.compile(r"\s*\\?%\s*$")
_SPACING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]|[\s$~]+")
_MIN_RESTATED_CHARS: Final = 4
GoldKind = Literal["literal", "words", "expression"]


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold answer that can be graded. `problem`: what it answers, where that is known."""

    text: str
    kind: GoldKind
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Golds:
    """What a file's golds are good for. `refused`: line -> why."""

    usable: dict[str, Gold]
    refused: dict[int, str]


def sort_golds(rows: Sequence[MathRow], verifier: Verifier) -> Golds:
    """Which golds can be graded; only those that need algebra start the worker."""
    usable: dict[str, Gold] = {}
    hard: list[MathRow] = []
    for row in rows:
        gold = _easy(row.gold)
        if gold is None:
            hard.append(row)
        else:
            usable[row.key] = replace(gold, problem=row.problem)
    refused: dict[int, str] = {}
    tried = verifier.check([(row.gold, row.gold) for row in hard]) if hard else []
    for row, seen in zip(hard, tried, strict=True):
        if seen.equal:
            usable[row.key] = Gold(row.gold, "expression", row.problem)
        else:
            refused[row.line] = _refusal(seen)
    return Golds(usable, refused)


def _easy(text: str) -> Gold | None:
    if literal(text) is not None:
        return Gold(text, "literal")
    # A single letter may be a choice or a variable: as words both are compared alike.
    return Gold(text, "words") if words(text) is not None else None


def _refusal(seen: Comparison) -> str:
    if seen.end != "ok":
        return f"the gold cannot be checked ({seen.end})"
    return "the gold does not parse" if not seen.gold_parsed else "the gold is not equal to itself"


def grade_text(gold: Gold, text: str, verifier: Verifier) -> Outcome:
    """Grades a reply: its answer, and whatever else it offers as one, have to be right."""
    reply = read_reply(text)
    if reply.answer is None:
        return Outcome(False, {"verdict": "no_answer"})
    found = grade_answer(gold, reply.answer, verifier)
    if found.success and not all(_is_right(gold, o, verifier) for o in others(reply, gold.problem)):
        return Outcome(False, {"verdict": "several_answers", "answer": reply.answer})
    return found


def _is_right(gold: Gold, other: str, verifier: Verifier) -> bool:
    return grade_answer(gold, other, verifier).success


def grade_answer(gold: Gold, answer: str, verifier: Verifier) -> Outcome:
    """Grades one answer, already told from the text around it."""
    if len(answer) > MAX_ANSWER_CHARS:
        return Outcome(False, {"verdict": "answer_too_long"})
    bare = undressed(answer)
    if gold.kind == "words":
        return _told(_same_words(gold.text, bare) or _reads_same(gold, bare), "words", answer)
    if gold.kind == "expression" and _reads_same(gold, bare):
        return _told(True, "words", answer)
    if refused := _refused(gold, bare):
        return Outcome(False, {"verdict": refused, "answer": answer})
    found = Outcome(False, {"verdict": "several_answers", "answer": answer})
    for value in values(listed(bare, gold.text), gold.text, gold.problem):
        found = _value(gold, value, answer, verifier)
        if not found.success:
            break
    return found


def _refused(gold: Gold, answer: str) -> str:
    """Why an answer is none, whatever it comes to; empty where it may be compared."""
    if strays(listed(answer, gold.text), gold.text):
        return "several_answers"
    return "restates_the_problem" if _restates(gold, answer) else ""


def _restates(gold: Gold, answer: str) -> bool:
    """An expression of the problem, handed back: the library would do the work.

    Not where the gold holds it too, and not for a plain number.
    """
    said = _squeezed(answer)
    if literal(answer) is not None or len(said) < _MIN_RESTATED_CHARS:
        return False
    return said in _squeezed(gold.problem) and said not in _squeezed(gold.text)


def _squeezed(text: str) -> str:
    return _SPACING.sub("", text).replace("dfrac", "frac").replace("tfrac", "frac")


def _value(gold: Gold, value: str, answer: str, verifier: Verifier) -> Outcome:
    """One value of an answer, most often the only one."""
    if refused := why_unfinished(value, gold.text, gold.problem):
        return Outcome(False, {"verdict": refused, "answer": answer})
    if bases_differ(value, gold.text):
        return _told(False, "literal", answer)
    number, wanted = literal(value), literal(gold.text)
    if number is not None and wanted is not None:
        return _told(_equal(number, wanted), "literal", answer)
    (seen,) = verifier.check([(gold.text, _without_percent(gold.text, value))])
    if seen.end != "ok":
        return Outcome(False, {"verdict": seen.end, "answer": answer, "detail": seen.detail})
    if not seen.answer_parsed:
        return Outcome(False, {"verdict": "unparsable_answer", "answer": answer})
    return _told(seen.equal, "algebra", answer)


def _without_percent(gold: str, answer: str) -> str:
    """A percent sign is a unit here as it is for literals; the library would divide by 100."""
    return answer if "%" in gold else _PERCENT.sub("", answer)


def _told(equal: bool, how: str, answer: str) -> Outcome:
    verdict = "equal" if equal else "different"
    return Outcome(equal, {"verdict": verdict, "compared_by": how, "answer": answer})


def _equal(value: Fraction, wanted: Fraction) -> bool:
    return value == wanted


def _same_words(gold: str, answer: str) -> bool:
    wanted = words(gold)
    if words(answer) is not None and words(answer) == wanted:
        return True
    return wanted is not None and len(wanted) == 1 and choice(answer) == wanted


def _reads_same(gold: Gold, answer: str) -> bool:
    r"""The same words and numbers, where the gold has words: `\text{June 20}` and `June 20`."""
    return "\\text" in gold.text and plain_text(answer) == plain_text(gold.text) != ""
