"""Dialogues, one a line: OpenAI's `messages`, and what else holds nothing but one.

That is ShareGPT's `conversations`, `prompt` and `completion` (or `response`) as lists or strings,
and the lines of a batch's output, whose prompts are in another file. Beside the dialogue any of
these are read where they stand: `task_id` (or `id`, `instance_id`), `group_id`, `sample_idx`,
`model`, `reward`, `rewards`, `outcome` (or `success`, `resolved`), `stop_reason`, `finish_reason`,
`flags`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from meta_agent.core.protocols import JSON, Message, Rollout, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, absent, cost_of
from meta_agent.readers.formats._files import known, write_lines
from meta_agent.readers.formats._format import Count, has
from meta_agent.readers.formats._messages import (
    before_reply,
    numbers_of,
    parse_completion,
    parse_messages,
    told_by,
    turns_of,
)
from meta_agent.readers.formats._responses import messages_of_items
from meta_agent.readers.formats._row import Row, RowError, shown

NAME = "openai-messages"
CANNOT_CARRY = frozenset(
    {"run", "version", "harness_commit", "task_hash", "evaluator_hash", "tokens", "timings"}
    | {"split", "seed", "domain", "outcome_detail", "verifier_inputs", "error", "cost"}
    | {"tool_events"}
)
_FINISH: Final[dict[str, StopReason]] = {
    "stop": "returned",
    "tool_calls": "returned",
    "length": "length",
}


_PAIRS: Final = (("prompt", "completion"), ("prompt", "response"))


def claims(value: JSON) -> int:
    if not isinstance(value, dict):
        return 0
    if has(value, "custom_id", "response", "error"):
        return 1
    lists = (value.get(name) for name in ("messages", "conversations"))
    pairs = (tuple(map(value.get, pair)) for pair in _PAIRS)
    said = any(isinstance(v, list) and v for v in lists)
    return int(said or any(all(isinstance(v, str | list) and v for v in p) for p in pairs))


def read(row: Row, count: Count) -> Draft:
    if has(row.values, "custom_id", "response", "error"):
        return _of_batch(row, count)
    messages = _dialogue(row, count)
    if not messages:
        raise RowError("field messages: expected at least one message")
    events, tool_ok = told_by(messages)
    flat = isinstance(row.values.get("completion", row.values.get("response")), str)
    return Draft(
        prompt=before_reply(messages),
        messages=messages,
        tool_events=None if flat else events,  # a plain string says nothing about tools
        tool_ok=tool_ok,
        turns=turns_of(messages),
        task_key=row.label("task_id", "task_key", "instance_id", "id"),
        group=row.label("group_id"),
        sample_idx=row.integer("sample_idx"),
        policy=row.text("model", "policy"),
        rewards=rewards_of(row, count),
        weights=numbers_of(row.object("weights"), count),
        advantage=row.number("advantage"),
        outcome=row.flag("outcome", "success", "resolved"),
        stop_reason=stop_of(row, count),
        flags=row.words("flags"),
    )


def _dialogue(row: Row, count: Count) -> list[Message]:
    if "messages" in row.values:
        items = row.get("messages")
        of_responses = isinstance(items, list) and any(map(_is_item, items))
        parse = messages_of_items if of_responses else parse_messages
        return parse(items, "messages", count)
    if "conversations" in row.values:
        return parse_messages(row.get("conversations"), "conversations", count)
    told, said = next((p for p in _PAIRS if has(row.values, *p)), ("messages", "completion"))
    prompt = parse_messages(row.get(told), told, count)
    return [*prompt, *parse_completion(row.get(said), said, count)]


def _is_item(value: JSON) -> bool:
    """What has no role: calls, their outputs and reasoning stand in a list of their own there."""
    return has(value, "type") and "role" not in value and "from" not in value


def _of_batch(row: Row, count: Count) -> Draft:
    """A line of a batch's output: a reply, or the reason why there is none."""
    body = row.object("response").object("body")
    choices = body.items("choices")
    row.skip("id")
    task = row.label("custom_id")
    if not choices or not isinstance(choices[0], dict):
        failed = shown(row.get("error") or (body.values if body else row.get("response")))
        lost = RolloutFailure("infra", failed)
        return Draft(task_key=task, error=lost, stop_reason="error")
    count("further choice") if len(choices) > 1 else None
    choice = Row(choices[0])
    messages = parse_messages([choice.get("message")], "message", count)
    return Draft(
        messages=messages,
        tool_events=told_by(messages)[0],
        turns=turns_of(messages),
        task_key=task,
        policy=body.text("model"),
        stop_reason=stop_of(choice, count),
        cost=cost_of(None, body.object("usage").number("total_tokens")),
    )


def rewards_of(row: Row, count: Count) -> dict[str, float] | None:
    """`rewards` by name, or the one `reward`."""
    found = numbers_of(row.object("rewards"), count)
    single = row.number("reward", "score")
    if not found and single is not None:
        found = {"reward": single}
    return found or None


def stop_of(row: Row, count: Count) -> StopReason | None:
    """Our own word, or the provider's."""
    own, finish = row.text("stop_reason"), row.text("finish_reason")
    for reason in get_args(StopReason):
        if own == reason:
            return reason  # type: ignore[no-any-return]
    if finish in _FINISH or own in _FINISH:
        return _FINISH[finish if finish in _FINISH else str(own)]
    if own or finish:
        count(f"stop reason {own or finish}")
    return None


def write(rollouts: Iterable[Rollout], path: Path) -> int:
    return write_lines(map(_record, rollouts), path)


def _record(rollout: Rollout) -> dict[str, JSON]:
    unknown = absent(rollout)
    return {
        "messages": rollout.messages,
        **known(
            task_id=rollout.task_key,
            group_id=rollout.group_id,
            model=rollout.policy,
            rewards=rollout.rewards,
            weights=rollout.weights,
        ),
        **{
            name: value
            for name, value in (
                ("sample_idx", rollout.sample_idx),
                ("advantage", rollout.advantage),
                ("outcome", rollout.outcome),
                ("flags", None if "flags" in unknown else rollout.flags),
                ("stop_reason", None if "stop_reason" in unknown else rollout.stop_reason),
            )
            if value is not None
        },
    }
