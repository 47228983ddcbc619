from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meta_agent.core.gate import Arm, Context, Finding, OutcomeRow, Side, find_all
from meta_agent.core.gate.numbers.ranks import auc_of
from meta_agent.core.gate.validity._conduct import TAMPER_SHARE
from meta_agent.core.gate.validity._shares import LEAK_SHARE

from ._rows import arm, row


def findings(baseline: Arm, candidate: Arm) -> tuple[Finding, ...]:
    """Only what counts against the candidate, or against the comparison."""
    found = find_all(Side(baseline), Side(candidate))
    return tuple(one for one in found if one.side != "baseline")


def codes(baseline: Arm, candidate: Arm, context: Context = Context()) -> dict[str, str]:  # noqa: B008
    return {f.code: f.severity for f in find_all(Side(baseline), Side(candidate), context)}


def _flag(name: str, first: int) -> Any:
    return lambda seed, task: {"flags": (name,)} if task < first else {}


def test_two_equal_arms_have_no_findings() -> None:
    assert codes(arm("a", seeds=(0, 1)), arm("b", seeds=(0, 1))) == {}


@pytest.mark.parametrize(
    ("flagged", "tasks", "severity"),
    [(0, 100, None), (1, 20, "warn"), (4, 100, "warn"), (7, 100, "unproven"), (30, 100, "veto")],
)
def test_leaks_are_judged_by_their_share_and_its_bounds(
    flagged: int, tasks: int, severity: str | None
) -> None:
    found = codes(arm("a", tasks=tasks), arm("b", tasks=tasks, change=_flag("leak:log", flagged)))
    assert found.get("conduct.leak") == severity


def _some(first: int, **changes: Any) -> Any:
    return lambda seed, task: changes if task < first else {}


def _every(nth: int, **changes: Any) -> Any:
    return lambda seed, task: {} if task % nth else changes


LOST: dict[str, Any] = {"success": None, "error_kind": "infra", "reward": None}
CRASHED: dict[str, Any] = {"reward": None, "error_kind": "policy", "success": False}
ONE_SIDE: dict[str, tuple[Any, dict[str, str]]] = {
    "a leak in attempts that failed": (_some(40, flags=("leak:log",), success=False), {}),
    "tampering, though it failed": (
        _some(10, flags=("tamper:tests",), success=False), {"conduct.tamper": "veto"},
    ),
    "another evaluator": (
        _every(1, evaluator_hash="ev2"), {"incomparable.evaluator": "veto"},
    ),
    "two evaluators": (_every(2, evaluator_hash="ev2"), {"incomparable.evaluator": "veto"}),
    "another task": (_some(1, task_hash="changed"), {"incomparable.plan": "veto"}),
    "rewards that went missing": (_every(4, reward=None), {"artefact.none_reward": "veto"}),
    "a policy error, which has no reward": (_every(4, **CRASHED), {}),
    "truncation, which is what it is in both arms": (_some(40, stop_reason="turn_limit"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_SIDE)
def test_a_change_of_one_side_alone(name: str) -> None:
    change, expected = ONE_SIDE[name]
    assert codes(arm("a"), arm("b", change=change)).items() >= expected.items()
    if not expected:
        assert "veto" not in codes(arm("a"), arm("b", change=change)).values()


def test_the_baselines_conduct_is_reported_on_its_own_side() -> None:
    found = find_all(Side(arm("a", change=_flag("leak:log", 50))), Side(arm("b")))
    assert [(f.code, f.side) for f in found] == [("conduct.leak", "baseline")]


def test_a_leak_finding_quotes_the_rollouts() -> None:
    finding = find_all(None, Side(arm("b", change=_flag("leak:log", 50))))[0]
    assert finding.lines[0] == "t0000 sample 0 seed 0: leak:log"
    assert len(finding.lines) == 5


@pytest.mark.parametrize(("lost", "tasks"), [(5, 100), (1, 10)])
def test_an_evaluation_with_too_many_infra_failures_is_void(lost: int, tasks: int) -> None:
    """One lost rollout does not void a small set."""
    for more, expected in ((0, set()), (1, {"infra.void"})):
        change = _some(lost + more, **LOST)
        sides = (arm("a", tasks=tasks, change=change), arm("b", tasks=tasks, change=change))
        assert set(codes(*sides)) == expected


def test_infra_failures_that_favour_one_arm_are_a_veto() -> None:
    found = codes(arm("a", tasks=1000), arm("b", tasks=1000, change=_some(40, **LOST)))
    assert found == {"infra.unbalanced": "veto"}


def _without(made: Arm, tasks: int) -> Arm:
    return replace(made, seeds={s: rows[tasks:] for s, rows in made.seeds.items()})


def test_missing_rows_never_shrink_the_denominator() -> None:
    both = (_without(arm("a"), 3), _without(arm("b"), 3))
    assert codes(*both) == {"denominator.mismatch": "veto"}


def test_a_row_present_twice_is_found() -> None:
    made = arm("b")
    twice = replace(made, seeds={0: (*made.seeds[0][:-1], row(0))})
    assert codes(arm("a"), twice)["denominator.mismatch"] == "veto"


def test_tasks_that_were_trained_on_are_found_by_content() -> None:
    found = codes(arm("a"), arm("b"), Context({"hash-0007", "elsewhere"}))
    assert found == {"overlap.train_eval": "veto"}


def test_arms_without_any_reward_are_fine() -> None:
    none = lambda s, t: {"reward": None}  # noqa: E731
    assert codes(arm("a", change=none), arm("b", change=none)) == {}


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
    pooled = auc_of(
        [r.reward or 0 for r in rows if not r.clean], [r.reward or 0 for r in rows if r.clean]
    ).share
    assert pooled > 0.7
    assert "divergence.inverted" not in codes(_tried(_right_within_tasks, hash_="old"), made)


def test_a_reward_that_is_wrong_within_tasks_is_a_veto() -> None:
    before = _tried(_right_within_tasks, hash_="old")
    assert codes(before, _tried(_inverted))["divergence.inverted"] == "veto"
    assert [f.code for f in find_all(None, Side(_tried(_inverted)))] == []


@pytest.mark.parametrize("hash_", ["old", "new"])
def test_an_inverted_reward_of_the_version_is_not_inherited(hash_: str) -> None:
    """Whether the candidate keeps that reward or words it anew."""
    found = codes(_tried(_inverted, hash_="old"), _tried(_inverted, hash_=hash_))
    assert found["divergence.inverted"] == "warn"


def test_the_repair_of_an_inverted_reward_has_no_finding() -> None:
    found = codes(_tried(_inverted, hash_="old"), _tried(_right_within_tasks))
    assert "divergence.inverted" not in found


def _everything(tasks: int = 100) -> dict[str, Any]:
    """What a version may do itself: it leaks, tampers, and its reward makes NaN."""
    return {
        "leak": _flag("leak:log", tasks // 2),
        "tamper": _flag("tamper:tests", tasks // 2),
        "nan": lambda s, t: {"reward": math.nan} if t < 9 else {},
        "none": lambda s, t: {"reward": None} if t % 3 == 0 else {},
    }


@pytest.mark.parametrize("name", _everything())
def test_what_the_version_does_itself_no_candidate_inherits(name: str) -> None:
    made = arm("x", change=_everything()[name])
    alone = {f.severity for f in findings(arm("a"), made)}
    assert "veto" in alone
    assert {f.severity for f in findings(made, made)} <= {"warn"}


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


@pytest.mark.parametrize("arms", [100, pytest.param(500, marks=pytest.mark.nightly)])
def test_an_honest_rate_of_a_quarter_of_the_limit_bars_no_small_arm(arms: int) -> None:
    """Arms of 40 attempts, each flagged with a quarter of the limit's chance."""
    draw = np.random.default_rng(3)
    barred = 0
    for _ in range(arms):
        leaks, tampers = (draw.random(40) < limit / 4 for limit in (LEAK_SHARE, TAMPER_SHARE))

        def change(seed: int, task: int, a: Any = leaks, b: Any = tampers) -> dict[str, Any]:
            return {"flags": ("leak:log",) * bool(a[task]) + ("tamper:x",) * bool(b[task])}

        found = findings(arm("a", tasks=40), arm("b", tasks=40, change=change))
        barred += any(f.severity in ("veto", "unproven") for f in found)
    assert barred / arms < 0.05
