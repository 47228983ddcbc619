"""Inspect logs: `.json` whole, `.eval` (a zip archive) one sample after the other.

Each scorer's value is a reward; Inspect's letters are numbers as Inspect counts them (C 1, P 0.5,
I and N 0). One scorer whose value is a letter or true or false tells the outcome: solved is C or
true. Epochs of a sample are a group. Events, which repeat the messages, are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import Count, Placed, has
from meta_agent.readers.formats._messages import before_reply, parse_messages, told_by, turns_of
from meta_agent.readers.formats._row import Row, RowError, finite

NAME = "inspect"
_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_STOPS: Final[dict[str, StopReason]] = {
    **{"stop": "returned", "tool_calls": "returned", "content_filter": "returned"},
    **{"max_tokens": "length", "model_length": "token_limit"},
    **{"message": "turn_limit", "turn": "turn_limit", "token": "token_limit", "cost": "turn_limit"},
    **{"time": "wall_limit", "working": "wall_limit"},
}
# Events and what repeats the record's own fields, or says how the log itself is packed.
_UNREAD: Final = (
    *("events", "events_data", "attachments", "timelines", "choices", "model_usage", "role_usage"),
    *(
        "input",
        "output",
        "error_retries",
        "uuid",
        "started_at",
        "completed_at",
        "working_time",
        "store",
        "files",
        "setup",
        "sandbox",
    ),
)


def claims(value: JSON) -> int:
    return 3 if has(value, "eval", "samples") and has(value["eval"], "task", "model") else 0


def expand(placed: Placed) -> Iterator[Placed]:
    """One row a sample, with what the log says of all of them beside it."""
    log = placed.value
    samples = log.get("samples") if isinstance(log, dict) else None
    if not isinstance(samples, list):
        yield placed
        return
    for index, sample in enumerate(samples):
        beside = {"eval": log["eval"], "log_status": log.get("status")}
        row = {**sample, **beside} if isinstance(sample, dict) else sample
        yield Placed(f"{placed.place}[{index}]", row)


def read(row: Row, count: Count) -> Draft:
    evaluation, sample = row.object("eval"), row.label("id")
    if not evaluation or sample is None:
        raise RowError("a log: expected samples, each with an id (a header alone has none)")
    messages = parse_messages([_chat(m) for m in row.items("messages") or ()], "messages", count)
    events, tool_ok = told_by(messages)
    rewards, outcome = _scores(row.object("scores"), count)
    task, epoch = evaluation.text("task") or "", row.integer("epoch") or 1
    error, status = row.object("error"), row.text("log_status")
    row.skip(*_UNREAD)
    return Draft(
        prompt=before_reply(messages),
        messages=messages or None,
        tool_events=events if messages else None,
        tool_ok=tool_ok,
        turns=turns_of(messages) if messages else None,
        task_key=f"{task}/{sample}",
        sample_idx=epoch - 1,
        policy=evaluation.text("model"),
        domain=task,
        rewards=rewards or None,
        outcome=outcome,
        error=RolloutFailure("infra", str(error.get("message"))[:2000]) if error else None,
        stop_reason="error" if error else _stop(row, count),
        verifier_inputs={
            n: v for n in ("target", "metadata") if (v := row.get(n)) not in (None, {})
        },
        cost=_cost(row.values.get("model_usage")),
        timings=_timings(row),
        caveat="" if status in (None, "success") else f"from a log that ended as {status}",
    )


def _chat(message: JSON) -> JSON:
    """Inspect's message in chat form: a call names its function, a result its error."""
    if not isinstance(message, dict):
        return message
    calls, failed = message.get("tool_calls"), message.get("error")
    changes: dict[str, JSON] = {}
    if isinstance(calls, list):
        changes["tool_calls"] = [_call(call) for call in calls]
    if message.get("role") == "tool":
        changes["is_error"] = failed is not None
    return {**message, **changes}


def _call(call: JSON) -> JSON:
    if not isinstance(call, dict) or not isinstance(call.get("function"), str):
        return call
    function = {"name": call["function"], "arguments": call.get("arguments") or {}}
    return {"id": call.get("id"), "function": function}


def _scores(scores: Row, count: Count) -> tuple[dict[str, float], bool | None]:
    rewards: dict[str, float] = {}
    said: list[JSON] = []
    for name, score in scores.values.items():
        value = score.get("value") if isinstance(score, dict) else score
        parts = value.items() if isinstance(value, dict) else ((None, value),)
        for part, inner in parts:
            label = name if part is None else f"{name}.{part}"
            said.append(inner)
            number = _LETTERS.get(inner) if isinstance(inner, str) else finite(inner)
            if number is None:
                count(f"score {label} (not a number)")
            else:
                rewards[label] = number
    return rewards, _outcome(said)


def _outcome(said: list[JSON]) -> bool | None:
    value = said[0] if len(said) == 1 else None
    if isinstance(value, bool):
        return value
    return value == "C" if isinstance(value, str) and value in _LETTERS else None


def _stop(row: Row, count: Count) -> StopReason | None:
    """The limit that ended the sample, or why the model's last reply did."""
    limit, choices = row.object("limit"), row.object("output").items("choices")
    last = choices[0] if choices and isinstance(choices[0], dict) else {}
    word = limit.text("type") if limit else last.get("stop_reason")
    if isinstance(word, str) and word not in _STOPS:
        count(f"stop reason {word}")
    return _STOPS.get(word) if isinstance(word, str) else None


def _cost(usage: JSON) -> dict[str, float]:
    models = usage.values() if isinstance(usage, dict) else ()
    return cost_of(None, *(finite(m.get("total_tokens")) for m in models if isinstance(m, dict)))


def _timings(row: Row) -> dict[str, float]:
    seconds = row.number("total_time")
    return {} if seconds is None else {"total": seconds}
