from __future__ import annotations

import pytest

from meta_agent.core.gate import arm_of, row_of
from meta_agent.core.protocols import Rollout, RolloutFailure

from ._rows import row


def _rollout(**changes: object) -> Rollout:
    base = {
        **dict.fromkeys(("run", "version", "domain", "group_id", "harness_commit", "policy"), "x"),
        **{"split": "confirm", "task_key": "t", "task_hash": "h", "evaluator_hash": "e"},
        **{"sample_idx": 1, "seed": 7, "outcome": True, "turns": 3},
        **{"rewards": {"solve": 1.0, "style": 0.5}, "weights": {"style": 0.2}},
    }
    return Rollout(**{**base, **changes})  # type: ignore[arg-type]


def test_a_row_keeps_what_the_gate_reads() -> None:
    made = row_of(_rollout(flags=["leak:log"]), training_seed=3)
    assert (made.training_seed, made.success, made.clean) == (3, True, False)
    assert made.reward == pytest.approx(1.1)


@pytest.mark.parametrize("kind", ["infra", "verifier"])
def test_a_failure_of_the_machines_has_no_outcome(kind: str) -> None:
    made = row_of(_rollout(outcome=False, error=RolloutFailure(kind, "boom")))  # type: ignore[arg-type]
    assert made.success is None
    assert made.clean is None


def test_a_failure_of_the_policy_is_a_failure() -> None:
    made = row_of(_rollout(outcome=None, error=RolloutFailure("policy", "no tool of that name")))
    assert made.success is False


def test_the_digest_ignores_order_and_nothing_else() -> None:
    rows = [row(t) for t in range(5)]
    first = arm_of("a", rows, planned=5)
    assert first.digest == arm_of("b", rows[::-1], planned=5).digest
    assert first.digest != arm_of("a", [*rows[:-1], row(4, success=False)], planned=5).digest
    assert first.digest != arm_of("a", rows, planned=6).digest
