"""Records, groups and tasks that the hooks of a harness are called with."""

from __future__ import annotations

from typing import Any

from meta_agent.core.harness import CheckResult, HarnessSession
from meta_agent.core.protocols import Rollout, Sandbox, ToolEvent

from ..rollouts._laboratory import tree

TASKS = [{"key": "t0", "view": {"question": "x"}}, {"key": "t1", "view": {}}]
GROUPS = [
    {"task_key": "a", "rewards": [0.0, 1.0], "outcomes": [False, True]},
    {"task_key": "b", "rewards": [0.0, 0.0], "outcomes": [False, False]},
]


def sample(**changes: Any) -> Rollout:
    facts: dict[str, Any] = {
        "run": "r",
        "version": "v",
        "domain": "lab",
        "split": "train",
        "task_key": "t",
        "task_hash": "h",
        "group_id": "g",
        "sample_idx": 0,
        "seed": 1,
        "harness_commit": "c",
        "policy": "p",
        "evaluator_hash": "e",
        "messages": [{"role": "user", "content": "hé"}],
        "tool_events": [ToolEvent(0, "say", {"text": "x"}, "heard x", True)],
        "rewards": {"solved": 1.0},
        "weights": {"solved": 0.5},
        "advantage": -0.25,
        "outcome": True,
        "outcome_detail": {"passed": 3},
        "verifier_inputs": {"source": "x = 1"},
        "stop_reason": "submitted",
        "flags": ["leak:log"],
        "turns": 2,
        "timings": {"wall": 0.5},
        "cost": {"tokens": 9},
    }
    return Rollout(**{**facts, **changes})


def checked(sandbox: Sandbox, **changes: str) -> dict[str, CheckResult]:
    held = HarnessSession(sandbox, tree(**changes))
    samples = [sample(outcome=True), sample(outcome=False, turns=5)]
    return {result.name: result for result in held.check(samples, TASKS)}
