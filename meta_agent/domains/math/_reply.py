r"""Reads the final answer of a model's reply, and the other values that the reply offers after it.

`read_reply` takes the last box, with the boxes that words join to it (`\boxed{1}` or `\boxed{2}`).
Without a box it takes the last `####` line, else what follows the last "answer is" or "answer:", up
to an explanation. A number elsewhere in the reply is no answer.

`rivals` returns the values that stand after the answer and must be right too: a formula that the
box begins (`\boxed{42} \pm 1`), any other value of the answer's own sentence, and a later sentence
that ends in one. Left out are numbers of the problem, moduli, bases and labels (`Theorem 5`), what
equals the answer, and an explanation (`since`, `where`) that says more than a value.

Does not cover: doubt without a second value (`\boxed{42}, perhaps`) and values spelled in words.
Neither gains anything, since only the one answer is compared.
"""

from __future__ import annotations

import re
import unicodedata
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
_SIGN: Final = (
    r"(?:[-+*/^_=<>\u00b1\u2212\u00d7\u00b7\u00f7\u2192\u2208\u2248\u2264\u2265\u2260]|(?<!\w):(?=\d)"
    r"|\\(?:cdot|times|div|pm|mp|approx|[lg]eq?|neq?|equiv|to|in|sim|[Rr]ightarrow)(?![A-Za-z]))"
)
_ATOM: Final = (
    r"(?:\d+(?:[.,]\d+)*|\.\d+|,\d{3}(?!\d)|\\(?:[dt]?frac|sqrt|d?binom|pi|infty|theta)(?![A-Za-z])"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z']|\s+[A-Za-z]{2})|[\u00b2\u00b3\u00bc-\u00be{}])"
)
_TERMS: Final = rf"{_ATOM}(?:[ \t]*(?:{_SIGN}[ \t]*)*{_ATOM}|[()](?=[\d(\\]))*\)?"
_TAIL = re.compile(rf"(?:[ \t]*{_SIGN})+[ \t]*(?:\()?{_TERMS}")
_ATTACHED = re.compile(_TERMS)
_CLOSING = re.compile(r"(?:[ \t]*(?:\*\*|\$+|\\[)\]]))*")
_EXPRESSION = re.compile(
    rf"(?<![A-Za-z^_])(?:{_SIGN}[ \t]*)*(?!\d+(?:st|nd|rd|th)\b){_TERMS}(?:\s?\\?%)?"
)
_OPERANDS = re.compile(
    r"\d+(?:[.,]\d+)*|\\(?:pi|sqrt|[dt]?frac)|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])"
)
_SPOKEN: Final = (
    (re.compile(r"(?<!\\)\btimes\b"), r"\\cdot"),
    (re.compile(r"\bdivided by\b"), "/"),
    (re.compile(r"\bplus\b"), "+"),
    (re.compile(r"\bminus\b"), "-"),
    (re.compile(r"\s*\+\s*/\s*[-\u2212\u2013]\s*"), r" \\pm "),
    (re.compile(r"\\(?:lor|vee)(?![A-Za-z])|\u2228"), " or "),
    (re.compile(r"(?m)^\s*\d{1,2}[.)]\s+(?=[A-Za-z*])"), "\n"),
    (
        re.compile(
            r"\\\\(?:\[[^\]]*\])?|<br\s*/?>|\\?[&|]"
            r"|\\(?:mid|[vV]ert|backslash|newline)(?![A-Za-z])|\\/"
        ),
        " ; ",
    ),
)
_OPERATOR: Final = rf"(?:{_SIGN}|[|!]|\\(?:[dt]?frac|sqrt|[pb]?mod|d?binom)(?![A-Za-z]))"
_EXPLAINING: Final = (
    r"(?:since|because|as|where|when|which|that|who|with|for|so|thus|hence|therefore|i\.?e|after"
    r"|before|by|from|using|namely|not|while|if and only if|[a-z]+ing)"
)
_EXPLAINS = re.compile(rf"(?:^|(?<=[\s$]))({_EXPLAINING})\b", re.IGNORECASE)
_DEFINE_WORDS: Final = "since because as where when with for while if"
_DEFINES: Final = frozenset(_DEFINE_WORDS.split())
_REJECT_WORDS: Final = "rejecting discarding excluding ignoring dropping"
_REJECTS: Final = frozenset(_REJECT_WORDS.split())
_EMPTY_WORDS: Final = """
    the its are was were been being could can may might maybe perhaps possibly probably also other
    another one answer value result root solution equals equal that this which and not about around
    rather than instead have get
"""
_SAYS_NOTHING: Final = frozenset(_EMPTY_WORDS.split())
_LABELLED = re.compile(
    r"(?i:\bmod(?:ulo)?\b|\bbase\b|\\[pb]?mod|\b(?:theorem|lemma|step|case|problem|example|part|"
    r"option|equation|eq\.?))[\s({]*$"
)
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
_DRESS = re.compile(r"\\(?:quad|qquad|left|right|[,;:! ()\[\]])(?![A-Za-z])|\*\*|[~$`\"]")
_BULLET = re.compile(r"\s*[-*\u2022]\s+")
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
_LEADING_WORDS = re.compile(r"^(?:[A-Za-z'-]{2,}[\s,:]+)+")


class MathReply(NamedTuple):
    """A model's reply: its final answer or None, and the text before and after it (`rest`)."""

    answer: str | None
    before: str = ""
    rest: str = ""


def final_answer(text: str) -> str | None:
    r"""Returns a reply's last `\boxed{...}`, else the text after `####` or "answer is", or None."""
    return read_reply(text).answer


def read_reply(text: str) -> MathReply:
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
    return MathReply(None)


def _reply(text: str, answer: str, start: int, end: int) -> MathReply:
    answer = answer.strip()
    if not answer or len(answer) > MAX_ANSWER_CHARS:
        return MathReply(None)
    return MathReply(answer, text[:start][-_REASONING_CHARS:], text[end : end + _REST_LIMIT_CHARS])


def rivals(reply: MathReply, problem: str) -> list[str]:
    """Returns values after a reply's final answer that look like other answers to the problem."""
    answer, before, rest = reply
    if answer is None or not rest.strip():
        return []
    rest = "".join(str(unicodedata.digit(c)) if c.isdecimal() else c for c in rest)
    for pattern, sign in _SPOKEN:
        rest = pattern.sub(sign, rest)
    closing = _CLOSING.match(rest)
    start = closing.end() if closing else 0
    tail = _TAIL.match(rest, start)
    if tail is None:
        is_open = start == 0 and before.replace("$$", "$").count("$") % 2 == 1
        tail = _ATTACHED.match(rest, re.match(r"\s*", rest).end() if is_open else start)  # type: ignore[union-attr]
        tail = tail if is_open or start == 0 else None
    values: list[str] = []
    if tail and re.search(r"\w|\\", tail[0].replace("\\circ", "")):
        values.append(f"{answer} {tail[0].strip()}")
        rest = rest[tail.end() :]
    stated, reasoned = _numbers(problem), _numbers(before)
    rest = _DRESS.sub(" ", ASIDES.sub(lambda aside: f" {aside[1]} ", rest))
    is_same_line = True
    for place, sentence in enumerate(_SENTENCES.split(rest)):
        if sentence is None or sentence == "\n":
            is_same_line = is_same_line and sentence is None
        elif place == 0 or _OR.match(sentence):
            values += filter(None, (_rival(value, answer) for value in _beside(sentence, stated)))
        else:
            end = _UNIT_AND_END if is_same_line else _END
            lone = _alone(_BULLET.sub("", sentence, count=1), end)
            lone_values = [v for v in lone if v not in stated | reasoned and not v.endswith("%")]
            values += filter(None, (_rival(value, answer) for value in lone_values))
    return values


def _numbers(text: str) -> frozenset[str]:
    return frozenset(value[0] for value in _VALUE.finditer(text))


def _beside(sentence: str, stated: frozenset[str]) -> Iterator[str]:
    """Yields the values of the answer's own sentence, without numbers that the problem states."""
    cause, explanation, around = "", "", list[tuple[str, str]]()
    parts = ["", *_CLAUSES.split(sentence)]
    for sign, clause in zip(parts[::2], parts[1::2], strict=True):
        if sign == "(":
            around.append((cause, explanation))
        elif sign == ")" and around:
            yield from _explained(cause, explanation, stated)
            cause, explanation = around.pop()
        if cause:
            explanation += f" {clause}"
        elif either := _OR.match(clause):
            value = clause[either.end() :].strip(" .!?")
            yield _LEADING_WORDS.sub("", value, count=1) or value
        elif explains := _EXPLAINS.search(clause):
            yield from _expressions(clause[: explains.start()], stated)
            cause, explanation = explains[1].lower(), clause[explains.end() :]
        else:
            yield from _expressions(clause, stated)
    yield from _explained(cause, explanation, stated)


def _explained(cause: str, text: str, stated: frozenset[str]) -> Iterator[str]:
    """Yields the values of an explanation if it says nothing else, such as `since 41`."""
    words_of_it = {word.lower() for word in re.findall(r"(?<!\\)\b[^\W\d_]{3,}", text)}
    if not cause or cause in _REJECTS or words_of_it - _SAYS_NOTHING:
        return
    for value in _expressions(text, stated):
        if cause not in _DEFINES or len(_OPERANDS.findall(value)) < 2:
            yield value


def _expressions(clause: str, stated: frozenset[str]) -> Iterator[str]:
    """Yields formulas and numbers of a clause, but no modulus, label or number in `stated`."""
    for match in _EXPRESSION.finditer(clause):
        value = match[0].strip(" \t{}").lstrip("=:*")
        has_value = re.search(r"\d|\\(?!circ)[a-z]|[\u00b2\u00b3\u00bc-\u00be]", value)
        is_power = value[:1] == "^" and clause[: match.start()].rstrip()[-1:].isalpha()  # of a unit
        if has_value is None or is_power or value in stated:
            continue
        if not _LABELLED.search(clause[: match.start()]):
            yield value


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
        is_label = _LABELLED.search(between) is not None
        if free and not is_label and not ahead.search(between) and not behind.match(clause, end):
            yield value[0]


def _rival(value: str, answer: str) -> str:
    """Returns what must be right beside the answer: a decimal as its rounding; "" for nothing."""
    target = literal(answer)
    number = literal(value if target is not None else value.rpartition("=")[2])
    if value == answer or (number is not None and number == target):
        return ""
    if words(answer) is not None and number is not None:
        return ""  # a number beside words is about something else
    if number is not None and target is None and _numbers(value) <= _numbers(answer):
        return ""
    if number is not None and value.endswith("%") and target == number / 100:
        return ""
    return rf"{answer} \approx {value}" if re.fullmatch(r"-?[\d,]*\.\d+", value) else value
