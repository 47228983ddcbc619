"""Harbor's trials: a trial's `result.json`, with the ATIF trajectory in `agent/` beside it.

A trajectory knows neither its task nor its reward; the result knows both, and why a trial failed.
An agent that ran out of time was judged all the same: that is an ending, not an error. Rewards are
Harbor's own and no outcome: `--solved-at 1` says that a full reward is.
"""

from __future__ import annotations

from typing import Final

from meta_agent.core.protocols import JSON, RolloutFailure
from meta_agent.readers.formats import _atif
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import CERTAIN, Count, has
from meta_agent.readers.formats._messages import numbers_of
from meta_agent.readers.formats._row import Row

NAME = "harbor"
RESULT: Final = "result.json"
TRAJECTORY: Final = "agent/trajectory.json"  # beside the result
ATTACHED: Final = "trajectory"  # under this name it comes with the result's row
_JUDGES: Final = ("verifier", "reward")
_PLUMBING: Final = (
    *("id", "trial_name", "trial_uri", "task_id", "task_checksum", "source", "config"),
    *(
        "started_at",
        "finished_at",
        "environment_setup",
        "agent_setup",
        "agent_execution",
        "verifier",
    ),
)


def claims(value: JSON) -> int:
    return CERTAIN if has(value, "task_name", "verifier_result", "exception_info") else 0


def read(row: Row, count: Count) -> Draft:
    task = row.text("task_name")
    if not task:
        raise row.need("task_name", "a string")
    trajectory, failed = row.object(ATTACHED), row.object("exception_info")
    draft = _atif.read(trajectory, count) if trajectory else Draft()
    judged, run = row.object("verifier_result"), row.object("agent_result")
    row.skip(*_PLUMBING)
    draft.task_key, draft.group = task, None
    draft.rewards = numbers_of(judged.object("rewards"), count) or None
    model = row.object("agent_info").object("model_info").text("name")
    sides = (run.number(f"n_{side}_tokens") or None for side in ("input", "output"))
    cost = cost_of(run.number("cost_usd"), *sides)
    draft.policy, draft.cost = draft.policy or model, draft.cost or cost
    _end(draft, failed)
    return draft


def _end(draft: Draft, failed: Row) -> None:
    """How it ended, where it failed."""
    if not failed:
        return
    kind = failed.text("exception_type") or "an exception"
    if kind == "AgentTimeoutError":
        draft.stop_reason = "wall_limit"
        return
    of_judge = any(word in kind.lower() for word in _JUDGES)
    detail = f"{kind}: {failed.text('exception_message') or ''}"[:2000]
    draft.error = RolloutFailure("verifier" if of_judge else "infra", detail)
    draft.stop_reason = "error"
