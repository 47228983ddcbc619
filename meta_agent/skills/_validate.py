"""Validates skill folders: all that the two public validators refuse, and what neither checks.

Promises: a folder without problems here is accepted by the reference library (strict block YAML)
and by the skill creator's quick check, and its links, size and metadata types are right as well.
Not covered: whether the instructions are good, or safe to follow; status and evidence say that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from meta_agent.llm_clients.scrubber import KEY
from meta_agent.skills._format import UnreadableError, parse, read_bytes

FIELDS: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
_FLOW = re.compile(r"^\s*[\w.-]+:\s*[\[{]", re.MULTILINE)
_MARKUP = re.compile(r"^\s*[\w.-]+:\s*[&*!]", re.MULTILINE)
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY, MAX_BODY_LINES = 64, 1024, 500, 500


def validate(folder: Path) -> list[str]:
    """Returns a phrase for every problem of a skill's folder; an empty list means a valid skill."""
    try:
        text = read_bytes(folder).decode("utf-8")
        parsed = parse(text)
    except (UnicodeDecodeError, UnreadableError) as error:
        return [str(error)]
    problems = [*parsed.warnings, *_field_problems(parsed.fields, folder.name)]
    problems += [*_yaml_problems(text), *_body_problems(parsed.body, folder)]
    others = [path for path in sorted(folder.rglob("*")) if not _is_plain(path)]
    if others:
        return [*problems, f"{others[0].relative_to(folder)} is a link or no regular file"]
    return problems + _secret_problems(folder)


def valid_name(name: str) -> bool:
    """Returns True for at most 64 lowercase letters and digits, joined by single hyphens."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def _field_problems(fields: Mapping[str, Any], folder: str) -> Iterator[str]:
    unknown = sorted(fields.keys() - FIELDS)
    if unknown:
        yield f"unknown field {unknown[0]!r}"
    name = fields.get("name")
    if not isinstance(name, str) or not valid_name(name):
        yield f"the name {name!r} is not lowercase words joined by single hyphens"
    elif name != folder:
        yield f"the name {name!r} is not the folder's name {folder!r}"
    yield from _text_problems(fields, "description", MAX_DESCRIPTION)
    yield from _text_problems(fields, "compatibility", MAX_COMPATIBILITY)
    yield from _text_problems(fields, "license", MAX_DESCRIPTION)
    yield from _text_problems(fields, "allowed-tools", MAX_DESCRIPTION)
    if "<" in str(fields.get("description")) or ">" in str(fields.get("description")):
        yield "the description holds an angle bracket"
    yield from _metadata_problems(fields.get("metadata", {}))


def _text_problems(fields: Mapping[str, Any], key: str, limit: int) -> Iterator[str]:
    value = fields.get(key)
    if value is None:
        return
    if not isinstance(value, str) or not value.strip():
        yield f"{key} is not a non-empty string"
    elif len(value) > limit:
        yield f"{key} has {len(value)} characters, over {limit}"


def _metadata_problems(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, dict):
        yield "metadata is not a mapping"
        return
    yield from (
        f"metadata {key!r} is not a string"
        for key, value in metadata.items()
        if not isinstance(value, str)
    )


def _yaml_problems(text: str) -> Iterator[str]:
    head = text.replace("\r\n", "\n").split("\n---", 1)[0]
    if _FLOW.search(head):
        yield "the frontmatter uses flow YAML"
    if _MARKUP.search(head):
        yield "the frontmatter uses a YAML tag or anchor"


def _body_problems(body: str, folder: Path) -> Iterator[str]:
    lines = body.splitlines()
    if not body.strip():
        yield "the body is empty"
    if len(lines) > MAX_BODY_LINES:
        yield f"the body has {len(lines)} lines, over {MAX_BODY_LINES}"
    for target in _LINK.findall(body):
        if "://" not in target and not target.startswith("mailto:"):
            yield from _link_problems(target, folder)


def _link_problems(target: str, folder: Path) -> Iterator[str]:
    resolved = (folder / target).resolve()
    if not resolved.is_relative_to(folder.resolve()):
        yield f"the link {target!r} leaves the folder"
    elif not resolved.exists():
        yield f"the link {target!r} leads nowhere"


def _is_plain(path: Path) -> bool:
    """Returns True for a regular file or a folder, and False for a link to one."""
    return not path.is_symlink() and (path.is_file() or path.is_dir())


def _secret_problems(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    holders = (path for path in files if KEY.search(path.read_text("utf-8", errors="replace")))
    return [f"{path.relative_to(folder)} holds what looks like a key" for path in holders]
