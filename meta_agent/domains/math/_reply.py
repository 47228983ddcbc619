r"""What a reply gives as its answer, and what else it offers beside it.

`read_reply` takes the last box (both of `\boxed{1}` or `\boxed{2}`), else the last `####` line,
else what follows the last "answer is" or "answer:", up to an explanation of it, else nothing: a
number that merely stands somewhere is no answer.

`others` are the answers offered after it, each of which has to be right as well. They are looked
for up to the end of its line, and on through lines that begin with "or". A value there is another
answer unless something accounts for it: it says the same; it is part of a calculation; a
preposition governs it (`of 43`) or a clause explains with it (`since`, `where`, `rejecting`); the
problem states it, or, in a later sentence, the reasoning before. What begins with "or" is another
answer whatever it says.

Does not cover: doubt without a second value after a box (`\boxed{42}, perhaps`), values spelled in
words, and what a later paragraph offers. None earns anything: one answer alone is ever compared,
and it was right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from meta_agent.domains.formats.boxes import last_boxes
from meta_agent.domains.math._answer import MAX_ANSWER_CHARS, literal, words
from meta_agent.domains.math._dress import ASIDES

_TEXT_LIMIT_CHARS: Final = 1 << 20  # of a reply: the end of a longer one
_REST_LIMIT_CHARS: Final = 4000  # after an answer; more is not read
_REASONING_CHARS: Final = 1 << 16  # before an answer, read for the numbers in it
_NEAR: Final = 0.02
_HASHES = re.compile(r"####[ \t]*((?:(?!####)[^\n])+)")
_SAID = re.compile(r"\banswer\s*+(?:is|:|=)\s*+:?\s*+\**+\s*+([^\n]{1,400})", re.IGNORECASE)
_FORMULA = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")
_SENTENCE_END = re.compile(r"\.(?:\s|$)")

_OPERATOR: Final = (
    r"(?:[-+*/^_=<>|:!\u2212\u00d7\u00b7\u00f7\u2248\u2264\u2265]"
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
_OR = re.compile(r"\s*(?:or|\\lor|\\vee|\u2228)(?![A-Za-z])", re.IGNORECASE)
_OR_LINES = re.compile(r"(?:[\s$]*+(?:\\text\w*\s*\{\s*)?or\b[^\n]*+)+", re.IGNORECASE)
_GOES_ON = re.compile(
    r"[\s$]*(?:[-+*^\u2212\u00d7\u00b7]|\\(?:cdot|times|pm)(?![A-Za-z]))\s*\{?\d[^\s,;$]*"
)
_DRESS = re.compile(r"\\(?:quad|qquad|[,;:! ()\[\]])|\*\*|[~$]")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n")
_CLAUSES = re.compile(
    r"([,;:](?=\s|$)|\s[-\u2013\u2014]+\s++(?!\d)|(?<![\w}*/+^=-])\(|\)(?=[\s.,;]|$))"
)
_VALUE = re.compile(
    r"(?<![\w\\{^.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+|\s*\\?%)?(?!\w)"
    r"|\\[dt]?frac\s*\{-?\d+\}\s*\{\d+\}"
)
_UNIT_AND_END = re.compile(r"(?:\s*[^\W\d]+)?[\s.!?)]*")
_LEADING_WORDS = re.compile(r"(?:[A-Za-z'-]{2,}[\s,:]+)+")


class Reply(NamedTuple):
    """`before` and `rest`: the text around the answer, `rest` on to the end of its statement."""

    answer: str | None
    before: str = ""
    rest: str = ""


def final_answer(text: str) -> str | None:
    """The answer a text ends in, or None where it gives none."""
    return read_reply(text).answer


def read_reply(text: str) -> Reply:
    """The answer a text ends in, and what stands around it."""
    text = text[-_TEXT_LIMIT_CHARS:]
    box = last_boxes(text)
    if box is not None:
        return _reply(text, box.content, box.start, box.end)
    hashes = list(_HASHES.finditer(text))
    if hashes:
        return _reply(text, hashes[-1][1].strip(" \t#"), hashes[-1].start(), hashes[-1].end())
    said = list(_SAID.finditer(text))
    if said:
        sentence = _sentence(said[-1][1])
        start = said[-1].start(1)
        value = _FORMULA.sub(r"\1", sentence).strip(" *$")
        return _reply(text, value, start, start + len(sentence))
    return Reply(None)


def _sentence(said: str) -> str:
    """Up to an explanation or the end of the sentence; a decimal point ends none."""
    end = _SENTENCE_END.search(said)
    sentence = said[: end.start()] if end else said
    explained = _EXPLAINED.search(sentence)
    return sentence[: explained.start()] if explained else sentence


def _reply(text: str, answer: str, start: int, end: int) -> Reply:
    answer = answer.strip()
    if not answer or len(answer) > MAX_ANSWER_CHARS:
        return Reply(None)
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    more = _OR_LINES.match(text, line_end)
    stop = min(more.end() if more else line_end, end + _REST_LIMIT_CHARS)
    return Reply(answer, text[:start], text[end:stop])


def others(reply: Reply, problem: str) -> list[str]:
    """The answers that a reply offers after its own one and that do not plainly say the same."""
    answer, before, rest = reply
    if answer is None or not rest.strip():
        return []
    if goes_on := _GOES_ON.match(rest):
        return [answer + goes_on[0]]
    stated, reasoned = _said_in(problem), _said_in(before[-_REASONING_CHARS:])
    told = _DRESS.sub(" ", ASIDES.sub(lambda aside: f" {aside[1]} ", rest))
    found: list[str] = []
    for place, sentence in enumerate(_SENTENCES.split(told)):
        if place == 0 or _OR.match(sentence):
            found += _beside(sentence, stated)
        else:
            found += [one for one in _alone(sentence) if one not in stated | reasoned]
    return [one for one in found if not _says_the_same(one, answer)]


def _said_in(text: str) -> frozenset[str]:
    return frozenset(value[0] for value in _VALUE.finditer(text))


def _beside(sentence: str, known: frozenset[str]) -> Iterator[str]:
    """The values in the sentence of the answer that nothing accounts for."""
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
            said = clause[either.end() :].strip(" .!?")
            yield _LEADING_WORDS.sub("", said, count=1) or said
        elif either or not explained:
            found = _alone(clause) if around else _bare(clause)
            yield from (one for one in found if one not in known)


def _alone(sentence: str) -> Iterator[str]:
    """The one value of a sentence that ends in it; where there are more, it tells of something."""
    values = list(_VALUE.finditer(sentence))
    if len(values) == 1 and _UNIT_AND_END.fullmatch(sentence, values[0].end()):
        yield from _bare(sentence)


def _bare(clause: str) -> Iterator[str]:
    """The values of a clause that stand alone, in no calculation and governed by nothing."""
    ahead, behind = _CALCULATED
    end, free = 0, True
    for value in _VALUE.finditer(clause):
        between = clause[end : value.start()]
        joined = end > 0 and _JOINED.fullmatch(between) is not None
        free = free if joined else _GOVERNS.search(between) is None
        end = value.end()
        if free and not ahead.search(between) and not behind.match(clause, end):
            yield value[0]


def _says_the_same(one: str, answer: str) -> bool:
    """The same number, or near it; beside words any, else beside no number its own or a decimal."""
    value, wanted = literal(one), literal(answer)
    if value is None or one == answer:
        return one == answer
    if wanted is None:
        return words(answer) is not None or "." in one or one in _said_in(answer)
    scale = 100 if one.endswith("%") and not answer.endswith("%") else 1
    if value in (wanted, wanted * scale):
        return True
    return "." in one and abs(value - wanted) <= _NEAR * abs(wanted)
