"""Exemplars, gaps, roles and the text report."""

from __future__ import annotations

import random

import pytest

from meta_agent.core.protocols import Rollout, RolloutFailure, ToolEvent
from meta_agent.readers.evidence import (
    build_evidence,
    exemplars,
    failure_mode,
    gap,
    passed_tests,
    role_of,
)

from ._rollouts import failed, lost, rollout


@pytest.mark.parametrize(
    ("tool", "role"),
    [
        ("test", "test"),
        ("run_tests", "test"),
        ("edit", "edit"),
        ("str_replace_editor", "edit"),
        ("write_file", "edit"),
        ("view", "view"),
        ("open-file", "view"),
        ("submit", "submit"),
        ("final_answer", "submit"),
        ("log", "history"),
        ("git_log", "history"),
        ("calculator", None),
        ("testimony", None),
        ("execute_bash", None),
        ("run_terminal_cmd", None),
    ],
)
def test_roles_come_from_whole_words(tool: str, role: str | None) -> None:
    assert role_of(tool) == role


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ("2t ok", True),
        ("2t lo", False),
        ("5 passed in 0.1s", True),
        ("1 failed, 4 passed", False),
        ("0 failed, 4 passed", True),
        ("Traceback (most recent call last)", False),
        ("Yes\n[exit 0]", True),
        ("No\n[exit 1]", False),
        ("1 failed\n[exit 0]", False),
        ("", None),
        ("42", None),
        ("3 failures", False),
        ("t ok", True),
    ],
)
def test_a_test_run_passes_or_fails_if_it_says_so(said: str, passed: bool | None) -> None:
    assert passed_tests(ToolEvent(0, "test", {}, said, True)) is passed


def test_a_refused_test_run_did_not_pass() -> None:
    assert passed_tests(ToolEvent(0, "test", {}, "ok", False)) is False


CASES: list[tuple[str, Rollout]] = [
    ("infra_error", lost()),
    ("verifier_error", lost(kind="verifier")),
    ("leak", rollout(flags=["leak:log"])),
    ("flagged", failed(flags=["tamper:tests"])),
    ("solved", rollout()),
    ("policy_error", failed(error=RolloutFailure("policy", "boom"))),
    ("truncated", failed(stop_reason="turn_limit")),
    ("not_submitted", failed(story="v e35", stop_reason="error")),
    ("submitted_red", failed(story="e35 t:lo s")),
    ("green_but_wrong", failed(story="e35 t:ok s")),
    ("untested_edit", failed(story="e35 s")),
    ("no_edit", failed(story="v s")),
    ("wrong", failed(story="")),
]


@pytest.mark.parametrize(("mode", "made"), CASES, ids=[mode for mode, _ in CASES])
def test_every_rollout_has_one_failure_mode(mode: str, made: Rollout) -> None:
    assert failure_mode(made) == mode


def test_exemplars_are_the_same_whoever_looks() -> None:
    seen = [failed(i, story="e35 s") for i in range(50)] + [rollout(i) for i in range(50, 60)]
    first = exemplars(seen, per_mode=3)
    random.Random(1).shuffle(seen)
    assert exemplars(seen, per_mode=3) == first
    assert {mode: len(rows) for mode, rows in first.items()} == {"solved": 3, "untested_edit": 3}


def _many(n_solved: int, story: str = "v e35 t:ok s") -> list[Rollout]:
    return [rollout(i, story=story, outcome=i < n_solved) for i in range(200)]


def test_a_score_that_moves_alone_is_a_gap() -> None:
    before = build_evidence(_many(60))
    after = build_evidence(_many(120), baseline=before)
    found = gap(after, before)
    assert found is not None
    assert found.unexplained
    assert found.delta == pytest.approx(0.3)


def test_a_score_that_moves_with_behaviour_is_explained() -> None:
    before = build_evidence(_many(60, story="e35 s"))
    found = gap(build_evidence(_many(120), baseline=before), before)
    assert found is not None
    assert "behaviour.self_test_rate" in dict(found.explained_by)


@pytest.mark.parametrize("solved", [60, 64])
def test_a_score_that_holds_still_needs_no_explanation(solved: int) -> None:
    before = build_evidence(_many(60))
    assert gap(build_evidence(_many(solved), baseline=before), before) is None


def test_there_is_no_gap_without_a_baseline() -> None:
    assert gap(build_evidence(_many(60)), None) is None
    assert gap(build_evidence([], baseline=build_evidence([])), build_evidence([])) is None
