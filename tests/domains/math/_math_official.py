"""The official string graders of GSM8K and MATH, written down from what they do.

GSM8K reads the first `#### number`, drops commas, and compares strings. MATH normalises a fixed
list of spellings (spaces, units, `dfrac`, `\\left`, percent and degree signs, `a/b`, `0.5`, `x=`)
and compares strings; two empty answers are equal.
"""

from __future__ import annotations

import re

_HASHES = re.compile(r"#### (-?[0-9.,]+)")


def gsm8k_answer(text: str) -> str | None:
    found = _HASHES.search(text)
    return found[1].strip().replace(",", "") if found else None


def gsm8k_correct(reply: str, gold: str) -> bool:
    said = gsm8k_answer(reply)
    return said is not None and said == gsm8k_answer(f"#### {gold}")


def math_equal(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return math_normal(one) == math_normal(other)
    except (AssertionError, IndexError):
        return one == other


def math_normal(text: str) -> str:
    text = text.replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    text = text.replace("\\left", "").replace("\\right", "")
    text = text.replace("^{\\circ}", "").replace("^\\circ", "").replace("\\$", "")
    text = _without_unit(text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    text = "0" + text if text[0] == "." else text
    left, equals, right = text.partition("=")
    if equals and "=" not in right and len(left) <= 2:
        text = right
    text = _braced_roots(text).replace(" ", "")
    text = _braced_fractions(text)
    text = "\\frac{1}{2}" if text == "0.5" else text
    return _as_fraction(text)


def _without_unit(text: str) -> str:
    if "\\text{ " not in text:
        return text
    parts = text.split("\\text{ ")
    assert len(parts) == 2
    return parts[0]


def _braced_roots(text: str) -> str:
    first, *rest = text.split("\\sqrt")
    for part in rest:
        first += "\\sqrt" + (part if part[0] == "{" else "{" + part[0] + "}" + part[1:])
    return first


def _braced_fractions(text: str) -> str:
    first, *rest = text.split("\\frac")
    for part in rest:
        if part[0] == "{":
            first += "\\frac" + part
            continue
        assert len(part) >= 2
        over, under, tail = part[0], part[1], part[2:]
        first += "\\frac{" + over + "}" + (under + tail if under == "{" else f"{{{under}}}{tail}")
    return first


def _as_fraction(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        over, under = int(parts[0]), int(parts[1])
    except ValueError:
        return text
    return f"\\frac{{{over}}}{{{under}}}" if text == f"{over}/{under}" else text


_LAST_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


def gsm8k_last_number(reply: str, gold: str) -> bool:
    """The lenient reading of GSM8K: the last thing that looks like a number."""
    found = _LAST_NUMBER.findall(reply)
    last = next((one for one in found[-1] if one), "") if found else ""
    return re.sub(r",|\$|\.$", "", last) == gold.replace(",", "")


def aime_correct(reply: str, gold: str) -> bool:
    """AIME as it is commonly run: the last box, else what is between dollars, as a string."""
    signs = [place for place, sign in enumerate(reply) if sign == "$"]
    answer = reply[signs[0] + 1 : signs[-1]] if len(signs) > 1 else reply
    box = last_box(reply)
    return math_equal(answer if box is None else box, gold)


def last_box(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    depth = 0
    for place in range(start, len(text)) if start >= 0 else ():
        depth += (text[place] == "{") - (text[place] == "}")
        if text[place] == "}" and depth == 0:
            return text[start + len("\\boxed{") : place]
    return None
