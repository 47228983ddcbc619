"""Attempts as evidence for the team is made of."""

from __future__ import annotations

from typing import Any

from meta_agent.core.protocols import Rollout, ToolEvent


def rollout(at: int, split: str = "search", **changes: Any) -> Rollout:
    facts: dict[str, Any] = {
        "run": "r",
        "version": "v0",
        "domain": "swe",
        "split": split,
        "task_key": f"task,{at}",
        "task_hash": "h",
        "group_id": f"g{at}",
        "sample_idx": 0,
        "seed": 0,
        "harness_commit": "c",
        "policy": "p",
        "evaluator_hash": "e",
        "outcome": at % 2 == 0,
        "turns": 2,
        "messages": [
            {"role": "user", "content": "fix it"},
            {"role": "assistant", "content": "v", "tool_calls": [{"id": "1"}]},
        ],
        "tool_events": [ToolEvent(0, "view", {}, "x+1", True)],
        "rewards": {"solved": 1 / 3, "submitted": 1.0},
        "timings": {"total": 0.123 + at},
        "cost": {"tokens": 40.0, "usd": 0.01},
    }
    return Rollout(**{**facts, **changes})
