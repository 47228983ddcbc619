from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import (
    Arm,
    Finding,
    Side,
    Terms,
    find_all,
    judge_live,
    verdict_from_json,
    verdict_to_json,
)
from meta_agent.core.protocols import Verdict, VerdictKind

from ._rows import arm, drawn_arm

FOUR = (0, 1, 2, 3)


def _first(
    share: float, *, tasks: int = 200, seeds: Any = (0,), name: str = "x", **more: Any
) -> Arm:
    """Solves the first `share` of the tasks, one less or more in odd seeds."""

    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": task < share * tasks + seed % 2, **more}

    return arm(name, tasks=tasks, seeds=seeds, change=change)


def _judge(before: Arm, after: Arm, **options: Any) -> Verdict:
    findings = options.pop("findings", None)
    if findings is None:
        findings = find_all(Side(before), Side(after))
    return judge_live(before, after, Terms(**options), findings)


def test_a_clear_gain_is_promoted_with_its_numbers() -> None:
    verdict = _judge(_first(0.5), _first(0.7))
    assert verdict.kind is VerdictKind.PROMOTE
    assert verdict.effect is not None
    assert verdict.effect.delta == pytest.approx(0.2)
    assert verdict.effect.ci_low > 0
    assert verdict.evidence["arms"]["candidate"]["clean"] == 140


def test_a_clear_harm_is_rejected() -> None:
    assert _judge(_first(0.7), _first(0.5)).kind is VerdictKind.REJECT
    # And so is a gain that is too small to want.
    verdict = _judge(_first(0.5, tasks=5000), _first(0.5004, tasks=5000))
    assert verdict.kind is VerdictKind.REJECT


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_four_tasks_on_which_nothing_differs_reject_nothing(share: float) -> None:
    verdict = _judge(_first(share, tasks=4), _first(share, tasks=4))
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.effect is not None
    assert verdict.effect.ci_high > 0.4


def test_doubt_is_inconclusive_and_says_whether_more_helps() -> None:
    sides = _first(0.5, tasks=40), _first(0.55, tasks=40)
    verdicts = [_judge(*sides, final=final) for final in (False, True)]
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.INCONCLUSIVE}
    assert verdicts[0].reasons != verdicts[1].reasons


def test_a_win_by_the_leak_is_invalid_at_any_score() -> None:
    leaking = _first(1.0, flags=("leak:log",))
    verdict = _judge(_first(0.3), leaking)
    assert verdict.kind is VerdictKind.INVALID
    assert verdict.reasons[0].startswith("conduct.leak")


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_attempts_that_are_long_because_length_is_paid_are_no_gain(lost: float) -> None:
    long = _first(0.5 - lost, turns=14, reward=1.4)
    assert _judge(_first(0.5, reward=0.5), long).kind is not VerdictKind.PROMOTE


def test_a_repair_of_a_leaking_baseline_can_be_promoted() -> None:
    verdict = _judge(_first(1.0, flags=("leak:log",)), _first(0.6))
    assert verdict.kind is VerdictKind.PROMOTE


def test_a_change_without_effect_between_incomparable_arms_is_invalid() -> None:
    verdict = _judge(_first(0.5), _first(0.9, evaluator_hash="other"))
    assert verdict.kind is VerdictKind.INVALID


def _leaky(share: float, leaks: int, tasks: int = 100) -> Arm:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": task < share * tasks, "flags": ("leak:log",) if task < leaks else ()}

    return arm("leaky", tasks=tasks, change=change)


@pytest.mark.parametrize("final", [False, True])
def test_validity_that_is_not_proven_bars_a_promotion_and_condemns_nobody(final: bool) -> None:
    verdict = _judge(_first(0.3, tasks=100), _leaky(0.9, 7), final=final)
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "conduct.leak" in verdict.reasons[0]


def test_a_gain_that_rests_on_doubted_successes_is_not_promoted() -> None:
    sides = _first(0.5), _first(0.6)
    assert _judge(*sides).kind is VerdictKind.PROMOTE
    doubts = [
        Finding("conduct.copied_answer", "warn", "m", numbers={"counted": n}) for n in (1, 19)
    ]
    kinds = [_judge(*sides, findings=(doubt,)).kind for doubt in doubts]
    assert kinds == [VerdictKind.PROMOTE, VerdictKind.INCONCLUSIVE]


def test_a_gain_through_training_needs_two_training_seeds() -> None:
    one = _judge(_first(0.3), _first(0.9), min_seeds=2)
    assert one.kind is VerdictKind.INCONCLUSIVE
    four = _judge(_first(0.3, seeds=FOUR), _first(0.9, seeds=FOUR), min_seeds=2)
    assert four.kind is VerdictKind.PROMOTE
    assert four.effect is not None
    assert four.effect.training_seeds == 4


def test_a_few_discordant_tasks_are_not_enough_for_the_exact_test() -> None:
    """Four wins, no loss in 200 tasks: Student's interval excludes 0 at 5 %, counting does not."""
    verdict = _judge(_first(0.5), _first(0.52))
    assert verdict.effect is not None
    assert verdict.effect.ci_low > 0
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_lost_pairs_at_their_worst_must_not_undo_the_gain() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": None, "error_kind": "infra"} if task >= 192 else {"success": task < 106}

    verdict = _judge(_first(0.5), arm("x", tasks=200, change=change))
    assert verdict.kind is not VerdictKind.PROMOTE


def test_arms_without_any_outcome_decide_nothing() -> None:
    rows = _first(0.5, error_kind="infra").seeds[0]
    lost = replace(_first(0.5), seeds={0: tuple(replace(row, success=None) for row in rows)})
    assert _judge(lost, lost, findings=()).kind is VerdictKind.INCONCLUSIVE


def test_the_minimum_effect_binds() -> None:
    sides = (_first(0.5), _first(0.7))
    assert _judge(*sides, min_effect=0.1).kind is VerdictKind.PROMOTE
    assert _judge(*sides, min_effect=0.19).kind is VerdictKind.INCONCLUSIVE


@pytest.mark.parametrize(
    "bad", [{"min_seeds": 0}, {"min_effect": -0.1}, {"alpha": 0.0}, {"futility": 0.9}]
)
def test_what_was_not_declared_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        _judge(_first(0.5), _first(0.7), **bad)


def test_verdicts_survive_json() -> None:
    verdict = _judge(_first(0.5, seeds=FOUR), _first(0.7, seeds=FOUR), min_seeds=2)
    data = json.loads(json.dumps(verdict_to_json(verdict)))
    assert verdict_to_json(verdict_from_json(data)) == data


# --- the whole run -------------------------------------------------------------------------------


def _run_of_null_candidates(rng: np.random.Generator, *, spread: float) -> bool:
    """Four candidates that change nothing, each with looks after two and four seeds."""
    tasks = rng.beta(1.2, 1.2, size=64)
    before = drawn_arm("a", _shares(tasks, spread, rng), rng)
    return any(_ever_promoted(before, tasks, spread, rng) for _ in range(4))


def _shares(tasks: np.ndarray, spread: float, rng: np.random.Generator) -> np.ndarray:
    return np.clip(tasks + rng.normal(0, spread / np.sqrt(2), size=(4, 1)), 0, 1)


def _ever_promoted(before: Arm, tasks: np.ndarray, spread: float, rng: np.random.Generator) -> bool:
    after = drawn_arm("b", _shares(tasks, spread, rng), rng)
    for look, count in enumerate((2, 4)):
        sides = [replace(s, seeds={k: s.seeds[k] for k in range(count)}) for s in (before, after)]
        alpha = 0.05 / 4 * (1 + look) / 3  # all candidates and both looks share one error
        verdict = _judge(*sides, min_seeds=2, alpha=alpha, final=look == 1, findings=())
        if verdict.kind is not VerdictKind.INCONCLUSIVE:
            return verdict.kind is VerdictKind.PROMOTE
    return False


@pytest.mark.parametrize(
    ("spread", "runs"),
    [
        (0.04, 15),
        pytest.param(0.0, 120, marks=pytest.mark.nightly),
        pytest.param(0.04, 120, marks=pytest.mark.nightly),
    ],
)
def test_a_whole_run_of_null_candidates_seldom_promotes_any(spread: float, runs: int) -> None:
    """At most 5 % of runs by declaration, and three standard errors of so many."""
    rng = np.random.default_rng(17)
    false = sum(_run_of_null_candidates(rng, spread=spread) for _ in range(runs))
    assert false / runs <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.parametrize("draws", [20, pytest.param(100, marks=pytest.mark.nightly)])
def test_validity_does_not_block_honest_candidates(draws: int) -> None:
    """No finding that could veto, in A/A comparisons with equal conduct."""
    rng = np.random.default_rng(23)
    blocked = 0
    for _ in range(draws):
        tasks = rng.beta(1.2, 1.2, size=(2, 128))
        found = find_all(*(Side(drawn_arm(name, tasks, rng)) for name in "ab"))
        blocked += any(finding.severity != "warn" for finding in found)
    assert blocked == 0


def test_few_tasks_prove_more_where_ties_are_broken_by_a_declared_salt() -> None:
    """Four wins of four have a chance of 1 in 16, which one time in five is still too much."""
    before, after = _first(0.0, tasks=20), _first(0.2, tasks=20)
    assert _judge(before, after).kind is VerdictKind.INCONCLUSIVE
    kinds = [_judge(before, after, ties=f"salt {n}").kind for n in range(40)]
    assert {VerdictKind.PROMOTE, VerdictKind.INCONCLUSIVE} == set(kinds)
    told = _judge(before, after, ties="salt 0").evidence
    assert told["inputs"]["ties"] == "salt 0" and told["numbers"]["sign_flip_p"] <= 1 / 16
    assert "ties" not in _judge(before, after).evidence["inputs"]


def test_no_draw_proves_what_so_few_tasks_cannot() -> None:
    before, after = _first(0.0, tasks=4), _first(1.0, tasks=4)
    found = [_judge(before, after, ties=f"salt {n}") for n in range(20)]
    assert {one.kind for one in found} == {VerdictKind.INCONCLUSIVE}
    assert {one.evidence["numbers"]["sign_flip_p"] for one in found} == {1 / 16}
