"""tau-bench's results: a list of simulations, or (tau2-bench) an object that holds one.

A reward of 1 is a solved simulation, as both tools count it. Trials of a task are its samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import CERTAIN, Count, Placed, has
from meta_agent.readers.formats._messages import before_reply, parse_messages, told_by, turns_of
from meta_agent.readers.formats._row import Row, RowError

NAME = "tau-bench"
_STOPS: Final[dict[str, StopReason]] = {
    "user_stop": "returned",
    "agent_stop": "submitted",
    "max_steps": "turn_limit",
    "timeout": "wall_limit",
}
_FULL: Final = 1 - 1e-6


def claims(value: JSON) -> int:
    if has(value, "simulations") and isinstance(value["simulations"], list):
        return CERTAIN
    trial = has(value, "task_id", "reward", "traj") or has(value, "task_id", "reward_info", "trial")
    return CERTAIN if trial else 0


def expand(placed: Placed) -> Iterator[Placed]:
    """One row a simulation, with what the file says of all of them beside it."""
    value = placed.value
    if not has(value, "simulations"):
        yield placed
        return
    for index, one in enumerate(value["simulations"]):
        row = {**one, "run": value.get("info")} if isinstance(one, dict) else one
        yield Placed(f"{placed.place}[{index}]", row)


def read(row: Row, count: Count) -> Draft:
    task = row.label("task_id")
    if task is None:
        raise row.need("task_id", "a name or a number")
    said = row.items("traj") if "traj" in row.values else row.items("messages")
    messages = parse_messages(said or [], "messages", count)
    events, tool_ok = told_by(messages)
    reward, run, info = _reward(row), row.object("run"), row.object("info")
    failed = info.text("error")
    row.skip("id", "timestamp", "start_time", "end_time", "tools")
    end = row.text("termination_reason")
    return Draft(
        prompt=before_reply(messages),
        messages=messages or None,
        tool_events=events if messages else None,
        tool_ok=tool_ok,
        turns=turns_of(messages) if messages else None,
        task_key=task,
        sample_idx=row.integer("trial"),
        policy=run.object("agent_info").text("llm"),
        domain=run.object("environment_info").text("domain_name") or "",
        rewards=None if reward is None else {"reward": reward},
        outcome=None if reward is None or failed else reward >= _FULL,
        error=RolloutFailure("infra", failed[:2000]) if failed else None,
        stop_reason=_STOPS.get(end) if end else None,
        cost=cost_of(row.number("agent_cost")),
    )


def _reward(row: Row) -> float | None:
    if "reward" in row.values:
        return row.number("reward")
    info = row.object("reward_info")
    if not info:
        raise RowError("a simulation: expected reward or reward_info")
    return info.number("reward")
