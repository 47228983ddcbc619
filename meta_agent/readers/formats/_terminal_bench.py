"""Terminal-Bench's trials: a trial's `results.json`, or a run's, which lists them.

`is_resolved` is the outcome. An agent that ran out of time or turns was judged all the same; a
trial of which tests or containers failed has no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.protocols import JSON, ErrorKind, RolloutFailure, StopReason
from meta_agent.readers.formats._draft import Draft, cost_of
from meta_agent.readers.formats._format import CERTAIN, Count, Placed, has
from meta_agent.readers.formats._row import Row

NAME = "terminal-bench"
_ENDINGS: Final[dict[str, StopReason]] = {
    "agent_timeout": "wall_limit",
    "context_length_exceeded": "token_limit",
    "output_length_exceeded": "length",
}
_FINE: Final = ("", "unset", "none")
_JUDGES: Final = ("test", "pars")
_PLUMBING: Final = (
    *("id", "trial_name", "instruction", "recording_path", "parser_results"),
    *("trial_started_at", "trial_ended_at", "agent_started_at", "agent_ended_at"),
    *("test_started_at", "test_ended_at"),
)


def claims(value: JSON) -> int:
    rows = value.get("results") if isinstance(value, dict) else None
    if isinstance(rows, list) and rows and all(map(_trial, rows)):
        return CERTAIN
    return CERTAIN if _trial(value) else 0


def _trial(value: JSON) -> bool:
    return has(value, "task_id", "is_resolved", "failure_mode")


def expand(placed: Placed) -> Iterator[Placed]:
    rows = placed.value.get("results") if not _trial(placed.value) else None
    if not isinstance(rows, list):
        yield placed
        return
    for index, row in enumerate(rows):
        yield Placed(f"{placed.place}[{index}]", row)


def read(row: Row, count: Count) -> Draft:
    task = row.text("task_id")
    if not task:
        raise row.need("task_id", "a name")
    row.skip(*_PLUMBING)
    mode = (row.text("failure_mode") or "").lower()
    resolved = row.flag("is_resolved")
    sides = (row.number(f"total_{side}_tokens") or None for side in ("input", "output"))
    ended = _ENDINGS.get(mode)
    error = None if mode in _FINE or ended else RolloutFailure(_kind(mode), mode)
    return Draft(
        task_key=task,
        policy=row.text("model_name", "agent_name"),
        outcome=None if error and not resolved else resolved,
        error=None if resolved else error,
        stop_reason=ended or ("error" if error and not resolved else None),
        cost=cost_of(None, *sides),
        domain=NAME,
    )


def _kind(mode: str) -> ErrorKind:
    return "verifier" if any(word in mode for word in _JUDGES) else "infra"
