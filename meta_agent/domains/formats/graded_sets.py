"""Rows of any data set as tasks for a grader of one's own: a prompt, and all that the grader reads.

A row needs a prompt: text under `prompt` (or one of `PROMPTS`), or a list of chat messages. What
else it holds goes to the grader and not to the agent, but for the object `view`. `gold` is an
answer that has to pass, for `tasks check`: text, or what an attempt leaves (`answer`, `calls`,
`files`). A name for a field of ours is given by `--map THEIRS=OURS`.

Promises: two rows with one key are refused by line; the same row twice is one task, counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Split
from meta_agent.domains.formats._fields import Fields
from meta_agent.domains.formats._rows import stream_rows
from meta_agent.domains.formats._splits import hashed_split, stated_split
from meta_agent.domains.formats._task_file import TaskFile

PROMPTS: Final = ("prompt", "question", "problem", "instruction", "input", "query", "messages")
KEYS: Final = ("key", "id", "task_id")
_ASIDE: Final = frozenset({*KEYS, "split"})


@dataclass(frozen=True, slots=True)
class GradedRow:
    """One task. `row` is all of it, for the grader alone."""

    key: str
    prompt: str
    view: Mapping[str, JSON]
    gold: Mapping[str, JSON] | None
    split: Split
    split_is_explicit: bool
    line: int
    row: Mapping[str, JSON]

    @property
    def content_hash(self) -> str:
        return digest([self.key, self.row])


def read_graded(path: Path, mapping: Mapping[str, str]) -> TaskFile[GradedRow]:
    """All rows of a file."""
    return collected(path, stream_rows(path, mapping))


def collected(path: Path, rows: Iterable[Fields]) -> TaskFile[GradedRow]:
    """Rows from anywhere; `ConfigError` where there are none, or two have one key."""
    found, seen, lines = TaskFile[GradedRow](path, "rows"), set[str](), dict[str, int]()
    for fields in rows:
        found.read += 1
        row = _row(fields)
        semantic = _semantic(row)
        if semantic in seen:
            found.duplicates += 1
            continue
        if row.key in lines:
            raise ConfigError(
                f"{path}:{row.line}: the key {row.key!r} is that of line {lines[row.key]} too",
                hint="give every task a key of its own, or none: then its content is its key",
            )
        seen.add(semantic)
        lines[row.key] = row.line
        found.rows.append(row)
    if not found.rows:
        raise ConfigError(f"{path} holds no task: it is empty")
    return found


def _row(fields: Fields) -> GradedRow:
    prompt, messages = _prompt(fields)
    shown = fields.nested("view")
    view: dict[str, JSON] = {**(dict(shown.row) if shown else {}), "prompt": prompt}
    if messages:
        view["messages"] = messages
    split = stated_split(fields)
    content = digest(_content(fields.row))
    stated = next((str(fields.row[k]) for k in KEYS if fields.row.get(k) is not None), "")
    return GradedRow(
        key=stated or f"task-{content[:12]}",
        prompt=prompt,
        view=view,
        gold=_gold(fields),
        split=split or hashed_split(content),
        split_is_explicit=split is not None,
        line=fields.line,
        row=dict(fields.row),
    )


def _prompt(fields: Fields) -> tuple[str, list[JSON]]:
    for name in PROMPTS:
        value = fields.row.get(name)
        if isinstance(value, str) and value.strip():
            return value, []
        if isinstance(value, list) and value and all(_is_message(one) for one in value):
            return "\n\n".join(str(one["content"]) for one in value), value
    found = ", ".join(sorted(fields.row)[:12]) or "nothing"
    raise ConfigError(
        f"{fields.path}:{fields.line}: no prompt in it; it has the fields {found}",
        hint=f"--map FIELD=prompt, or name the field one of {', '.join(PROMPTS)}",
    )


def _is_message(value: JSON) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str) and "role" in value


def _gold(fields: Fields) -> Mapping[str, JSON] | None:
    value = fields.row.get("gold")
    if value is None:
        return None
    if isinstance(value, dict) and value and value.keys() <= {"answer", "calls", "files"}:
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"answer": text}


def _content(row: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in row.items() if name not in _ASIDE}


def _semantic(row: GradedRow) -> str:
    return digest(_content(row.row))


def digest(value: JSON) -> str:
    """The hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
