"""Inspect logs: `.json` whole, `.eval` (a zip archive) one sample after the other.

Each scorer's value is a reward; letters become the numbers that Inspect gives them. If exactly one
scorer gives a letter or a truth value, it is the outcome, and C or true means solved. The epochs of
a sample form a group. Replies in a sample's input (worked examples) belong to the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats._draft import AttemptDraft, cost_of
from meta_agent.readers.formats._format import CERTAIN, ERROR_CHARS, Format, Keys
from meta_agent.readers.formats._messages import LeaveOut, parse_messages, text_of
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, finite, has

_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_KEYS: Final = Keys(
    task="id",
    policy="eval.model",
    inputs="target metadata",
    domain="eval.task",
    # Events and what repeats the record's own fields, or says how the log itself is packed.
    skip="events events_data attachments timelines choices model_usage role_usage input output"
    " error_retries uuid started_at completed_at working_time store files setup sandbox",
    stop="limit.type ending",
    stops={
        **{"stop": "returned", "tool_calls": "returned", "content_filter": "returned"},
        **{"max_tokens": "length", "model_length": "token_limit"},
        **{"message": "turn_limit", "turn": "turn_limit", "cost": "turn_limit"},
        **{"token": "token_limit", "time": "wall_limit", "working": "wall_limit"},
    },
)


def _expand(placed: Placed) -> Iterator[Placed]:
    """Yields one row for each sample, with what the log says of all of them."""
    log = as_object(placed.value)
    samples = log.get("samples")
    beside = {"eval": log.get("eval"), "log_status": log.get("status")}
    if not isinstance(samples, list) or not samples:
        yield Placed(placed.place, beside)
        return
    for index, sample in enumerate(samples):
        row = {**sample, **beside} if isinstance(sample, dict) else sample
        yield Placed(f"{placed.place}[{index}]", row)


def _identity(row: SourceRow, path: Path) -> JSON:
    """Returns the sample's name, the same in a log, in its copy and in a retried run."""
    if row.values.get("uuid"):
        return row.values["uuid"]
    run = as_object(row.values.get("eval")).get("run_id")
    return [run, row.values.get("id"), row.values.get("epoch")] if run else None


def _read(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    if not row.object("eval") or row.label("id") is None:
        raise RowError("the log has no samples: it is only a header, or its run ended early")
    choices = row.object("output").items("choices")
    word = as_object(choices[0]).get("stop_reason") if choices else None
    ending = word if isinstance(word, str) else None
    row = SourceRow({**row.values, "ending": ending}, used=row.used)
    draft = _KEYS.draft(row, count)
    messages = parse_messages([_chat(m) for m in row.items("messages") or ()], "messages", count)
    draft.converse(messages, _prompt_messages(row, messages))
    rewards, draft.outcome = _scores(row.object("scores"), count)
    draft.rewards = rewards or None
    draft.task_key = f"{draft.domain}/{draft.task_key}"
    draft.sample_idx = (row.integer("epoch") or 1) - 1
    error, status = row.object("error"), row.text("log_status")
    if error:
        draft.error = RolloutFailure("infra", str(error.get("message"))[:ERROR_CHARS])
        draft.stop_reason = "error"
    models = as_object(row.values.get("model_usage")).values()
    draft.cost = cost_of(None, *(finite(as_object(m).get("total_tokens")) for m in models))
    seconds = row.number("total_time")
    draft.timings = {} if seconds is None else {"total": seconds}
    draft.caveat = "" if status in (None, "success") else f"from a log that ended as {status}"
    return draft


def _prompt_messages(row: SourceRow, messages: Sequence[Message]) -> int | None:
    """Returns how many messages come from the sample's input, or None if it holds no reply.

    Newer logs mark the messages that come from the input. In older ones, the first replies count as
    input as long as they repeat the replies of the input.
    """
    sample_input = row.values.get("input")
    items = sample_input if isinstance(sample_input, list) else []
    texts = [
        text_of(m.get("content"), lambda _: None)
        for m in map(as_object, items)
        if m.get("role") == "assistant"
    ]
    raw = list(map(as_object, row.values.get("messages") or ()))
    replies = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    n_given = 0
    for at, index in enumerate(replies):
        source = raw[index].get("source") if len(raw) == len(messages) else None
        repeated = at < len(texts) and messages[index]["content"] == texts[at]
        if source != "input" and not (repeated and source is None):
            break
        n_given += 1
    if not n_given:
        return None
    return replies[n_given] if n_given < len(replies) else len(messages)


def _chat(message: JSON) -> JSON:
    """Returns a message in chat form, where a result says whether the call failed."""
    if as_object(message).get("role") != "tool":
        return message
    return {**message, "is_error": message.get("error") is not None}


def _scores(scores: SourceRow, count: LeaveOut) -> tuple[dict[str, float], bool | None]:
    rewards: dict[str, float] = {}
    values: list[JSON] = []
    for name, score in scores.values.items():
        value = score.get("value") if isinstance(score, dict) else score
        parts = value.items() if isinstance(value, dict) else ((None, value),)
        for part, inner in parts:
            label = name if part is None else f"{name}.{part}"
            values.append(inner)
            number = _LETTERS.get(inner) if isinstance(inner, str) else finite(inner)
            if number is None:
                count(f"score {label} (not a number)")
            else:
                rewards[label] = number
    sole = values[0] if len(values) == 1 else None
    if isinstance(sole, str):
        return rewards, sole == "C" if sole in _LETTERS else None
    return rewards, sole if isinstance(sole, bool) else None


INSPECT: Final = Format(
    "inspect",
    "Inspect logs (.eval, or .json)",
    "eval: {task, model}, samples",
    lambda value: CERTAIN if has(as_object(value).get("eval"), "task", "model") else 0,
    _read,
    expand=_expand,
    identity=_identity,
)
