"""The rollout record as JSON, schema version 1, as it is stored and as harness code receives it.

Promises: `from_json(to_json(r)) == r` for every rollout without tokens. A reader ignores keys that
it does not know, since a later version may add some. If a required key is missing or has the wrong
type, it raises an `IntegrityError` that names the key. Token rows are stored separately
(`tokens_to_json`), since only training reads them and they are most of the bytes.

Does not cover: files (`store.py`) and the formats of other tools.
"""

from __future__ import annotations

import json
import math
from typing import Any, get_args

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import (
    JSON,
    SPLITS,
    ErrorKind,
    Rollout,
    RolloutFailure,
    StopReason,
    TokenRecord,
    ToolEvent,
    ViewChange,
)

SCHEMA_VERSION = 1
_STOP_REASONS = frozenset(get_args(StopReason))
_ERROR_KINDS = frozenset(get_args(ErrorKind))
_Fields = tuple[tuple[str, type], ...]
_IDENTITY: _Fields = (
    ("run", str),
    ("version", str),
    ("domain", str),
    ("split", str),
    ("task_key", str),
    ("task_hash", str),
    ("group_id", str),
    ("sample_idx", int),
    ("seed", int),
    ("harness_commit", str),
    ("policy", str),
    ("evaluator_hash", str),
)
_TOKENS: _Fields = (
    ("prompt_ids", list),
    ("completion_ids", list),
    ("mask", list),
    ("logprobs", list),
    ("exact", bool),
)
_EVENT: _Fields = (("turn", int), ("tool", str), ("arguments", dict), ("result", str), ("ok", bool))
_VIEW: _Fields = (("turn", int), ("kept", int), ("lost", int), ("gone", list))


def to_json(rollout: Rollout) -> dict[str, JSON]:
    """Returns a rollout as JSON, without tokens. It shares the rollout's lists: do not edit it."""
    record: dict[str, JSON] = {
        "schema_version": SCHEMA_VERSION,
        **_written(rollout, _IDENTITY),
        "messages": rollout.messages,
        "tool_events": [_written(event, _EVENT) for event in rollout.tool_events],
        "rewards": rollout.rewards,
        "weights": rollout.weights,
        "advantage": rollout.advantage,
        "outcome": rollout.outcome,
        "outcome_detail": rollout.outcome_detail,
        "verifier_inputs": rollout.verifier_inputs,
        "stop_reason": rollout.stop_reason,
        "error": _failure_to_json(rollout.error),
        "flags": rollout.flags,
        "turns": rollout.turns,
        "timings": rollout.timings,
        "cost": rollout.cost,
    }
    if rollout.cut_replies:
        record["cut_replies"] = rollout.cut_replies
    if rollout.judged is not None:
        record["judged"] = rollout.judged
    if rollout.views:
        record["views"] = [_view_to_json(view) for view in rollout.views]
    return record


def to_line(rollout: Rollout, *, tokens: bool = False) -> bytes:
    """Returns a rollout as one line of JSON, newline included, with its tokens if `tokens`.

    Raises IntegrityError if it holds a value that JSON cannot express, such as NaN.
    """
    record = to_json(rollout)
    if tokens and rollout.tokens is not None:
        record["tokens"] = tokens_to_json(rollout.tokens)
    try:
        text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        name = f"{rollout.task_key}#{rollout.sample_idx}"
        raise IntegrityError(
            f"rollout {name} cannot be stored as JSON: {error}; correct the code that made the "
            "value: it must use JSON types and finite numbers"
        ) from error
    return text.encode() + b"\n"


def from_json(record: JSON) -> Rollout:
    """Returns the rollout in a JSON record, without tokens.

    Raises IntegrityError, which names the key, if a value is missing or has the wrong type.
    """
    if not isinstance(record, dict):
        raise IntegrityError(
            f"a stored rollout must be a JSON object, not {type(record).__name__}; restore its "
            "file from a copy"
        )
    if record.get("schema_version") != SCHEMA_VERSION:
        version = record.get("schema_version")
        raise IntegrityError(
            f"a stored rollout has schema_version {version!r}, but this version reads 1; open it "
            "with the version of meta-agent that wrote it"
        )
    rollout = Rollout(**_read(record, _IDENTITY))
    _read_story(rollout, record)
    _read_scores(rollout, record)
    return rollout


def _read_story(rollout: Rollout, record: dict[str, JSON]) -> None:
    rollout.split = _one_of(record, "split", frozenset(SPLITS))
    rollout.messages = _need(record, "messages", list)
    rollout.tool_events = [
        ToolEvent(**_read(e, _EVENT)) for e in _need(record, "tool_events", list)
    ]
    rollout.stop_reason = _one_of(record, "stop_reason", _STOP_REASONS)
    rollout.error = _failure_from_json(_maybe(record, "error", dict))
    rollout.turns = _need(record, "turns", int)
    rollout.flags = _need(record, "flags", list)
    if "cut_replies" in record:
        rollout.cut_replies = _need(record, "cut_replies", int)
    if "judged" in record:
        rollout.judged = _need(record, "judged", str)
    if "views" in record:
        rollout.views = [_view_from_json(view) for view in _need(record, "views", list)]


def _read_scores(rollout: Rollout, record: dict[str, JSON]) -> None:
    rollout.rewards = _numbers(record, "rewards")
    rollout.weights = _numbers(record, "weights")
    rollout.advantage = _maybe(record, "advantage", float)
    rollout.outcome = _maybe(record, "outcome", bool)
    rollout.outcome_detail = _need(record, "outcome_detail", dict)
    rollout.verifier_inputs = _need(record, "verifier_inputs", dict)
    rollout.timings = _numbers(record, "timings")
    rollout.cost = _numbers(record, "cost")


def tokens_to_json(tokens: TokenRecord) -> dict[str, JSON]:
    """Returns a rollout's tokens (ids, mask and log-probabilities) as JSON."""
    return _written(tokens, _TOKENS)


def tokens_from_json(record: JSON) -> TokenRecord:
    """Returns the tokens in a JSON record. Raises IntegrityError if a field is missing or wrong."""
    row = TokenRecord(**_read(record, _TOKENS))
    if not len(row.completion_ids) == len(row.mask) == len(row.logprobs):
        raise IntegrityError(
            "completion_ids, mask and logprobs of a stored rollout differ in length; restore its "
            "file from a copy"
        )
    return row


def _written(record: object, fields: _Fields) -> dict[str, JSON]:
    return {name: getattr(record, name) for name, _ in fields}


def _read(record: dict[str, JSON], fields: _Fields) -> dict[str, Any]:
    return {name: _need(record, name, kind) for name, kind in fields}


def _view_to_json(view: ViewChange) -> dict[str, JSON]:
    values = (view.turn, view.unchanged, view.lost, view.removed)
    return {name: value for (name, _), value in zip(_VIEW, values, strict=True)}


def _view_from_json(record: dict[str, JSON]) -> ViewChange:
    return ViewChange(*_read(record, _VIEW).values())


def _failure_to_json(failure: RolloutFailure | None) -> dict[str, JSON] | None:
    return None if failure is None else {"kind": failure.kind, "detail": failure.detail}


def _failure_from_json(record: dict[str, JSON] | None) -> RolloutFailure | None:
    if record is None:
        return None
    return RolloutFailure(_one_of(record, "kind", _ERROR_KINDS), _need(record, "detail", str))


def _need(record: dict[str, JSON], name: str, kind: type) -> Any:
    try:
        value = record[name]
    except (KeyError, TypeError):
        raise IntegrityError(
            f"a stored rollout lacks the field {name!r}; restore its file from a copy"
        ) from None
    # bool is an int in Python and never one in a record
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise IntegrityError(
        f"{name} of a stored rollout is {value!r:.80}, not {kind.__name__}; restore its file from "
        "a copy"
    )


def _maybe(record: dict[str, JSON], name: str, kind: type) -> Any:
    if name in record and record[name] is None:
        return None
    return _need(record, name, kind)


def _one_of(record: dict[str, JSON], name: str, allowed: frozenset[str]) -> Any:
    value = _need(record, name, str)
    if value not in allowed:
        raise IntegrityError(
            f"{name} of a stored rollout is {value!r}, not one of {sorted(allowed)}; restore its "
            "file from a copy"
        )
    return value


def _numbers(record: dict[str, JSON], name: str) -> dict[str, float]:
    values: dict[str, float] = _need(record, name, dict)
    for key, value in values.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise IntegrityError(
                f"{name}[{key!r}] of a stored rollout is {value!r:.80}, not a finite number; "
                "restore its file from a copy"
            )
    return values
