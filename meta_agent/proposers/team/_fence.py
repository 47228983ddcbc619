"""Untrusted text on its way into a prompt: fenced, labelled as data, and with nothing hidden.

Promises: a fence closes only where we closed it (the label is not to be had from the text: where it
occurs there, other words take its place); control, bidirectional, zero-width and other invisible
characters arrive as visible escapes. The label depends on the run and the dialogue alone, so a
repeated run sends the same bytes.

Does not cover: a model that follows what it was told is data. It holds no key, network or grader,
and what it writes is judged by others.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from meta_agent.core.parsing.unseen import unseen

_LABEL_CHARS = 10
_IN_PLACE = "[fence label]"
_BLANKS = r"\s{0,3}"
_NO_MARKS = str.maketrans("<>", "()")


@dataclass(frozen=True, slots=True)
class Fence:
    """Marks untrusted text in prompts as data, by lines before and after it."""

    label: str

    @classmethod
    def of(cls, run: str, conversation: str) -> Fence:
        """Returns the fence for a conversation of a run; a hash of both names is in its marks."""
        digest = hashlib.sha256(f"fence\0{run}\0{conversation}".encode()).hexdigest()
        return cls(digest[:_LABEL_CHARS])

    def wrap(self, title: str, text: str) -> str:
        """Returns untrusted text between two marks; the opening one holds `title`."""
        body = self._unlabelled(visible(text)).rstrip("\n")
        name = " ".join(self._unlabelled(visible(title)).split()).translate(_NO_MARKS)
        return f"<data {self.label} {name}>\n{body}\n</data {self.label}>"

    def _unlabelled(self, text: str) -> str:
        """Replaces and never deletes, or two halves around one label would become another.

        Also with blanks in it, and where other signs stand for some of its own: what is not ASCII
        may look like anything.
        """
        plain = text if text.isascii() else _bare(text)
        parts, at = list[str](), 0
        for start, end in self._matches(plain):
            if start >= at:
                parts += [plain[at:start], _IN_PLACE]
                at = end
        return "".join([*parts, plain[at:]]) if parts else text

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        alike = _BLANKS.join(rf"(?:{sign}|[^\s\x00-\x7f])" for sign in self.label)
        for match in re.finditer(f"(?=({alike}))", text, re.IGNORECASE):
            signs = "".join(match[1].split())
            same = sum(a.lower() == b for a, b in zip(signs, self.label, strict=True))
            if same * 2 >= len(self.label):
                yield match.span(1)


def _bare(text: str) -> str:
    """Returns the text without accents, strokes and other marks upon letters."""
    plain = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def visible(text: str) -> str:
    """Returns the text with control and invisible characters written as escapes such as `\\x1b`."""
    return "".join(c if c in "\n\t" or not unseen(c) else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clip(text: str, limit: int) -> str:
    """Returns the text; over `limit` characters, its two ends and a line on what is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[-tail:]}"
