r"""Reads the final answer of a model's reply, and the other values that the reply offers after it.

`read_reply` takes the last box, with the boxes that words join to it (`\boxed{1}` or `\boxed{2}`).
Without a box it takes the last `####` line, else what follows the last "answer is" or "answer:", up
to an explanation. A number elsewhere in the reply is no answer.

`rivals` returns the values that stand after the answer and could be answers too. A value is left
out if it equals the answer, is part of a calculation, follows a preposition (`of 43`), stands in an
explanation (`since`, `where`), or stands in the problem or in the reasoning before the answer.

Does not cover: doubt without a second value (`\boxed{42}, perhaps`) and values spelled in words.
Neither gains anything, since only the one answer is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from meta_agent.domains.formats.boxes import last_boxes
from meta_agent.domains.math._answer import ASIDES, MAX_ANSWER_CHARS, literal, words

_TEXT_LIMIT_CHARS: Final = 1 << 20  # of a reply: the end of a longer one
_REST_LIMIT_CHARS: Final = 4000  # after an answer; more is not read
_REASONING_CHARS: Final = 1 << 16  # before an answer, read for the numbers in it
_HASHES = re.compile(r"####[ \t]*((?:(?!####)[^\n])+)")
_SAID = re.compile(r"\banswer\s*+\**+\s*+(?:is|:|=)\s*+:?\s*+\**+\s*+([^\n]{1,400})", re.IGNORECASE)
_FORMULA = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")
_SENTENCE_END = re.compile(r"\.(?:\s|$)")
_OPERATOR: Final = (
    r"(?:[-+*/^_=<>|!\u2212\u00d7\u00b7\u00f7\u2248\u2264\u2265]|(?<!\w):(?=\d)"
    r"|\\(?:cdot|times|div|[dt]?frac|sqrt|[pb]?mod|approx|[lg]eq?|neq?|equiv|pm|in|d?binom)"
    r"(?![A-Za-z]))"
)
_EXPLAINING: Final = (
    r"(?:since|because|as|where|when|which|that|who|with|for|so|thus|hence|therefore|i\.?e|after"
    r"|before|by|from|using|namely|not|while|if and only if|[a-z]+ing)"
)
_EXPLAINS = re.compile(rf"\s*{_EXPLAINING}\b", re.IGNORECASE)
_EXPLAINED = re.compile(
    rf"(?<=[^\s,;(])(?:[,;]?\s+{_EXPLAINING}\b|\s+\(\s*(?:{_EXPLAINING}\b|[^()]*\d\s*=))"
)
_GOVERNS = re.compile(
    r"\b(?i:of|from|by|with|in|at|to|than|for|on|into|over|under|between|after|before|per|within"
    r"|through|until|modulo|mod|base)\s*$|(?<=\w )[A-Z][a-z]+\s*$"
)
_CALCULATED = re.compile(rf"{_OPERATOR}[\s{{(]*$"), re.compile(rf"[\s}})]*{_OPERATOR}")
_JOINED = re.compile(r"\s*(?:,|and|to|-)?\s*")
_OR = re.compile(r"[\s$]*(?:or|\\lor|\\vee|\u2228)(?![A-Za-z])", re.IGNORECASE)
_GOES_ON = re.compile(
    r"[ \t$]*(?:[-+*/^\u2212\u00d7\u00b7\u00f7]|\\(?:cdot|times|div|pm)(?![A-Za-z]))\s*\{?[\d(\\]"
    r"(?<!\\)[^\s,;$]*"
)
_DRESS = re.compile(r"\\(?:quad|qquad|[,;:! ()\[\]])|\*\*|[~$]")
_SENTENCES = re.compile(r"(?<=[.!?])[ \t]+|(?<=[\u3002\uff01\uff1f])|(\n)")
_CLAUSES = re.compile(
    r"([,;:](?=\s|$)|\s[-\u2013\u2014]+\s++(?!\d)|(?<![\w}*/+^=-])\(|\)(?=[\s.,;]|$))"
)
_VALUE = re.compile(
    r"(?<![A-Za-z0-9\\{^.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+|\s*\\?%)?"
    r"(?![A-Za-z0-9])|\\[dt]?frac\s*\{-?\d+\}\s*\{\d+\}",
    re.ASCII,
)
_UNIT_AND_END = re.compile(r"(?:\s*[^\W\d]+)?[\s.!?)\u3002]*")
_END = re.compile(r"[\s.!?)\u3002]*")
_LEADING_WORDS = re.compile(r"(?:[A-Za-z'-]{2,}[\s,:]+)+")


class Reply(NamedTuple):
    """A model's reply: its final answer or None, and the text before and after it (`rest`)."""

    answer: str | None
    before: str = ""
    rest: str = ""


def final_answer(text: str) -> str | None:
    r"""Returns a reply's last `\boxed{...}`, else the text after `####` or "answer is", or None."""
    return read_reply(text).answer


def read_reply(text: str) -> Reply:
    """Splits a reply at its final answer. Without one, `answer` is None and both texts are ""."""
    text = text[-_TEXT_LIMIT_CHARS:]
    if box := last_boxes(text):
        return _reply(text, box.content, box.start, box.end)
    if hashes := list(_HASHES.finditer(text)):
        return _reply(text, hashes[-1][1].strip(" \t#"), hashes[-1].start(), hashes[-1].end())
    if statements := list(_SAID.finditer(text)):
        sentence = _SENTENCE_END.split(statements[-1][1], maxsplit=1)[0]
        explained = _EXPLAINED.search(sentence)
        sentence = sentence[: explained.start()] if explained else sentence
        start = statements[-1].start(1)
        value = _FORMULA.sub(r"\1", sentence).strip(" *$")
        return _reply(text, value, start, start + len(sentence))
    return Reply(None)


def _reply(text: str, answer: str, start: int, end: int) -> Reply:
    answer = answer.strip()
    if not answer or len(answer) > MAX_ANSWER_CHARS:
        return Reply(None)
    return Reply(answer, text[:start][-_REASONING_CHARS:], text[end : end + _REST_LIMIT_CHARS])


def rivals(reply: Reply, problem: str) -> list[str]:
    """Returns values after a reply's final answer that look like other answers to the problem."""
    answer, before, rest = reply
    if answer is None or not rest.strip():
        return []
    if goes_on := _GOES_ON.match(rest):
        return [answer + goes_on[0].replace("$", "")]
    stated, reasoned = _numbers(problem), _numbers(before)
    rest = _DRESS.sub(" ", ASIDES.sub(lambda aside: f" {aside[1]} ", rest))
    values: list[str] = []
    is_same_line = True
    for place, sentence in enumerate(_SENTENCES.split(rest)):
        if sentence is None or sentence == "\n":
            is_same_line = is_same_line and sentence is None
        elif place == 0 or _OR.match(sentence):
            values += _beside(sentence, stated)
        else:
            end = _UNIT_AND_END if is_same_line else _END
            values += [v for v in _alone(sentence, end) if v not in stated | reasoned]
    return [value for value in values if not _says_the_same(value, answer)]


def _numbers(text: str) -> frozenset[str]:
    return frozenset(value[0] for value in _VALUE.finditer(text))


def _beside(sentence: str, numbers: frozenset[str]) -> Iterator[str]:
    """Yields the values after the answer in its own sentence, without explained ones."""
    explained, around = False, list[bool]()
    parts = ["", *_CLAUSES.split(sentence)]
    for sign, clause in zip(parts[::2], parts[1::2], strict=True):
        if sign == "(":
            around.append(explained)
        elif sign == ")" and around:
            explained = around.pop()
        explained = explained or _EXPLAINS.match(clause) is not None
        either = _OR.match(clause)
        if either and not explained:
            value = clause[either.end() :].strip(" .!?")
            yield _LEADING_WORDS.sub("", value, count=1) or value
        elif either or not explained:
            values = _alone(clause, _UNIT_AND_END) if around else _bare(clause)
            yield from (number for number in values if number not in numbers)


def _alone(sentence: str, end: re.Pattern[str]) -> Iterator[str]:
    """Yields the value that a sentence ends in, if the sentence holds no other value."""
    values = list(_VALUE.finditer(sentence))
    if len(values) == 1 and end.fullmatch(sentence, values[0].end()):
        yield from _bare(sentence)


def _bare(clause: str) -> Iterator[str]:
    """Yields the values of a clause that are in no calculation and follow no preposition."""
    ahead, behind = _CALCULATED
    end, free = 0, True
    for value in _VALUE.finditer(clause):
        between = clause[end : value.start()]
        joined = end > 0 and _JOINED.fullmatch(between) is not None
        free = free if joined else _GOVERNS.search(between) is None
        end = value.end()
        if free and not ahead.search(between) and not behind.match(clause, end):
            yield value[0]


def _says_the_same(value: str, answer: str) -> bool:
    """Returns whether a value repeats the answer (maybe rounded) or is about something else."""
    number, target = literal(value), literal(answer)
    if number is None or value == answer:
        return value == answer
    if target is None:
        return words(answer) is not None or "." in value or value in _numbers(answer)
    if value.endswith("%") and not answer.endswith("%"):
        return True  # a percentage beside a plain number is about something else
    places = len(value.partition(".")[2])
    return number == target or (places > 0 and abs(number - target) * 2 * 10**places <= 1)
