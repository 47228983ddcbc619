"""The health rule: what it ends, what it leaves alone, and what an ended training leaves behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.health import base_rows, ended
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import JSON
from meta_agent.policies.training import PolicyChild, open_checkpoint
from meta_agent.policies.training._wire import healthy_folder, seals_folder
from meta_agent.policies.training.events.ending import HealthRule, HealthWatch
from tests.training import test_run
from tests.training.test_seals import killed, same

USUAL: dict[str, JSON] = {
    "clean_success": 0.2,
    "entropy": 1.0,
    "clip_share": 0.05,
    "grad_norm": 2.0,
    "loss": 0.1,
    "completion_tokens_mean": 20.0,
    "dead_group_ratio": 0.5,
    "reward_mean": 0.4,
    "reward_std": 0.2,
}
BASE = base_rows([{**USUAL, "clean_success": share} for share in (0.2, 0.25, 0.2)])
WITHOUT_NORM = {name: value for name, value in USUAL.items() if name != "grad_norm"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"entropy": 0.2}, "entropy is gone"),
        ({"clip_share": 0.3}, "ratios explode"),
        ({"grad_norm": 9.0}, "ratios explode"),
        ({"completion_tokens_mean": 81.0}, "lengths run away"),
        ({"dead_group_ratio": 1.0}, "all groups are dead"),
    ],
)
def test_three_unhealthy_steps_in_a_row_end_a_training(bad: dict[str, JSON], reason: str) -> None:
    row = {**USUAL, **bad}
    end = ended([USUAL, USUAL, row, row, row], BASE, 3)
    assert end is not None and end.reason.startswith(f"3 steps in a row: {reason}")
    assert (end.after, end.steps) == (5, 1), "the weights that made the last healthy attempts"
    assert ended([USUAL, USUAL, row, row], BASE, 3) is None
    assert ended([row, row, USUAL, row], BASE, 3) is None
    assert ended([row] * 3, BASE, 0) is None and ended([row] * 3, [], 3) is None


def test_a_training_that_solves_more_than_the_base_goes_on() -> None:
    row = {**USUAL, "entropy": 0.01, "dead_group_ratio": 1.0}
    assert ended([row] * 3, BASE, 3) is not None
    assert ended([{**row, "clean_success": 0.5}] * 3, BASE, 3) is None


def test_a_gradient_that_is_no_number_ends_a_training() -> None:
    end = ended([WITHOUT_NORM] * 3, BASE, 3)
    assert end is not None and "grad_norm is not a finite number" in end.reason


def test_a_reward_that_rises_while_clean_success_falls_ends_a_training() -> None:
    base = base_rows([USUAL, {**USUAL, "reward_mean": 0.45, "clean_success": 0.15}])
    hacked = {**USUAL, "reward_mean": 0.8, "clean_success": 0.05}
    end = ended([USUAL] * 3 + [hacked] * 3, base, 3)
    assert end is not None and "while clean success fell by 15.0%" in end.reason
    unpaid = {**hacked, "reward_mean": 0.4}
    assert ended([USUAL] * 3 + [unpaid] * 3, base, 3) is None
    hinted = {name: value for name, value in hacked.items() if name != "clean_success"}
    assert ended([USUAL] * 3 + [hinted] * 3, base, 3) is None, "nothing was tried without a hint"


def test_the_limits_are_those_of_the_base() -> None:
    low = {**USUAL, "entropy": 0.02, "completion_tokens_mean": 400.0}
    assert ended([low] * 3, base_rows([low]), 3) is None
    silent = {**USUAL, "dead_group_ratio": 1.0, "clip_share": 0.0}
    assert ended([{**silent, "clip_share": 0.9}] * 3, base_rows([silent]), 3) is None


# --- real trainings ------------------------------------------------------------------------------

EXPLODING = {**test_run.TINY, "learning_rate": 0.5, "lr_scheduler_type": "constant"}
TOTAL = 9


@pytest.fixture(scope="module")
def rule(
    shared_child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> HealthRule:
    """The rule with the limits of a training at a usual learning rate."""
    out = tmp_path_factory.mktemp("base") / "out"
    shared_child.load(nano_policy)
    result = test_run.run(shared_child, session, nano_policy, out, seed=1)
    return HealthRule(base_rows(result.metrics), 2)


def train(
    child: PolicyChild, session: HarnessSession, base: Path, out: Path, **options: Any
) -> TrainResult:
    settings = {"recipe": EXPLODING, "steps": TOTAL, "seed": 1, "keep_steps": 1, **options}
    return test_run.run(child, session, base, out, **settings)


@pytest.fixture(scope="module")
def whole(
    rule: HealthRule,
    shared_child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TrainResult]:
    """An undisturbed training that the rule ends."""
    out = tmp_path_factory.mktemp("whole") / "out"
    yield train(shared_child, session, nano_policy, out, health=rule)


@pytest.mark.train
def test_an_exploding_training_ends_with_its_last_healthy_weights(
    whole: TrainResult, rule: HealthRule
) -> None:
    end = whole.ended
    assert end is not None and end.after < TOTAL and end.steps < end.after
    assert len(whole.metrics) == end.after and whole.rollouts_made == 16 * end.after
    assert ended(whole.metrics, *rule) is not None
    assert ended(whole.metrics[:-1], *rule) is None
    opened = open_checkpoint(whole.checkpoint.path)
    assert (opened.policy, opened.steps) == (whole.checkpoint.policy, end.steps)
    assert not healthy_folder(whole.checkpoint.path).exists()


@pytest.mark.train
def test_a_healthy_training_makes_all_its_steps_and_the_same_weights(
    rule: HealthRule, child: PolicyChild, session: HarnessSession, nano_policy: Path, tmp_path: Path
) -> None:
    plain = test_run.run(child, session, nano_policy, tmp_path / "plain", seed=1)
    watched = test_run.run(child, session, nano_policy, tmp_path / "out", seed=1, health=rule)
    same(plain, watched)
    assert watched.ended is None and not healthy_folder(watched.checkpoint.path).exists()


@pytest.mark.train
@pytest.mark.parametrize("seal_every", [0, 1, 2])
def test_a_training_that_is_killed_as_the_rule_fires_ends_like_an_undisturbed_one(
    whole: TrainResult,
    rule: HealthRule,
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    seal_every: int,
) -> None:
    assert whole.ended is not None
    out, options = tmp_path / "out", {"health": rule, "seal_every": seal_every}
    exploding = {"recipe": EXPLODING, "steps": TOTAL, "keep_every": 0}
    killed(session, nano_policy, out, whole.ended.after, **exploding, **options)
    went_on = train(child, session, nano_policy, out, **options)
    same(whole, went_on)
    assert went_on.ended == whole.ended and not seals_folder(out).exists()


@pytest.mark.train
@pytest.mark.parametrize("settled", [False, True])
def test_a_program_that_is_killed_after_the_rule_fired_ends_like_an_undisturbed_one(
    whole: TrainResult,
    rule: HealthRule,
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settled: bool,
) -> None:
    """Killed before the last healthy weights are the checkpoint, or after, before the record."""
    out, options = tmp_path / "out", {"health": rule, "seal_every": 1}
    real = HealthWatch.settle

    def dies(watch: HealthWatch, end: Any) -> None:
        if settled:
            real(watch, end)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HealthWatch, "settle", dies)
        with pytest.raises(KeyboardInterrupt):
            train(child, session, nano_policy, out, **options)
    shutil.rmtree(out, ignore_errors=True)  # as the lab does with a training that has no record
    went_on = train(child, session, nano_policy, out, **options)
    same(whole, went_on)
    assert went_on.ended == whole.ended
