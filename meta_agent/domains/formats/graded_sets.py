"""Reads rows of any data set as tasks for the user's own grader.

A row needs a prompt: text under `prompt` (or one of `PROMPTS`), or a list of chat messages. The
agent sees the prompt and the object `view`. Curricula and slices see the object `labels`, such as
`{"level": "2"}`. Other fields are for the grader alone. `gold` is an answer that has to pass in
`tasks check`: text, or what an attempt leaves (`answer`, `calls`, `files`). `--map` renames fields.

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
from meta_agent.domains.formats.rows import Fields, TaskFile, collected, split_of, stream_rows

PROMPTS: Final = ("prompt", "question", "problem", "instruction", "input", "query", "messages")
KEYS: Final = ("key", "id", "task_id")
_ASIDE: Final = frozenset({*KEYS, "split"})


@dataclass(frozen=True, slots=True)
class GradedRow:
    """One task for a user's grader. The agent sees `view`; the grader gets the whole `row`."""

    key: str
    prompt: str
    view: Mapping[str, JSON]
    gold: Mapping[str, JSON] | None
    split: Split
    line: int
    row: Mapping[str, JSON]

    @property
    def extra(self) -> Mapping[str, JSON]:
        """Returns the row's `labels`, like {"level": "2"}, or {}. Reports group tasks by them."""
        labels = self.row.get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def content_hash(self) -> str:
        return digest([self.key, self.row])


def read_graded(
    path: Path, mapping: Mapping[str, str], rows: Iterable[Fields] | None = None
) -> TaskFile[GradedRow]:
    """Returns the tasks in `rows` or, by default, in the file `path`; `mapping` renames fields.

    Raises `ConfigError` if there are no tasks, or if two tasks share a key.
    """
    rows = stream_rows(path, mapping) if rows is None else (row.renamed(mapping) for row in rows)
    task_file = collected(
        path, rows, _row, lambda row: digest(_content(row.row)), lambda row: row.prompt
    )
    lines: dict[str, int] = {}
    for row in task_file.rows:
        if lines.setdefault(row.key, row.line) != row.line:
            raise ConfigError(
                f"{path}:{row.line}: line {lines[row.key]} has the same key {row.key!r}",
                hint="give every task a key of its own, or leave all keys out",
            )
    return task_file


def _row(fields: Fields) -> GradedRow:
    prompt, messages = _prompt(fields)
    visible = fields.nested("view")
    view: dict[str, JSON] = {**(dict(visible.row) if visible else {}), "prompt": prompt}
    if messages:
        view["messages"] = messages
    content = digest(_content(fields.row))
    return GradedRow(
        key=fields.label(*KEYS) or f"task-{content[:12]}",
        prompt=prompt,
        view=view,
        gold=_gold(fields),
        split=split_of(fields, content),
        line=fields.line,
        row=dict(fields.row),
    )


def _prompt(fields: Fields) -> tuple[str, list[JSON]]:
    for name in PROMPTS:
        value = fields.row.get(name)
        if isinstance(value, str) and value.strip():
            return value, []
        if isinstance(value, list) and value and all(_is_message(item) for item in value):
            return "\n\n".join(str(message["content"]) for message in value), value
    raise fields.refused(
        f"this row has no prompt; its fields are {fields.names or 'none'}",
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


def digest(value: JSON) -> str:
    """Returns the SHA-256 hash, in hexadecimal, of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
