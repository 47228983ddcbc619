"""The rollout record as JSON, schema version 1, as it is stored and as harness code receives it.

Promises: `from_json(to_json(r)) == r` for every rollout without tokens. A reader ignores keys that
it does not know, since a later version may add some. If a required key is missing or has the wrong
type, it raises an `IntegrityError` that names the key. Token rows are stored separately
(`tokens_to_json`), since only training reads them and they are most of the bytes.

Pydantic checks values, never JSON text: its parser refuses halves of surrogate pairs, which models
write. Does not cover: files (`store.py`) and the formats of other tools.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import (
    JSON,
    ErrorKind,
    Rollout,
    RolloutFailure,
    Split,
    StopReason,
    TokenRecord,
    ToolEvent,
    ViewChange,
)

SCHEMA_VERSION = 1
_STRICT: Final = ConfigDict(strict=True, allow_inf_nan=False)


@with_config(_STRICT)
class _Event(TypedDict):
    turn: int
    tool: str
    arguments: dict[str, Any]
    result: str
    ok: bool


_View = TypedDict("_View", {"turn": int, "kept": int, "lost": int, "gone": list[Any]})  # noqa: UP013
with_config(_STRICT)(_View)


@with_config(_STRICT)
class _Failure(TypedDict):
    kind: ErrorKind
    detail: str


@with_config(_STRICT)
class _Record(TypedDict):
    run: str
    version: str
    domain: str
    split: Split
    task_key: str
    task_hash: str
    group_id: str
    sample_idx: int
    seed: int
    harness_commit: str
    policy: str
    evaluator_hash: str
    messages: list[Any]
    tool_events: list[_Event]
    rewards: dict[str, float]
    weights: dict[str, float]
    advantage: float | None
    outcome: bool | None
    outcome_detail: dict[str, Any]
    verifier_inputs: dict[str, Any]
    stop_reason: StopReason
    error: _Failure | None
    flags: list[Any]
    turns: int
    timings: dict[str, float]
    cost: dict[str, float]
    cut_replies: NotRequired[int]
    judged: NotRequired[str]
    views: NotRequired[list[_View]]


@with_config(_STRICT)
class _Tokens(TypedDict):
    prompt_ids: list[Any]
    completion_ids: list[Any]
    mask: list[Any]
    logprobs: list[Any]
    exact: bool


_RECORD: Final = TypeAdapter(_Record)
_TOKENS: Final = TypeAdapter(_Tokens)
_LEFT_OUT: Final = ("cut_replies", "judged", "views")
"""Fields of a rollout that are stored only if they say something."""
_NOTHING: Final[tuple[JSON, ...]] = (0, None, [])
_OWN: Final = [f.name for f in fields(Rollout) if f.name not in ("tokens", *_LEFT_OUT)]


def to_json(rollout: Rollout) -> dict[str, JSON]:
    """Returns a rollout as JSON, without tokens. It shares the rollout's lists: do not edit it."""
    record: dict[str, JSON] = {"schema_version": SCHEMA_VERSION}
    record |= {name: getattr(rollout, name) for name in _OWN}
    record["tool_events"] = [
        {name: getattr(event, name) for name in _Event.__annotations__}
        for event in rollout.tool_events
    ]
    if rollout.error is not None:
        record["error"] = {"kind": rollout.error.kind, "detail": rollout.error.detail}
    record |= {
        name: value for name in _LEFT_OUT if (value := getattr(rollout, name)) not in _NOTHING
    }
    if rollout.views:
        record["views"] = [
            {"turn": view.turn, "kept": view.unchanged, "lost": view.lost, "gone": view.removed}
            for view in rollout.views
        ]
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
    version = record.get("schema_version") if isinstance(record, dict) else None
    if isinstance(record, dict) and version != SCHEMA_VERSION:
        raise IntegrityError(
            f"a stored rollout has schema_version {version!r}, but this version reads 1; open it "
            "with the version of meta-agent that wrote it"
        )
    values: dict[str, Any] = {**_checked(_RECORD, record)}
    values["tool_events"] = [ToolEvent(**event) for event in values["tool_events"]]
    values["error"] = values["error"] and RolloutFailure(**values["error"])
    views = [
        ViewChange(v["turn"], v["kept"], v["lost"], v["gone"]) for v in values.pop("views", ())
    ]
    return Rollout(**values, views=views)


def tokens_to_json(tokens: TokenRecord) -> dict[str, JSON]:
    """Returns a rollout's tokens (ids, mask and log-probabilities) as JSON."""
    return {name: getattr(tokens, name) for name in _Tokens.__annotations__}


def tokens_from_json(record: JSON) -> TokenRecord:
    """Returns the tokens in a JSON record. Raises IntegrityError if a field is missing or wrong."""
    row = TokenRecord(**_checked(_TOKENS, record))
    if not len(row.completion_ids) == len(row.mask) == len(row.logprobs):
        raise IntegrityError(
            "completion_ids, mask and logprobs of a stored rollout differ in length; restore its "
            "file from a copy"
        )
    return row


def _checked(form: TypeAdapter[Any], record: JSON) -> Any:
    """Returns the fields of a record. Raises IntegrityError, which names the first wrong one."""
    try:
        return form.validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"])) or "the record"
        value = "missing" if first["type"] == "missing" else f"{first['input']!r:.80}"
        raise IntegrityError(
            f"{name} of a stored rollout is {value}: {first['msg']}; restore its file from a copy"
        ) from None
