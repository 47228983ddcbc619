"""Writes and reads SKILL.md: written strictly, read leniently.

Promises: what `render` writes is in the intersection of the public validators (block
YAML, quoted strings, LF, no BOM). `parse` accepts what other people's tools write,
returns every scalar as a string, and warns of what it accepted. It refuses YAML aliases,
so a small file cannot grow in memory.
Not covered: whether a skill is true. That is measured, and recorded in its metadata.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_FRONTMATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*\n?(.*)\Z", re.DOTALL | re.MULTILINE)
_BARE_COLON = re.compile(r"^([a-z-]+): +([^\"'\[{|>#&*!].*: .*)$", re.MULTILINE)

# A plain value that YAML would end at the hash.
_BARE_HASH = re.compile(r"^description: +([^\"'\[{|>#&*!].*?[ \t]#.*)$", re.MULTILINE)

MAX_BYTES: Final = 256 << 10
MAX_HEAD_CHARS: Final = 64 << 10


class Parsed(NamedTuple):
    """The fields and the text of a SKILL.md file, with warnings about its form."""

    fields: Mapping[str, Any]
    body: str
    warnings: tuple[str, ...]


class UnreadableError(ValueError):
    """Raised for a SKILL.md file without usable fields at its head; such a skill is skipped."""


class _Strings(yaml.BaseLoader):
    """A YAML loader that returns every scalar as a string. Aliases and repeated keys are errors."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise UnreadableError("the frontmatter of SKILL.md has a YAML alias; write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(child.value for child, _ in node.value if isinstance(child.value, str))
        repeated = sorted(key for key, count in keys.items() if count > 1)
        if repeated:
            raise UnreadableError(
                f"SKILL.md has {repeated[0]!r} twice in its frontmatter; remove one"
            )
        return dict(super().construct_mapping(node, deep=True))


def render(
    name: str,
    description: str,
    metadata: Mapping[str, str],
    body: str,
    extra: Mapping[str, str] | None = None,
) -> str:
    """Returns the text of a SKILL.md file in the strict form that Agent Skills validators accept.

    `extra` holds further optional fields, such as the license.
    """
    lines = ["---", f"name: {name}", f"description: {_quoted(description)}"]
    lines += [f"{key}: {_quoted(value)}" for key, value in (extra or {}).items()]
    if metadata:
        lines += ["metadata:", *(f"  {key}: {_quoted(metadata[key])}" for key in sorted(metadata))]
    return "\n".join([*lines, "---", "", body.replace("\r\n", "\n").strip(), ""])


def read_bytes(folder: Path) -> bytes:
    """Returns the content of a folder's SKILL.md.

    Raises UnreadableError if it is missing, a link, no regular file or above 256 KiB.
    """
    try:
        # Without O_NONBLOCK a FIFO would wait for its writer.
        file = os.open(folder / "SKILL.md", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UnreadableError("there is no SKILL.md") from None
    except OSError as error:
        raise UnreadableError(f"SKILL.md cannot be read: {error.strerror}") from error
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableError("SKILL.md is not a regular file")
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"SKILL.md is larger than {MAX_BYTES >> 10} KiB")
    return data


def parse(text: str) -> Parsed:
    """Parses a SKILL.md. Raises UnreadableError if it has broken YAML or no description."""
    clean, warnings = _normalised(text)
    match = _FRONTMATTER.match(clean)
    if match is None:
        raise UnreadableError(
            "SKILL.md does not begin with frontmatter between --- lines; add it with a description"
        )
    if len(match[1]) > MAX_HEAD_CHARS:
        raise UnreadableError(
            f"the frontmatter of SKILL.md has {len(match[1])} characters, over {MAX_HEAD_CHARS}"
        )
    fields, more = _load(match[1])
    if not str(fields.get("description") or "").strip():
        raise UnreadableError("the frontmatter of SKILL.md has no description; add one")
    return Parsed(fields, match[2].strip(), (*warnings, *more))


def _quoted(text: str) -> str:
    """Returns a double-quoted YAML string. JSON's escapes are a subset of YAML's."""
    visible = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return json.dumps(visible, ensure_ascii=False)


def _normalised(text: str) -> tuple[str, tuple[str, ...]]:
    odd = {"starts with a byte order mark": text[:1] == "\ufeff", "has CR line ends": "\r" in text}
    clean = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return clean, tuple(what for what, present in odd.items() if present)


def _load(raw: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    whole = _BARE_HASH.sub(lambda match: f"description: {json.dumps(match[1])}", raw)
    warnings = () if whole == raw else ("the description has a ' #' and is not quoted",)
    try:
        return _mapping(whole), warnings
    except yaml.YAMLError:
        quoted = _BARE_COLON.sub(lambda match: f"{match[1]}: {json.dumps(match[2])}", whole)
    try:
        return _mapping(quoted), (*warnings, "a value with a colon is not quoted")
    except yaml.YAMLError as error:
        raise UnreadableError(f"correct the frontmatter of SKILL.md: {error}") from error


def _mapping(raw: str) -> Mapping[str, Any]:
    try:
        loaded = yaml.load(raw, Loader=_Strings)
    except RecursionError:
        raise UnreadableError("the frontmatter of SKILL.md is nested too deeply") from None
    if not isinstance(loaded, dict):
        raise UnreadableError("the frontmatter of SKILL.md must have NAME: VALUE lines")
    return loaded
