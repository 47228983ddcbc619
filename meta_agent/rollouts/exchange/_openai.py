"""OpenAI-messages JSONL: one dialogue a line under `messages`, as fine-tuning files have it.

Beside it any of these are read where they stand: `task_id` (or `id`, `instance_id`), `group_id`,
`sample_idx`, `model`, `reward`, `rewards`, `outcome` (or `success`, `resolved`), `stop_reason`,
`finish_reason`, `flags`. `prompt` and `completion` as two lists (or strings) are the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from meta_agent.protocols import JSON, Rollout, StopReason
from meta_agent.rollouts.exchange._draft import Draft, absent
from meta_agent.rollouts.exchange._files import known, write_lines
from meta_agent.rollouts.exchange._format import Count
from meta_agent.rollouts.exchange._messages import (
    numbers_of,
    parse_messages,
    told_by,
    turns_of,
)
from meta_agent.rollouts.exchange._row import Row, RowError

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
_STOPS: Final = frozenset(get_args(StopReason))


def claims(value: JSON) -> int:
    messages = value.get("messages") if isinstance(value, dict) else None
    return 1 if isinstance(messages, list) and messages else 0


def read(row: Row, count: Count) -> Draft:
    messages = parse_messages(row.get("messages"), "messages", count)
    if not messages:
        raise RowError("field messages: expected at least one message")
    events, tool_ok = told_by(messages)
    first = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    return Draft(
        prompt=messages[:first],
        messages=messages,
        tool_events=events,
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
        flags=[str(flag) for flag in row.items("flags") or ()],
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
            flags=rollout.flags,
        ),
        **{
            name: value
            for name, value in (
                ("sample_idx", rollout.sample_idx),
                ("advantage", rollout.advantage),
                ("outcome", rollout.outcome),
                ("stop_reason", None if "stop_reason" in unknown else rollout.stop_reason),
            )
            if value is not None
        },
    }
