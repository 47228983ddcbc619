"""The minutes of a staged run, from the times of its steps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from meta_agent.composition.timing import StepTimes, minutes_of, range_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.loop.plan import plan_for
from meta_agent.strategies.warm_up import MOST_PASSES

TINY = RunConfig(policy="nano", strategy="staged", profile="tiny", budget=400, sandbox="process")


def test_the_most_minutes_are_those_of_all_attempts_and_legs() -> None:
    plan = plan_for(TINY)
    times = StepTimes(attempt=1, step=60, imitation=6, attempts_a_step=16, references=40)
    low, high = range_of(plan, times)
    measured = 2 * (plan.confirm + plan.search + plan.vault)
    assert low == pytest.approx((measured + 3 * 6) / 60)
    steps = min(plan.leg * plan.legs, 400 // 16)
    assert high == pytest.approx(
        (measured + 400 - steps * 16 + steps * 60 + MOST_PASSES * 3 * 6) / 60
    )


def test_a_policy_that_is_not_trained_in_legs_is_refused() -> None:
    with pytest.raises(ConfigError, match="--measure"):
        minutes_of(RunConfig(policy="nano", profile="tiny", sandbox="process"))


@pytest.mark.train
def test_steps_are_made_and_timed_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    low, high = minutes_of(TINY)
    assert 0 < low < high < 60
    assert not list(tmp_path.glob("meta-agent-timing-*"))
