"""Writing exports: whole or not at all, one record after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from meta_agent.core.durable import AtomicFile
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, Rollout


def open_target(path: Path) -> AtomicFile:
    """A file beside the target that takes its name when it is done."""
    try:
        return AtomicFile(path.parent, path.name)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def write_lines(records: Iterable[JSON], path: Path) -> int:
    """JSON lines; returns how many."""
    count, file = 0, open_target(path)
    try:
        for record in records:
            # ASCII: a lone surrogate in a model's text has no other way through UTF-8.
            file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            count += 1
        file.publish(path.name)
    finally:
        file.discard()
    return count


def split_prompt(rollout: Rollout) -> tuple[list[JSON], list[JSON]]:
    """What the model was given before it first spoke, and all from there on."""
    first = next(
        (i for i, m in enumerate(rollout.messages) if m["role"] == "assistant"),
        len(rollout.messages),
    )
    return list(rollout.messages[:first]), list(rollout.messages[first:])


def known(**fields: JSON) -> dict[str, JSON]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [], "")}
