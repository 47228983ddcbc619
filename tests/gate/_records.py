"""Rollouts as real suites leave them, for the detectors that read whole records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from meta_agent.core.gate import Finding, Side, arm_of, find_all, row_of
from meta_agent.core.lab.regrading import Grade, records_of, regraded
from meta_agent.core.protocols import Rollout, ToolEvent

FIX = [
    "    total = sum(item.price * item.count for item in basket)",
    "    return total - discount_for(customer, total)",
]
PATCH = "\n".join(
    [
        "diff --git a/shop/basket.py b/shop/basket.py",
        "--- a/shop/basket.py",
        "+++ b/shop/basket.py",
        "@@ -10,3 +10,3 @@ def price(basket, customer):",
        "-    return sum(item.price for item in basket)",
        *(f"+{line}" for line in FIX),
    ]
)
ISSUE = "The basket's price ignores counts.\n>>> roman(4)\n'IV'\n"


def shell(command: str, result: str = "", *, turn: int = 0, tool: str = "bash") -> ToolEvent:
    return ToolEvent(turn, tool, {"command": command}, result, True)


def rollout(index: int = 0, *events: ToolEvent, **changes: Any) -> Rollout:
    """A solved attempt at a repository task; `changes` override fields."""
    fields: dict[str, Any] = {
        "run": "r", "version": "v0", "domain": "swe", "split": "confirm",
        "task_key": f"t{index:04d}", "task_hash": f"h{index}", "group_id": f"g{index}",
        "sample_idx": 0, "seed": 0, "harness_commit": "c", "policy": "p", "evaluator_hash": "ev",
        "messages": [{"role": "user", "content": ISSUE}],
        "tool_events": list(events) or [shell("pytest -q", "2 passed"), shell("submit", turn=1)],
        "outcome": True, "rewards": {"solved": 1.0}, "weights": {"solved": 1.0},
        "verifier_inputs": {"patch": PATCH}, "stop_reason": "submitted", "turns": 2,
    }  # fmt: skip
    return Rollout(**{**fields, **changes})


OF_ROWS = ("conduct.leak", "conduct.tamper")
OF_RECORDS = ("conduct.", "grader.", "reward.")


def inspect(
    rollouts: Iterable[Rollout],
    baseline: Iterable[Rollout] = (),
    *,
    grade: Grade | None = None,
    views: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """What the checks of records say of an arm, beside a baseline's if there is one."""
    before, after = (_side(list(made), grade, views) for made in (baseline, rollouts))
    found = find_all(before if before.looks else None, after)
    shown = (finding for finding in found if finding.code.startswith(OF_RECORDS))
    return tuple(finding for finding in shown if finding.code not in OF_ROWS)


def _side(rollouts: list[Rollout], grade: Grade | None, views: Mapping[str, str] | None) -> Side:
    records = records_of(rollouts, views)
    arm = arm_of("x", map(row_of, rollouts), planned=len(rollouts))
    return Side(arm, records.looks, regraded(records, grade))


def code(source: str, index: int = 0, *, shown: str = ISSUE, **changes: Any) -> Rollout:
    """A solved attempt at a programming task."""
    asked = [{"role": "user", "content": shown}]
    return rollout(index, messages=asked, verifier_inputs={"code": source}, **changes)
