from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meta_agent.core.gate import (
    Arm,
    Finding,
    OutcomeRow,
    ValidityLimits,
    find_all,
    find_in_arm,
    wilson,
)
from meta_agent.core.gate.validity._reward import mann_whitney_share

from ._rows import arm, row


def findings(baseline: Arm, candidate: Arm) -> tuple[Finding, ...]:
    """Only what counts against the candidate, or against the comparison."""
    return tuple(one for one in find_all(baseline, candidate) if one.side != "baseline")


def codes(baseline: Arm, candidate: Arm, **options: Any) -> dict[str, str]:
    return {f.code: f.severity for f in find_all(baseline, candidate, **options)}


def _flag(name: str, first: int) -> Any:
    return lambda seed, task: {"flags": (name,)} if task < first else {}


def test_two_equal_arms_have_no_findings() -> None:
    assert codes(arm("a", seeds=(0, 1)), arm("b", seeds=(0, 1))) == {}


@pytest.mark.parametrize(
    ("flagged", "tasks", "severity"),
    [
        (0, 100, None),
        (1, 20, "warn"),
        (1, 256, "warn"),
        (4, 100, "warn"),
        (7, 100, "unproven"),
        (2, 500, "warn"),
        (30, 100, "veto"),
    ],
)
def test_leaks_are_judged_by_their_share_and_its_bounds(
    flagged: int, tasks: int, severity: str | None
) -> None:
    found = codes(arm("a", tasks=tasks), arm("b", tasks=tasks, change=_flag("leak:log", flagged)))
    assert found.get("conduct.leak") == severity


def test_a_leak_in_a_rollout_that_failed_is_no_leaked_solution() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"flags": ("leak:log",), "success": False} if task < 40 else {}

    assert "conduct.leak" not in codes(arm("a"), arm("b", change=change))


def test_tampering_counts_even_where_it_failed() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"flags": ("tamper:tests",), "success": False} if task < 10 else {}

    assert codes(arm("a"), arm("b", change=change))["conduct.tamper"] == "veto"


def test_the_baselines_conduct_is_reported_on_its_own_side() -> None:
    found = find_all(arm("a", change=_flag("leak:log", 50)), arm("b"))
    assert [(f.code, f.side) for f in found] == [("conduct.leak", "baseline")]


def test_a_leak_finding_quotes_the_rollouts() -> None:
    finding = find_in_arm(arm("b", change=_flag("leak:log", 50)))[0]
    assert finding.lines[0] == "t0000 sample 0 seed 0: leak:log"
    assert len(finding.lines) == 5


def _lost(first: int) -> Any:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": None, "error_kind": "infra", "reward": None} if task < first else {}

    return change


@pytest.mark.parametrize(("lost", "expected"), [(0, set()), (5, set()), (6, {"infra.void"})])
def test_an_evaluation_with_too_many_infra_failures_is_void(lost: int, expected: set[str]) -> None:
    sides = (arm("a", change=_lost(lost)), arm("b", change=_lost(lost)))
    assert set(codes(*sides)) == expected


@pytest.mark.parametrize(("lost", "expected"), [(1, set()), (2, {"infra.void"})])
def test_one_lost_rollout_does_not_void_a_small_set(lost: int, expected: set[str]) -> None:
    sides = (arm("a", tasks=10, change=_lost(lost)), arm("b", tasks=10, change=_lost(lost)))
    assert set(codes(*sides)) == expected


def test_infra_failures_that_favour_one_arm_are_a_veto() -> None:
    found = codes(arm("a", tasks=1000), arm("b", tasks=1000, change=_lost(40)))
    assert found == {"infra.unbalanced": "veto"}


def test_different_evaluators_are_incomparable() -> None:
    other = arm("b", change=lambda s, t: {"evaluator_hash": "ev2"})
    assert codes(arm("a"), other)["incomparable.evaluator"] == "veto"


def test_one_arm_measured_under_two_evaluators_is_incomparable() -> None:
    mixed = lambda s, t: {"evaluator_hash": f"ev{t % 2}"}  # noqa: E731
    assert "incomparable.evaluator" in codes(arm("a", change=mixed), arm("b", change=mixed))


def _without(made: Arm, tasks: int) -> Arm:
    return replace(made, seeds={s: rows[tasks:] for s, rows in made.seeds.items()})


def test_missing_rows_never_shrink_the_denominator() -> None:
    both = (_without(arm("a"), 3), _without(arm("b"), 3))
    assert codes(*both) == {"denominator.mismatch": "veto"}


def test_a_row_present_twice_is_found() -> None:
    made = arm("b")
    twice = replace(made, seeds={0: (*made.seeds[0][:-1], row(0))})
    assert codes(arm("a"), twice)["denominator.mismatch"] == "veto"


def test_arms_on_different_tasks_are_incomparable() -> None:
    other = arm("b", change=lambda s, t: {"task_hash": "changed"} if t == 0 else {})
    assert codes(arm("a"), other) == {"incomparable.plan": "veto"}


def test_tasks_that_were_trained_on_are_found_by_content() -> None:
    found = codes(arm("a"), arm("b"), train_hashes={"hash-0007", "elsewhere"})
    assert found == {"overlap.train_eval": "veto"}


def test_rewards_that_went_missing_are_an_artefact() -> None:
    other = arm("b", change=lambda s, t: {"reward": None} if t % 4 == 0 else {})
    assert codes(arm("a"), other)["artefact.none_reward"] == "veto"


def test_a_policy_error_has_no_reward_and_that_is_no_artefact() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        crashed = {"reward": None, "error_kind": "policy", "success": False}
        return crashed if task % 4 == 0 else {}

    assert "artefact.none_reward" not in codes(arm("a"), arm("b", change=change))


def test_arms_without_any_reward_are_fine() -> None:
    none = lambda s, t: {"reward": None}  # noqa: E731
    assert codes(arm("a", change=none), arm("b", change=none)) == {}


def test_a_jump_in_truncation_is_a_warning() -> None:
    other = arm("b", change=lambda s, t: {"stop_reason": "turn_limit"} if t < 40 else {})
    assert codes(arm("a"), other)["artefact.truncation"] == "warn"


def _half_solved(bonus: float, *, hash_: str = "same") -> Arm:
    def change(seed: int, task: int) -> dict[str, Any]:
        solved = task % 2 == 0
        return {"success": solved, "reward": float(solved) + bonus * (task % 3 + 1)}

    return replace(arm("x", tasks=300, change=change), reward_hash=hash_)


@pytest.mark.parametrize(("lost", "severity"), [(0, "warn"), (3, "warn"), (60, "veto")])
def test_a_reward_that_rises_is_vetoed_where_clean_success_surely_fell(
    lost: int, severity: str
) -> None:
    better = _half_solved(0.3)
    rows = tuple(
        replace(row, success=row.success and n >= 2 * lost) for n, row in enumerate(better.seeds[0])
    )
    found = codes(_half_solved(0.0), replace(better, seeds={0: rows}))
    assert found["divergence.reward_up"] == severity


def test_rewards_of_different_code_are_not_compared_in_size() -> None:
    found = codes(_half_solved(0.0, hash_="old"), _half_solved(0.2, hash_="new"))
    assert "divergence.reward_up" not in found


def test_reward_that_follows_success_is_fine() -> None:
    better = arm("b", tasks=300, change=lambda s, t: {"success": t % 3 > 0, "reward": t % 3 > 0})
    sides = (_half_solved(0.0), replace(better, reward_hash="same"))
    assert "divergence.reward_up" not in codes(*sides)


def test_a_reward_that_prefers_failures_is_inverted() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": task % 2 == 0, "reward": float(task % 2) + task % 5 / 10}

    assert codes(arm("a"), arm("b", change=change))["divergence.inverted"] == "veto"


def test_a_noisy_but_honest_reward_is_not_inverted() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": task % 2 == 0, "reward": 0.1 * (task % 2 == 0) + task % 7 / 7}

    assert "divergence.inverted" not in codes(arm("a"), arm("b", change=change))


# --- relative to the version ---------------------------------------------------------------------


def _tried(reward: Any, *, tasks: int = 48, hash_: str = "new", solved: Any = None) -> Arm:
    """Eight attempts a task; `reward(task, solved)`. Tasks differ in how often they are solved."""

    def one(task: int, sample: int) -> OutcomeRow:
        won = solved(task, sample) if solved else sample < (1 if task % 2 else 7)
        return row(task, sample, success=won, reward=reward(task, won))

    rows = tuple(one(task, sample) for task in range(tasks) for sample in range(8))
    return Arm("x", {0: rows}, len(rows), hash_)


def _inverted(task: int, won: bool) -> float:
    return 0.2 if won else 0.7


def _right_within_tasks(task: int, won: bool) -> float:
    """Tasks that are solved more seldom pay so much more that a pool of all looks inverted."""
    return 3.0 * (task % 2) + 0.5 * won


def test_a_reward_that_is_right_within_every_task_is_not_inverted() -> None:
    made = _tried(_right_within_tasks)
    rows = list(made.rows())
    pooled = mann_whitney_share(
        [r.reward or 0 for r in rows if not r.clean], [r.reward or 0 for r in rows if r.clean]
    )
    assert pooled > 0.7
    assert "divergence.inverted" not in codes(_tried(_right_within_tasks, hash_="old"), made)


def test_a_reward_that_is_wrong_within_tasks_is_a_veto() -> None:
    before = _tried(_right_within_tasks, hash_="old")
    assert codes(before, _tried(_inverted))["divergence.inverted"] == "veto"
    assert [f.code for f in find_in_arm(_tried(_inverted))] == []


@pytest.mark.parametrize("hash_", ["old", "new"])
def test_an_inverted_reward_of_the_version_is_not_inherited(hash_: str) -> None:
    """Whether the candidate keeps that reward or words it anew."""
    found = codes(_tried(_inverted, hash_="old"), _tried(_inverted, hash_=hash_))
    assert found["divergence.inverted"] == "warn"


def test_the_repair_of_an_inverted_reward_has_no_finding() -> None:
    found = codes(_tried(_inverted, hash_="old"), _tried(_right_within_tasks))
    assert "divergence.inverted" not in found


def _everything(tasks: int = 100) -> dict[str, Any]:
    """What a version may do itself: it leaks, tampers, knows tests, and its reward makes NaN."""
    return {
        "leak": _flag("leak:log", tasks // 2),
        "tamper": _flag("tamper:tests", tasks // 2),
        "suspect": _flag("suspect:knows-tests", tasks // 2),
        "nan": lambda s, t: {"reward": math.nan} if t < 9 else {},
        "none": lambda s, t: {"reward": None} if t % 3 == 0 else {},
    }


@pytest.mark.parametrize("name", _everything())
def test_what_the_version_does_itself_no_candidate_inherits(name: str) -> None:
    made = arm("x", change=_everything()[name])
    alone = {f.severity for f in findings(arm("a"), made)}
    assert "veto" in alone
    assert {f.severity for f in findings(made, made)} <= {"warn"}


def test_findings_leave_out_what_is_the_baselines_alone() -> None:
    assert findings(arm("a", change=_flag("leak:log", 50)), arm("b")) == ()


def test_hits_on_few_tasks_are_worth_no_more_than_those_tasks() -> None:
    """Two tasks of 25, tried eight times each: 16 of 200 rows, and no more than two tasks' word."""

    def leaking(few: bool) -> Arm:
        made = [
            (t, s, t < 2 if few else t < 16 and s == t % 8) for t in range(25) for s in range(8)
        ]
        rows = tuple(row(t, s, flags=("leak:log",) * hit) for t, s, hit in made)
        return Arm("x", {0: rows}, 200)

    clean = Arm("a", {0: tuple(row(t, s) for t in range(25) for s in range(8))}, 200)
    bounds = [findings(clean, leaking(few))[0].numbers for few in (True, False)]
    assert [b["hits"] for b in bounds] == [16, 16]
    assert bounds[0]["low"] < bounds[1]["low"]


@pytest.mark.parametrize("limit_share", [0.25])
def test_an_honest_rate_of_a_quarter_of_the_limit_bars_no_small_arm(limit_share: float) -> None:
    """500 arms of 40 attempts, each flagged with a quarter of the limit's chance."""
    draw = np.random.default_rng(3)
    limits = ValidityLimits()
    barred = 0
    for _ in range(500):
        leaks, tampers = (
            draw.random(40) < limit_share * limit
            for limit in (limits.leak_share, limits.tamper_share)
        )

        def change(seed: int, task: int, a: Any = leaks, b: Any = tampers) -> dict[str, Any]:
            return {"flags": ("leak:log",) * bool(a[task]) + ("tamper:x",) * bool(b[task])}

        found = findings(arm("a", tasks=40), arm("b", tasks=40, change=change))
        barred += any(f.severity in ("veto", "unproven") for f in found)
    assert barred / 500 < 0.05


def test_a_constant_added_to_every_reward_is_named() -> None:
    def change(seed: int, task: int) -> dict[str, Any]:
        return {"success": task % 2 == 0, "reward": float(task % 2 == 0) + 0.5}

    found = codes(_half_solved(0.0, hash_="a"), replace(arm("b", tasks=300, change=change)))
    assert found == {"reward.constant_offset": "warn"}


def test_limits_are_the_callers() -> None:
    sides = (arm("a"), arm("b", change=_flag("leak:log", 30)))
    assert codes(*sides, limits=ValidityLimits(leak_share=0.9))["conduct.leak"] == "warn"


def test_wilson_at_the_edges() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 100).low == 0.0
    assert wilson(100, 100).high == 1.0
    assert wilson(50, 100).low == pytest.approx(0.4038, abs=1e-4)


def test_rank_share_counts_ties_as_half() -> None:
    assert mann_whitney_share([1, 1], [1, 1]) == 0.5
    assert mann_whitney_share([2, 3], [0, 1]) == 1.0
    assert mann_whitney_share([1], [0, 1, 2, 2]) == 0.375
