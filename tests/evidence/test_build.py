"""What is counted of rollouts: a table of rollouts and the metrics that they give."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from meta_agent.core.evidence import Evidence
from meta_agent.core.protocols import Rollout
from meta_agent.readers.evidence import build_evidence

from ._rollouts import failed, lost, rollout, tokens


def _tokens() -> Rollout:
    row = tokens([-1.0, 0.0, -3.0], exact=False)
    row.mask[1] = 0
    return rollout(tokens=row)


def _turn_penalty() -> list[Rollout]:
    """Solved attempts are longer, so that over all of them length seems to pay."""
    return [
        rollout(i, j, outcome=won, turns=turns, rewards={"x": won - 0.1 * turns, "y": float(won)})
        for i in range(3)
        for j, (won, turns) in enumerate([(True, 7), (True, 8), (False, 2), (False, 3)])
    ]


STOPS = ("submitted", "turn_limit", "token_limit", "length", "returned")
LEAKS = [rollout(0, flags=["leak:log"]), rollout(1), failed(2, flags=["leak:log"]), failed(3)]
COUNTED: dict[str, tuple[Sequence[Rollout], dict[str, float | None]]] = {
    "no rollouts": ([], {"score.n": 0.0, "score.success": None}),
    "every planned one by type": (
        [rollout(0), rollout(1, flags=["leak:log"]), failed(2), lost(3), lost(4, "verifier")],
        {"score.n": 5, "score.n_solved": 2, "score.n_clean": 1, "score.n_failed": 1,
         "score.n_infra_error": 1, "score.n_verifier_error": 1, "score.n_policy_error": 0,
         "score.success": 0.4, "score.clean_success": 0.2, "score.success_known": 2 / 3},
    ),
    "as many samples of every task": (
        [rollout(0), failed(0, 1), failed(1), failed(1, 1)],
        {"score.pass_k": 2, "score.pass_at_k": 0.5, "score.task_mean": 0.25},
    ),
    "more samples of one": (
        [rollout(0), failed(0, 1), failed(1), failed(1, 1), failed(2)], {"score.pass_at_k": None},
    ),
    "dead groups; one alone is none": (
        [*(rollout(0, i) for i in range(4)), *(failed(1, i) for i in range(4)),
         *(failed(2, i) for i in range(3)), rollout(2, 3), rollout(3)],
        {"signal.groups": 3, "signal.dead_group_ratio": 2 / 3,
         "signal.dead_solved_ratio": 1 / 3, "signal.dead_unsolved_ratio": 1 / 3},
    ),
    "a component that is always the same": (
        [rollout(i // 4, i % 4, outcome=bool(i % 2),
                 rewards={"solved": float(i % 2), "tested": 1.0}) for i in range(40)],
        {"signal.component.tested.constancy": 1.0, "signal.component.tested.corr_success": None,
         "signal.component.solved.corr_success": 1.0},
    ),
    "a reward that pays for conduct": (
        [failed(i, 0, flags=["leak:log"], rewards={"x": 1.0}) for i in range(10)]
        + [rollout(i, 1, rewards={"x": 0.5}) for i in range(10)],
        {"signal.misordered": 1.0, "signal.flagged_reward_gap": 0.5,
         "signal.reward_corr_clean": -1.0},
    ),
    "a penalty on turns": (
        _turn_penalty(),
        {"signal.reward_turns_corr_within": -1.0, "signal.component.x.turns_corr_within": -1.0,
         "signal.component.y.turns_corr_within": None},
    ),
    "a reward that is missing": (
        [rollout(0), rollout(0, 1, rewards={})],
        {"signal.reward_missing": 0.5, "signal.reward_mean": 1.0},
    ),
    "a reward that is broken": (
        [rollout(0), rollout(0, 1, rewards={"solved": math.nan})],
        {"signal.reward_missing": 0.5, "signal.reward_mean": 1.0},
    ),
    "training gives the signal, others the score": (
        [*(failed(i, j, split="train", story="l s") for i in range(3) for j in range(4)),
         rollout(9), rollout(8)],
        {"score.n": 2, "score.success": 1.0, "signal.groups": 3, "signal.train_success": 0.0,
         "behaviour.self_test_rate": 1.0},
    ),
    "conduct by the roles of tools": (
        [rollout(0, story="v e35 t:lo e41 t:ok s"), failed(1, story="e35 s"),
         failed(2, story="v v t:lo s"), failed(3, story="e35! e35! e41 t:lo s")],
        {"behaviour.edit_rate": 0.75, "behaviour.self_test_rate": 0.75,
         "behaviour.edit_then_test": 2 / 3, "behaviour.view_before_edit": 1 / 3,
         "behaviour.first_edit_turn": 1 / 3, "behaviour.edit_failure_rate": 1 / 3,
         "behaviour.test_fail_rate": 3 / 4, "behaviour.retry_after_fail": 1 / 3,
         "behaviour.submit_after_fail": 1.0, "behaviour.repeated_action_rate": 2 / 17,
         "behaviour.tool_share.view": 3 / 17, "behaviour.tool_failure.edit": 1 / 3},
    ),
    "endings at a ceiling": (
        [failed(i, stop_reason=stop) for i, stop in enumerate(STOPS)],
        {"behaviour.truncation": 0.6, "behaviour.stop.turn_limit": 0.2},
    ),
    "leaks": (LEAKS, {"behaviour.leak_use": 0.5, "behaviour.leak_share_of_solved": 0.5}),
    "the policy's own tokens": (
        [_tokens(), rollout(1)], {"behaviour.mean_logprob": -2.0, "behaviour.inexact_share": 1.0},
    ),
    "what the machines cut short is no conduct": ([lost(0)], {"behaviour.edit_rate": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted(name: str) -> None:
    rollouts, expected = COUNTED[name]
    evidence = build_evidence(rollouts)
    found = {metric: evidence.metric(metric) for metric in expected}
    assert {metric for metric, value in found.items() if value is None} == {
        metric for metric, value in expected.items() if value is None
    }
    values = {metric: value for metric, value in expected.items() if value is not None}
    assert {metric: found[metric] for metric in values} == pytest.approx(values)


def test_alerts_are_raised_where_they_should_be() -> None:
    leak = build_evidence(LEAKS).alert("rule.leak")
    assert leak is not None and leak.level == "CRITICAL"
    constant = build_evidence(COUNTED["a component that is always the same"][0])
    assert constant.alert("signal.component.tested.constancy") is not None
    assert constant.alert("signal.component.solved.constancy") is None
    assert build_evidence(_turn_penalty()).alert("signal.reward_turns_corr_within") is not None


def test_an_agent_without_a_reward_misses_none() -> None:
    """A frozen policy behind a brought agent: nothing is paid, so nothing is missing."""
    rows = [rollout(task, rewards={}, weights={}) for task in range(4)]
    evidence = build_evidence(rows)
    assert evidence.signal == {} and not evidence.alerts
    broken = build_evidence([rollout(task, rewards={}) for task in range(4)])
    assert broken.signal["reward_missing"] == 1.0 and broken.alerts


def test_training_series_become_trends() -> None:
    rows = [{"entropy": 1.0 - 0.1 * i, "kl": None, "note": "x"} for i in range(9)]
    signal = build_evidence([rollout()], train_metrics=rows).signal
    assert signal["train.entropy.first"] == pytest.approx(0.9)
    assert signal["train.entropy.change"] == pytest.approx(-0.6)
    assert signal["train.steps"] == 9
    assert "train.kl.last" not in signal


def test_measurements_of_the_harness_are_kept_if_they_are_numbers() -> None:
    measured = {"spread": {"a": 0.5, "b": math.nan, "c": True}}
    evidence = build_evidence([rollout()], measured=measured)
    assert evidence.measured == {"spread.a": 0.5}
    assert evidence.metric("measured.spread.a") == 0.5 and len(evidence.notes) == 1


def test_changes_are_reported_metric_by_metric_and_task_by_task() -> None:
    before = build_evidence([failed(0), rollout(1), failed(2)])
    after = build_evidence([rollout(0), failed(1), rollout(2)], baseline=before)
    assert after.comparability == "comparable"
    assert after.version["change.score.clean_success"] == pytest.approx(1 / 3)
    assert (after.version["tasks_fixed"], after.version["tasks_broken"]) == (2, 1)


@pytest.mark.parametrize("change", [{"evaluator_hash": "other"}, {"task_hash": "x"}])
def test_versions_measured_differently_are_not_compared(change: dict[str, Any]) -> None:
    before = build_evidence([rollout(0)])
    after = build_evidence([rollout(0, **change)], baseline=before)
    assert after.comparability == "incomparable"
    assert after.version == {} and after.notes


def test_evidence_survives_json() -> None:
    seen = [rollout(0, flags=["leak:log"]), failed(1), lost(2)]
    before = build_evidence(seen)
    evidence = build_evidence(seen, measured={"d": {"x": 1.0}}, baseline=before)
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))) == evidence
