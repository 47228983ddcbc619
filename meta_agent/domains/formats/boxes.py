r"""`last_box`: what stands in the last `\boxed{...}` of a text."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=[{\s0-9A-Za-z\\$-])")
_BESIDE = re.compile(
    r"\\(?:boxed|fbox)\s*\{([^{}]*)\}[\s$.,;:]*(?:or\b|\\text\s*\{\s*or\s*\})[\s$]*$"
)
_BOXES_TRIED = 50  # from the end; unclosed ones are skipped
_LOOKED_BACK = 200


def last_box(text: str) -> str | None:
    r"""The content of the last box whose braces close; `\boxed 5` counts as well.

    Boxes inside it are opened, and what stands around them is part of the answer.
    """
    return _last(text)[1]


def last_boxes(text: str) -> str | None:
    r"""The same, as a list where it is one of two: `\boxed{1}` or `\boxed{2}`."""
    start, found = _last(text)
    beside = _BESIDE.search(text[max(0, start - _LOOKED_BACK) : start]) if found else None
    return f"{beside[1].strip()}, {found}" if beside and beside[1].strip() != found else found


def _last(text: str) -> tuple[int, str | None]:
    for found in reversed(list(_BOX.finditer(text))[-_BOXES_TRIED:]):
        rest = text[found.end() :]
        if not rest.startswith("{"):
            bare = re.match(r"\s*(-?[0-9A-Za-z][0-9.,/]*)", rest)
            if bare:
                return found.start(), bare[1].rstrip(".,")
            continue
        content = _braced(rest)
        if content is not None:
            return _outermost(text, found.start(), content)
    return 0, None


def _outermost(text: str, start: int, content: str) -> tuple[int, str]:
    """A box, or the first one that it lies in, without the boxes inside."""
    for outer in list(_BOX.finditer(text, 0, start))[-_BOXES_TRIED:]:
        around = _braced(text[outer.end() :])
        if around is not None and outer.end() + len(around) > start:
            return outer.start(), _opened(around).strip()
    return start, content.strip()


def _opened(text: str) -> str:
    """Without the commands and braces of boxes."""
    while (found := _BOX.search(text)) is not None:
        rest = text[found.end() :]
        inside = _braced(rest) if rest.startswith("{") else None
        after = rest if inside is None else inside + rest[len(inside) + 2 :]
        text = text[: found.start()] + after
    return text


def _braced(text: str) -> str | None:
    r"""What stands between the first brace and its partner; escaped braces do not count."""
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
