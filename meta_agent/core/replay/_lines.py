"""Parses only those fields of a stored rollout that a replay needs.

Promises: `slim(line)` returns exactly what parsing the whole line would. Messages and tool events
are most of a record and are not needed here. So they are cut out between neighbouring keys, and the
rest is parsed as one object. A cut at the wrong place leaves brackets over or takes keys away.
Then, or if keys come in another order, the whole line is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts.record import to_line

_HEAD_END: Final = b',"messages":'
_TAIL_START: Final = b',"rewards":{'
_KEYS: Final = frozenset(
    {"group_id", "task_key", "harness_commit", "rewards", "weights", "outcome", "flags", "error"}
)
_RAW: Final = json.JSONDecoder().raw_decode


class Slim(NamedTuple):
    """A stored rollout as its line of JSON, with the fields that scoring it again needs."""

    line: bytes
    group_id: str
    task_key: str
    harness_commit: str
    rewards: Mapping[str, float]
    weights: Mapping[str, float]
    outcome: bool
    clean: bool
    failed: bool  # ended by an error of whatever kind
    turns: int
    stop_reason: str
    tokens: float  # that the policy wrote; 0 where the record does not say


def slim(record: bytes | Rollout) -> Slim:
    """Returns the fields of a stored rollout that scoring it again needs.

    Raises IntegrityError if `record` is a line that holds no rollout.
    """
    line = to_line(record) if isinstance(record, Rollout) else record
    fields = _cut(line)
    return _of_fields(line, fields if fields is not None else _whole(line))


def _cut(line: bytes) -> dict[str, JSON] | None:
    head_end, tail = line.find(_HEAD_END), line.rfind(_TAIL_START)
    if not 0 < head_end < tail:
        return None
    text = (line[:head_end] + line[tail:]).rstrip().decode()
    try:
        record, end = _RAW(text)
    except ValueError:
        return None
    # A cut below top level leaves brackets over, or takes the real keys away.
    return record if end == len(text) and record.keys() >= _KEYS else None


def _whole(line: bytes) -> dict[str, JSON]:
    try:
        record = json.loads(line)
        if record.keys() >= _KEYS:
            return dict(record)
    except (ValueError, AttributeError) as error:
        raise IntegrityError(
            f"a stored rollout is not a JSON object: {error}; restore the workspace from a copy"
        ) from error
    missing = sorted(_KEYS - record.keys())
    raise IntegrityError(
        f"a stored rollout lacks {', '.join(missing)}; restore the workspace from a copy"
    )


def _of_fields(line: bytes, fields: Mapping[str, JSON]) -> Slim:
    outcome = bool(fields["outcome"])
    return Slim(
        line if line.endswith(b"\n") else line + b"\n",
        fields["group_id"],
        fields["task_key"],
        fields["harness_commit"],
        fields["rewards"],
        fields["weights"],
        outcome,
        outcome and not fields["flags"],
        fields["error"] is not None,
        fields.get("turns") or 0,
        fields.get("stop_reason") or "",
        (fields.get("cost") or {}).get("completion_tokens", 0.0),
    )
