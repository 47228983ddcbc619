"""SWE-agent trajectories (`.traj`): steps of thought, action and observation.

The dialogue is rebuilt from `history` where the file has it, else from the first step's `query`
(or nothing) and the steps. The first word of an action is its tool. Whether an action worked is
not in the file. A submission made when a limit was hit (`submitted (exit_cost)`) ended by that
limit. A run that ended before its first step is an attempt too: its exit status says why. A `.traj`
does not name its instance: the file's name does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from meta_agent.core.protocols import JSON, Message, RolloutFailure, StopReason, ToolEvent
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import Count
from meta_agent.readers.formats._messages import parse_messages
from meta_agent.readers.formats._row import Row, RowError

NAME = "swe-agent"
_LIMITS: Final[dict[str, StopReason]] = {
    "exit_cost": "turn_limit",
    "exit_context": "token_limit",
    "exit_total_execution_time": "wall_limit",
    "exit_command_timeout": "wall_limit",
}
_MACHINES: Final = frozenset({"exit_api", "exit_environment_error", "exit_error", "early_exit"})


def claims(value: JSON) -> int:
    steps = value.get("trajectory") if isinstance(value, dict) else None
    if not isinstance(steps, list) or not isinstance(value.get("info"), dict):
        return 0
    return 3 if all(isinstance(s, dict) and "action" in s for s in steps) else 0


def read(row: Row, count: Count) -> Draft:
    steps = [_step(item, i) for i, item in enumerate(row.items("trajectory") or (), 1)]
    info = row.object("info")
    status = info.text("exit_status")
    if not info or not (steps or status):
        raise RowError("fields trajectory and info: expected at least one step or an exit_status")
    row.skip("history", "environment")
    before = _before(row, steps[0] if steps else Row({}), count)
    stop, error = _ending(status or "")
    submission = info.get("submission")  # of a reviewer's pick it is an object
    return Draft(
        prompt=before,
        messages=[*before, *(m for step in steps for m in _spoken(step))],
        tool_events=[e for turn, step in enumerate(steps) for e in _event(turn, step)],
        turns=len(steps),
        task_key=row.label("instance_id"),
        policy=_model(row),
        stop_reason=stop,
        error=error,
        verifier_inputs=_submitted(submission, "submission" in info.values),
        cost=_cost(info.object("model_stats")),
        timings=_timings(steps),
        domain="swe",
    )


def _submitted(submission: JSON, said: bool) -> dict[str, JSON]:
    """Nothing handed in is a blank patch; a file that does not speak of it has none."""
    if isinstance(submission, str):
        return {"patch": submission}
    return {"patch": ""} if said and submission is None else {}


def _step(item: JSON, number: int) -> Row:
    if not isinstance(item, dict):
        raise RowError("a step: expected an object", f"step {number}")
    return Row(item)


def _before(row: Row, first: Row, count: Count) -> list[Message]:
    """What stood before the model's first word."""
    told = first.items("query") or row.items("history") or []
    kept = []
    for item in told:
        if isinstance(item, dict) and item.get("role") == "assistant" and not item.get("is_demo"):
            break
        kept.append(item)
    return parse_messages(kept, "query", count)


def _spoken(step: Row) -> tuple[Message, ...]:
    said = step.text("response") or "\n".join(filter(None, (step.text("thought"), _action(step))))
    reply: Message = {"role": "assistant", "content": said}
    observation = step.text("observation")
    return (reply, {"role": "user", "content": observation}) if observation else (reply,)


def _action(step: Row) -> str:
    return (step.text("action") or "").strip()


def _event(turn: int, step: Row) -> tuple[ToolEvent, ...]:
    action = _action(step)
    if not action:
        return ()
    return (
        ToolEvent(
            turn, action.split()[0], {"command": action}, step.text("observation") or "", True
        ),
    )


def _ending(status: str) -> tuple[StopReason | None, RolloutFailure | None]:
    if not status:
        return None, None
    cause = next((name for name in (*_LIMITS, *_MACHINES, "exit_format") if name in status), "")
    if cause in _LIMITS:
        return _LIMITS[cause], None
    if cause in _MACHINES and "submitted" not in status:
        return "error", RolloutFailure("infra", status)
    return ("submitted" if "submitted" in status else "returned"), None


def _cost(stats: Row) -> dict[str, float]:
    received = stats.number("tokens_received")
    tokens = () if received is None else (stats.number("tokens_sent"), received)
    return cost_of(stats.number("instance_cost") or None, *tokens)


def _timings(steps: Sequence[Row]) -> dict[str, float]:
    seconds = [value for step in steps if (value := step.number("execution_time")) is not None]
    return {"tools": sum(seconds)} if seconds else {}


def _model(row: Row) -> str | None:
    """Named in the stored replay configuration, which is JSON as text since 1.0."""
    config = row.get("replay_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return None
    agent = config.get("agent") if isinstance(config, dict) else None
    model = agent.get("model") if isinstance(agent, dict) else None
    name = model.get("name") if isinstance(model, dict) else None
    return name if isinstance(name, str) else None
