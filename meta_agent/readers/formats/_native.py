"""Rollouts as this project keeps them: the record itself, one a line, token row included."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts.record import from_json, to_json, tokens_from_json, tokens_to_json
from meta_agent.readers.formats._files import write_lines
from meta_agent.readers.formats._format import has
from meta_agent.readers.formats._row import RowError

NAME = "meta-agent"


def claims(value: JSON) -> int:
    return 3 if has(value, "schema_version", "task_key", "harness_commit", "messages") else 0


def read_record(value: JSON) -> Rollout:
    """The record of a line; the one reader that needs no draft."""
    try:
        rollout = from_json(value)
        if value.get("tokens") is not None:
            rollout.tokens = tokens_from_json(value["tokens"])
    except IntegrityError as error:
        raise RowError(str(error)) from error
    return rollout


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    record = to_json(rollout)
    if rollout.tokens is not None:
        record["tokens"] = tokens_to_json(rollout.tokens)
    return record
