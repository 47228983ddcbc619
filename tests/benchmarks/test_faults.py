"""The planted-fault benchmark: its faults, its oracle, its controls, and what counts as found."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from faults import SUITES, Row, judged
from faults_cases import ALL_FAULTS, HONEST, INVALID, Planted, honest
from faults_lab import Made
from faults_oracle import is_free, repaired
from faults_tables import ARMS, interval
from more_faults import MORE_FAULTS

from meta_agent.core.gate import CHECKS
from meta_agent.core.harness import parse_contract
from meta_agent.core.protocols import HarnessTree, Rollout
from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.planted._fault import Fault
from meta_agent.domains.nano.planted.faults import FAULTS
from meta_agent.domains.nano.sources import Variant, sources
from meta_agent.domains.nano.swe_tasks import problems

VARIANTS: tuple[Variant, ...] = ("seed", "competent")
MORE = [each.name for each in MORE_FAULTS]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fault", MORE_FAULTS, ids=MORE)
def test_a_further_fault_is_one_and_undoing_it_repairs_it(fault: Fault, variant: Variant) -> None:
    clean = sources("swe", variant)
    broken = fault.apply(clean)
    assert repaired(fault, broken, clean)
    assert not repaired(fault, clean, broken)


@pytest.mark.parametrize("fault", MORE_FAULTS, ids=MORE)
def test_a_further_fault_changes_one_factor(fault: Fault) -> None:
    clean = sources("swe", "competent")
    changed = [p for p, text in fault.apply(clean).items() if clean.get(p) != text]
    contract = parse_contract(HarnessTree("c", "t", clean))
    assert contract.factor_of(changed) == fault.factor


def test_names_of_faults_are_unique() -> None:
    assert len(ALL_FAULTS) == len(FAULTS) + len(MORE_FAULTS)
    assert len({case.name for case in INVALID}) == len(INVALID)


@pytest.mark.parametrize("suite", SUITES)
def test_a_suites_edits_all_take_and_leave_sources_that_a_harness_can_be_made_of(
    suite: str,
) -> None:
    clean, of = sources(suite, "competent"), SUITES[suite]
    contract = parse_contract(HarnessTree("c", "t", clean))
    for files in (
        *(case.files(clean, of.faults) for case in of.invalid if case.faults),
        *(honest(name, clean, of.honest) for name in of.honest if name != "nothing"),
    ):
        changed = [path for path, text in files.items() if clean.get(path) != text]
        assert changed
        assert all(contract.factor_of([path]) for path in changed)


def test_enough_is_planted_and_every_required_kind_is() -> None:
    names = {each for case in INVALID for each in (case.name, *case.faults)}
    assert len({*ALL_FAULTS, *(case.name for case in INVALID if case.spoil)}) >= 15
    assert {"wrong_component", "flaky_grader", "memorised"} <= names
    assert "poisoned_curriculum" in ALL_FAULTS


def test_what_each_arm_would_promote_is_told_from_one_row() -> None:
    row = judged("same", _made(1, "h"), _made(1, "h"))
    assert {name: test(row) for name, test in ARMS.items()} == dict.fromkeys(ARMS, False)
    better = replace(row, verdict="INVALID", kept=True, rewarded=True)
    assert [name for name, test in ARMS.items() if test(better)] == ["score-only", "own reward"]


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_edit_plants_no_fault(name: str) -> None:
    edited = honest(name, sources("swe", "competent"))
    assert [fault.name for fault in ALL_FAULTS.values() if not is_free(fault, edited)] == []


def test_every_case_says_which_detectors_would_be_right() -> None:
    known = {each.name for each in CHECKS}
    for case in (*INVALID, *SUITES["math"].invalid):
        assert case.by
        assert set(case.by) <= known


def _made(seed: int, hash_: str) -> Made:
    """Attempts at real tasks, half of them right, with what the grader needs to say so."""
    domain, draw, rows = NanoSwe(), random.Random(seed), []
    answers = {problem.key: problem.fixed for problem in problems("confirm")}
    for task in domain.tasks("confirm")[:200]:
        won, turns = draw.random() < 0.5, 4 + draw.randrange(4)
        code = {"code": answers[task.key] if won else "", "submitted": True}
        fields: dict[str, Any] = {
            "task_key": task.key, "task_hash": task.content_hash, "outcome": won, "turns": turns,
            "verifier_inputs": code, "rewards": {"solved": float(won)}, "weights": {"solved": 1.0},
            "evaluator_hash": domain.evaluator_hash, "stop_reason": "submitted", "seed": seed,
        }  # fmt: skip
        rows.append(
            Rollout(
                run="r", version="v", domain="nano-swe", split="confirm", policy="p", group_id="g",
                sample_idx=0, harness_commit="c", **fields,
            )
        )  # fmt: skip
    return Made(rows, 200, hash_)


SPOILED = [case for case in INVALID if case.spoil is not None]


@pytest.mark.parametrize("case", SPOILED, ids=lambda case: case.name)
def test_a_spoiled_measurement_is_invalid_and_by_a_right_detector(case: Planted) -> None:
    assert case.spoil is not None
    made = case.spoil(_made(2, "h"), random.Random(0))
    row = judged(case.name, _made(1, "h"), made, overlap=case.overlap)
    right = [each for each in CHECKS if each.name in case.by]
    assert row.invalid
    assert any(each.makes(code) for each in right for code in row.found)
    assert row.unnamed == []


def test_an_ordinary_measurement_is_not() -> None:
    row: Row = judged("same", _made(1, "h"), _made(2, "h"))
    assert not row.invalid
    assert row.found == {}
    assert row.clean == row.success


def test_shares_are_told_with_their_interval() -> None:
    assert interval(0, 300) == "0/300 = 0.0% [0.0%, 1.3%]"
