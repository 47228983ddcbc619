"""Traces of verifiers v1: one episode a line, with a trace for each agent that took part.

The messages of a trace are a tree, because an agent may branch. An attempt is the path from the
root to the last message that the model wrote. Rewards have a score and a weight. Errors of a trace
mean that the attempt was lost.

Not covered: token ids, because a node's prompt is not in the file as one row.
"""

from __future__ import annotations

import json
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import AttemptDraft, cost_of
from meta_agent.readers.formats._format import (
    CERTAIN,
    ERROR_CHARS,
    Format,
    identity_by,
    numbers_of,
    rows_under,
)
from meta_agent.readers.formats._messages import LeaveOut, parse_messages
from meta_agent.readers.formats._row import RowError, SourceRow, as_object, has

_EPISODE: Final = "episode"
_STOPS: Final[dict[str, StopReason]] = {
    "max_turns": "turn_limit",
    "max_turns_reached": "turn_limit",
    "max_tokens": "token_limit",
    "context_length": "token_limit",
    "timeout": "wall_limit",
    "error": "error",
}


def _claims(value: JSON) -> int:
    traces = as_object(value).get("traces")
    listed = traces if isinstance(traces, list) and traces else [value]
    return CERTAIN if all(has(trace, "nodes", "rewards", "task") for trace in listed) else 0


def _read(row: SourceRow, count: LeaveOut) -> AttemptDraft:
    environment = row.object(_EPISODE)
    task = row.object("task")
    draft = AttemptDraft(
        task_key=task.label("key", "data.idx", "data.example_id", "hash"),
        domain=environment.text("id") or task.text("type") or "",
        policy=row.text("agent.config.model"),
    )
    if draft.task_key is None:
        raise task.need("key", "a name or a number")
    if draft.domain:
        draft.task_key = f"{draft.domain}/{draft.task_key}"
    nodes = [as_object(node) for node in row.items("nodes") or ()]
    path = _path(nodes)
    first_reply = next((i for i, at in enumerate(path) if nodes[at].get("sampled")), len(path))
    messages = [nodes[at].get("message") for at in path]
    before = parse_messages(messages[:first_reply], "nodes", count)
    draft.messages, draft.tool_events, draft.turns, draft.prompt = [], [], 0, before
    draft.converse([*before, *parse_messages(messages[first_reply:], "nodes", count)], len(before))
    for name in row.object("rewards").values:
        _add_reward(draft, name, row.object("rewards").get(name), count)
    for name, value in numbers_of(row.object("metrics"), count).items():
        if draft.rewards is not None and name not in draft.rewards:
            draft.rewards[name], draft.weights[name] = value, 0.0
    if errors := row.items("errors"):
        draft.error = RolloutFailure("infra", json.dumps(errors, default=str)[:ERROR_CHARS])
    calls = [SourceRow(as_object(call)) for call in row.items("calls") or ()]
    ends = [call.text("finish_reason") for call in calls if call.integer("node") in path]
    draft.stop_reason = _stop(row.text("stop_condition"), ends[-1] if ends else None, draft.error)
    draft.cut_replies = ends.count("length") if len(ends) == draft.turns and ends else None
    names = ("prompt_tokens", "completion_tokens")
    counts = [[call.object("usage").number(name) for name in names] for call in calls]
    draft.cost = cost_of(None, *(n for pair in counts if None not in pair for n in pair))
    row.skip("id", "version", "verifiers", "agent", "tools", "info", "extra_usage", "timing")
    row.skip("is_completed", "ok")
    return draft


def _path(nodes: list[dict[str, JSON]]) -> list[int]:
    """Returns the positions from the root to the model's last message, or to the last message.

    Raises RowError if a parent does not come before its child.
    """
    written = [i for i, node in enumerate(nodes) if node.get("sampled")]
    at: JSON = written[-1] if written else len(nodes) - 1
    path: list[int] = []
    while at is not None and nodes:
        if type(at) is not int or not 0 <= at < (path[-1] if path else len(nodes)):
            raise RowError("a node's parent: expected the position of an earlier node", str(at))
        path.append(at)
        at = nodes[at].get("parent")
    return path[::-1]


def _add_reward(draft: AttemptDraft, name: str, value: JSON, count: LeaveOut) -> None:
    if value is None:  # lost before it was scored
        return
    numbers = numbers_of(SourceRow(as_object(value)), count)
    if "score" not in numbers:
        count(f"rewards.{name} (no score)")
        return
    draft.rewards = {**(draft.rewards or {}), name: numbers["score"]}
    draft.weights[name] = numbers.get("weight", 1.0)


def _stop(
    condition: str | None, last_reply: str | None, error: RolloutFailure | None
) -> StopReason | None:
    if error is not None:
        return "error"
    if condition in _STOPS:
        return _STOPS[condition]
    if last_reply == "length":
        return "length"
    return None if condition is None else "returned"


TRACES: Final = Format(
    "verifiers-traces",
    "traces of verifiers v1, JSON lines",
    "traces of nodes, rewards, task",
    _claims,
    _read,
    expand=rows_under("traces", "env", _EPISODE),
    identity=identity_by("id"),
)
