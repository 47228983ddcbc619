from __future__ import annotations

import json
import math
import time
import tracemalloc
from typing import Any

import pytest

from meta_agent.core.evidence import Evidence
from meta_agent.readers.evidence import build_evidence

from ._rollouts import failed, lost, rollout, tokens


def test_nothing_is_read_from_no_rollouts() -> None:
    evidence = build_evidence([])
    assert evidence.score == {"n": 0.0}
    assert evidence.alerts == ()


# --- score --------------------------------------------------------------------------------------


def test_every_planned_rollout_is_in_the_denominator_by_type() -> None:
    seen = [rollout(0), rollout(1, flags=["leak:log"]), failed(2), lost(3), lost(4, "verifier")]
    score = build_evidence(seen).score
    counts = {name: score[name] for name in score if name.startswith("n")}
    assert counts == {
        "n": 5, "n_solved": 2, "n_clean": 1, "n_failed": 1,
        "n_infra_error": 1, "n_verifier_error": 1, "n_policy_error": 0,
    }  # fmt: skip
    assert (score["success"], score["clean_success"]) == (0.4, 0.2)
    assert score["success_known"] == pytest.approx(2 / 3)
    assert score["clean_success_low"] < 0.2 < score["clean_success_high"]


def test_averages_are_also_taken_by_task() -> None:
    score = build_evidence([rollout(0), rollout(0, 1), rollout(0, 2), failed(1)]).score
    assert score["success"] == 0.75
    assert score["task_mean"] == 0.5


def test_pass_at_k_needs_as_many_samples_of_every_task() -> None:
    seen = [rollout(0), failed(0, 1), failed(1), failed(1, 1)]
    score = build_evidence(seen).score
    assert (score["pass_k"], score["pass_at_k"]) == (2, 0.5)
    assert "pass_at_k" not in build_evidence([*seen, failed(2)]).score


# --- signal -------------------------------------------------------------------------------------


def test_dead_groups_are_split_by_why_they_are_dead() -> None:
    seen = [
        *(rollout(0, i) for i in range(4)),
        *(failed(1, i) for i in range(4)),
        *(failed(2, i) for i in range(3)),
        rollout(2, 3),
        rollout(3),  # a group of one is no group
    ]
    signal = build_evidence(seen).signal
    assert signal["groups"] == 3
    assert signal["dead_group_ratio"] == pytest.approx(2 / 3)
    assert signal["dead_solved_ratio"] == signal["dead_unsolved_ratio"] == pytest.approx(1 / 3)


def test_a_component_that_is_always_the_same_is_named() -> None:
    def scored(i: int) -> dict[str, float]:
        return {"solved": float(i % 2), "tested": 1.0}

    seen = [rollout(i // 4, i % 4, outcome=bool(i % 2), rewards=scored(i)) for i in range(40)]
    evidence = build_evidence(seen)
    assert evidence.signal["component.tested.constancy"] == 1.0
    assert "component.tested.corr_success" not in evidence.signal
    assert evidence.signal["component.solved.corr_success"] == pytest.approx(1.0)
    assert evidence.alert("signal.component.tested.constancy") is not None
    assert evidence.alert("signal.component.solved.constancy") is None


def test_a_reward_that_pays_for_conduct_shows_in_three_numbers() -> None:
    seen = [failed(i, 0, flags=["leak:log"], rewards={"x": 1.0}) for i in range(10)]
    seen += [rollout(i, 1, rewards={"x": 0.5}) for i in range(10)]
    signal = build_evidence(seen).signal
    assert signal["misordered"] == 1.0
    assert signal["flagged_reward_gap"] == 0.5
    assert signal["reward_corr_clean"] == pytest.approx(-1.0)


def test_a_penalty_on_turns_shows_among_attempts_that_end_alike() -> None:
    """Solved attempts are longer here, so that over all of them length seems to pay."""
    seen = [
        rollout(i, j, outcome=won, turns=turns, rewards={"x": won - 0.1 * turns, "y": float(won)})
        for i in range(3)
        for j, (won, turns) in enumerate([(True, 7), (True, 8), (False, 2), (False, 3)])
    ]
    evidence = build_evidence(seen)
    assert evidence.signal["reward_turns_corr"] > 0
    assert evidence.signal["reward_turns_corr_within"] == pytest.approx(-1.0)
    assert evidence.signal["component.x.turns_corr_within"] == pytest.approx(-1.0)
    assert "component.y.turns_corr_within" not in evidence.signal
    assert evidence.alert("signal.reward_turns_corr_within") is not None


def test_what_attempts_that_ran_out_of_turns_miss_is_no_penalty_on_turns() -> None:
    seen = [rollout(0, j, turns=4, rewards={"submitted": 1.0}) for j in range(4)]
    seen += [
        failed(1, j, turns=8, stop_reason="returned", rewards={"submitted": 0.0}) for j in range(4)
    ]
    assert "reward_turns_corr_within" not in build_evidence(seen).signal


def test_groups_that_train_on_one_task_again_are_counted() -> None:
    seen = [rollout(0, j, group_id=f"step{step}") for step in range(3) for j in range(2)]
    seen += [rollout(1, j, group_id="other") for j in range(2)]
    assert build_evidence(seen).signal["task_repeats"] == 0.5


@pytest.mark.parametrize("bad", [{}, {"solved": math.nan}, {"solved": math.inf}])
def test_missing_and_broken_rewards_are_counted_not_averaged(bad: dict[str, float]) -> None:
    signal = build_evidence([rollout(0), rollout(0, 1, rewards=bad)]).signal
    assert signal["reward_missing"] == 0.5
    assert signal["reward_mean"] == 1.0


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


def test_training_rollouts_give_the_signal_and_the_others_the_score() -> None:
    trained = [failed(i, j, split="train", story="l s") for i in range(3) for j in range(4)]
    evidence = build_evidence([*trained, rollout(9), rollout(8)])
    assert evidence.score["n"] == 2
    assert evidence.score["success"] == 1.0
    assert evidence.signal["groups"] == 3
    assert evidence.signal["train_success"] == 0.0
    assert evidence.behaviour["self_test_rate"] == 1.0


# --- behaviour -----------------------------------------------------------------------------------


def test_conduct_is_told_by_the_roles_of_tools() -> None:
    seen = [
        rollout(0, story="v e35 t:lo e41 t:ok s"),
        failed(1, story="e35 s"),
        failed(2, story="v v t:lo s"),
        failed(3, story="e35! e35! e41 t:lo s"),
    ]
    behaviour = build_evidence(seen).behaviour
    expected = {
        "edit_rate": 0.75,
        "self_test_rate": 0.75,
        "edit_then_test": 2 / 3,
        "view_before_edit": 1 / 3,
        "first_edit_turn": 1 / 3,
        "edit_failure_rate": 1 / 3,
        "test_fail_rate": 3 / 4,
        "retry_after_fail": 1 / 3,
        "submit_after_fail": 1.0,
        "repeated_action_rate": 2 / 17,
        "tool_share.view": 3 / 17,
        "tool_failure.edit": 1 / 3,
    }
    assert {name: behaviour[name] for name in expected} == pytest.approx(expected)


def test_a_domain_without_edits_has_no_edit_rate() -> None:
    behaviour = build_evidence([rollout(story="s"), rollout(story="s")]).behaviour
    assert "edit_rate" not in behaviour
    assert "self_test_rate" not in behaviour


def test_endings_at_a_ceiling_are_truncation_whatever_the_trainer_says() -> None:
    stops = ["submitted", "turn_limit", "token_limit", "length", "returned"]
    behaviour = build_evidence([failed(i, stop_reason=s) for i, s in enumerate(stops)]).behaviour
    assert behaviour["truncation"] == 0.6
    assert behaviour["stop.turn_limit"] == 0.2


def test_leaks_are_counted_of_all_and_of_what_was_solved() -> None:
    seen = [rollout(0, flags=["leak:log"]), rollout(1), failed(2, flags=["leak:log"]), failed(3)]
    evidence = build_evidence(seen)
    assert evidence.behaviour["leak_use"] == 0.5
    assert evidence.behaviour["leak_share_of_solved"] == 0.5
    alert = evidence.alert("rule.leak")
    assert alert is not None
    assert alert.level == "CRITICAL"


def test_the_mean_logprob_is_over_the_policys_own_tokens() -> None:
    row = tokens([-1.0, 0.0, -3.0], exact=False)
    row.mask[1] = 0
    behaviour = build_evidence([rollout(tokens=row), rollout(1)]).behaviour
    assert behaviour["mean_logprob"] == -2.0
    assert behaviour["inexact_share"] == 1.0


def test_groups_that_act_alike_lack_diversity() -> None:
    alike = [rollout(0, i) for i in range(4)]
    mixed = [rollout(1, i, story=s) for i, s in enumerate(["s", "v s", "t:ok s", "v v s"])]
    assert build_evidence(alike).behaviour["sequence_diversity"] == 0.25
    assert build_evidence([*alike, *mixed]).behaviour["sequence_diversity"] == 0.625


def test_what_the_machines_cut_short_is_no_conduct() -> None:
    assert build_evidence([lost(0)]).behaviour == {}


# --- measured, version, JSON ---------------------------------------------------------------------


def test_measurements_of_the_harness_are_kept_if_they_are_numbers() -> None:
    measured = {"spread": {"a": 0.5, "b": math.nan, "c": True}}
    evidence = build_evidence([rollout()], measured=measured)
    assert evidence.measured == {"spread.a": 0.5}
    assert evidence.metric("measured.spread.a") == 0.5
    assert evidence.notes == ("2 measured values were not finite numbers",)


def test_changes_are_reported_metric_by_metric_and_task_by_task() -> None:
    before = build_evidence([failed(0), rollout(1), failed(2)])
    after = build_evidence([rollout(0), failed(1), rollout(2)], baseline=before)
    assert after.comparability == "comparable"
    assert after.version["change.score.clean_success"] == pytest.approx(1 / 3)
    assert (after.version["tasks_fixed"], after.version["tasks_broken"]) == (2, 1)


@pytest.mark.parametrize(
    ("change", "why"), [({"evaluator_hash": "other"}, "evaluators"), ({"task_hash": "x"}, "tasks")]
)
def test_versions_measured_differently_are_not_compared(change: dict[str, Any], why: str) -> None:
    before = build_evidence([rollout(0)])
    after = build_evidence([rollout(0, **change)], baseline=before)
    assert after.comparability == "incomparable"
    assert after.version == {}
    assert why in after.notes[0]


def test_evidence_survives_json() -> None:
    seen = [rollout(0, flags=["leak:log"]), failed(1), lost(2)]
    before = build_evidence(seen)
    evidence = build_evidence(seen, measured={"d": {"x": 1.0}}, baseline=before)
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))) == evidence


def test_metrics_are_found_by_full_and_by_bare_name() -> None:
    evidence = build_evidence([rollout(0)])
    assert evidence.metric("clean_success") == evidence.metric("score.clean_success") == 1.0
    assert evidence.metric("signal.nothing") is None
    assert evidence.metric("nothing") is None


def test_one_pass_in_linear_time_and_flat_memory() -> None:
    def stream(n: int) -> object:
        return (rollout(i % 50, i // 50, outcome=i % 3 == 0) for i in range(n))

    def cost(n: int) -> tuple[float, int]:
        tracemalloc.start()
        start = time.perf_counter()
        build_evidence(stream(n))  # type: ignore[arg-type]
        spent = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return spent, peak

    cost(100)
    small, large = cost(1000), cost(4000)
    assert large[0] < 12 * small[0]
    # Rewards of a group are kept as floats: about 32 bytes a rollout, no records.
    assert large[1] - small[1] < 3000 * 200
