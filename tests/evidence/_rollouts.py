"""Builders of rollouts for the tests of evidence."""

from __future__ import annotations

from typing import Any

from meta_agent.core.protocols import Rollout, RolloutFailure, TokenRecord, ToolEvent


def events(text: str) -> list[ToolEvent]:
    """`v e35 t:lo e35 t:ok s` as tool events, one a turn; `x!` is a refused call."""
    names = {"v": "view", "e": "edit", "t": "test", "l": "log", "s": "submit"}
    made = []
    for turn, word in enumerate(text.split()):
        action, _, result = word.rstrip("!").partition(":")
        answer = f"2t {result}" if action[0] == "t" else "done"
        given = {"to": action[1:]} if action[1:] else {}
        made.append(ToolEvent(turn, names[action[0]], given, answer, not word.endswith("!")))
    return made


def rollout(task: int = 0, sample: int = 0, story: str = "v e35 t:ok s", **changes: Any) -> Rollout:
    calls = events(story)
    fields: dict[str, Any] = {
        "run": "r", "version": "v0", "domain": "swe", "split": "search", "policy": "p",
        "task_key": f"t{task}", "task_hash": f"h{task}", "group_id": f"g{task}",
        "sample_idx": sample, "seed": 0, "harness_commit": "c", "evaluator_hash": "ev",
        "tool_events": calls, "turns": len(calls), "outcome": True, "stop_reason": "submitted",
        "rewards": {"solved": 1.0}, "weights": {"solved": 1.0},
    }  # fmt: skip
    return Rollout(**{**fields, **changes})


def failed(task: int = 0, sample: int = 0, story: str = "v e35 t:lo s", **changes: Any) -> Rollout:
    given = {"outcome": False, "rewards": {"solved": 0.0}, **changes}
    return rollout(task, sample, story, **given)


def lost(task: int = 0, kind: Any = "infra") -> Rollout:
    error = RolloutFailure(kind, "the machine went away")
    return rollout(task, outcome=None, rewards={}, error=error, stop_reason="error", story="v")


def tokens(logprobs: list[float], *, exact: bool = True) -> TokenRecord:
    n = len(logprobs)
    return TokenRecord([1, 2], list(range(n)), [1] * n, logprobs, exact)
