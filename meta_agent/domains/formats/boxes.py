r"""`last_box`: what stands in the last `\boxed{...}` of a text."""

from __future__ import annotations

import re
from typing import NamedTuple

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=[{\s0-9A-Za-z\\$-])")
_BESIDE = re.compile(
    r"\\(?:boxed|fbox)\s*\{([^{}]*)\}[\s$]*"
    r"(?:[,/|][\s$]*(?:\\text\s*\{)?|(?:\\text\s*\{)?\s*(?=[^\W\d_]))"
    r"(?:\s*[^\W\d_]+(?:/[^\W\d_]+)*){0,3}\s*\}?[\s$]*$"
)
_BOXES_TRIED = 50  # from the end; unclosed ones are skipped
_LOOKED_BACK = 200


class Box(NamedTuple):
    """The content of a LaTeX box (boxed or fbox), and the offsets where the box begins and ends."""

    content: str
    start: int
    end: int


def last_box(text: str) -> str | None:
    r"""Returns the content of the last `\boxed{...}` or `\boxed 5` of a text, or None without one.

    Of nested boxes, the outermost counts; the commands of the inner ones are left out.
    """
    box = _last(text)
    return box.content if box else None


def last_boxes(text: str) -> Box | None:
    r"""Returns the last box of a text, or None; `\boxed{1}` or `\boxed{2}` give one box, `1, 2`."""
    box = _last(text)
    if box is None or not box.content:
        return box
    beside = _BESIDE.search(text[max(0, box.start - _LOOKED_BACK) : box.start])
    if beside is None or beside[1].strip() == box.content:
        return box
    return box._replace(content=f"{beside[1].strip()}, {box.content}")


def _last(text: str) -> Box | None:
    for match in reversed(list(_BOX.finditer(text))[-_BOXES_TRIED:]):
        rest = text[match.end() :]
        if not rest.startswith("{"):
            bare = re.match(r"\s*(-?[0-9A-Za-z][0-9.,/]*)", rest)
            if bare:
                answer = bare[1].rstrip(".,")
                return Box(answer, match.start(), match.end() + bare.start(1) + len(answer))
            continue
        content = _braced(rest)
        if content is not None:
            end = match.end() + len(content) + 2
            return _outermost(text, Box(content.strip(), match.start(), end))
    return None


def _outermost(text: str, box: Box) -> Box:
    """Returns the box, or the outermost one around it, without the commands of inner boxes."""
    for outer in list(_BOX.finditer(text, 0, box.start))[-_BOXES_TRIED:]:
        around = _braced(text[outer.end() :])
        if around is not None and outer.end() + len(around) > box.start:
            return Box(_opened(around).strip(), outer.start(), outer.end() + len(around) + 2)
    return box


def _opened(text: str) -> str:
    """Returns the text without the commands and braces of boxes."""
    while (match := _BOX.search(text)) is not None:
        rest = text[match.end() :]
        inside = _braced(rest) if rest.startswith("{") else None
        after = rest if inside is None else inside + rest[len(inside) + 2 :]
        text = text[: match.start()] + after
    return text


def _braced(text: str) -> str | None:
    r"""Returns what stands between the first brace and its partner. Escaped braces do not count."""
    depth, i = 0, 0
    while i < len(text):
        sign = text[i]
        if sign == "\\":
            i += 2
            continue
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[1:i]
        i += 1
    return None
