"""A leg is taken back for what it did, and stays where nothing shows harm."""

from __future__ import annotations

from typing import Any

import pytest

from meta_agent.core.protocols import RolloutFailure
from meta_agent.strategies.leg import harm_of, losses_and_gains, teaches_nothing
from tests.gate._records import rollout

USUAL = {
    "entropy": 1.0,
    "completion_tokens_mean": 20.0,
    "dead_group_ratio": 0.5,
    "reward_mean": 0.4,
    "grad_norm": 1.0,
    "loss": 0.1,
}


def leg(**last: Any) -> list[dict[str, Any]]:
    """A leg of two steps, the second with these metrics; None leaves one out."""
    row = {name: value for name, value in {**USUAL, **last}.items() if value is not None}
    return [USUAL, row]


@pytest.mark.parametrize(
    ("last", "moved", "harm"),
    [
        ({}, (0, 0), ""),
        ({}, (2, 1), ""),
        ({}, (9, 1), "clean success fell"),
        ({"loss": None}, (0, 5), "loss of a step"),
        ({"entropy": 0.1}, (0, 0), "entropy is gone"),
        ({"entropy": 5.0}, (0, 0), "entropy runs away"),
        ({"entropy": 0.1}, (1, 4), ""),
        ({"completion_tokens_mean": 90.0}, (0, 0), "lengths run away"),
        ({"dead_group_ratio": 1.0}, (0, 0), "all groups are dead"),
        ({"dead_group_ratio": 1.0}, (0, 3), ""),
        ({"reward_mean": 0.9}, (3, 0), "the reward rose"),
        ({}, (3, 0), ""),
        ({"reward_mean": 0.9}, (2, 1), ""),
    ],
)
def test_the_sign_of_harm(last: dict[str, Any], moved: tuple[int, int], harm: str) -> None:
    told = harm_of(leg(**last), [], moved)
    assert told.startswith(harm) and bool(told) == bool(harm)


def test_an_attempt_that_a_machine_lost_is_neither_a_loss_nor_a_gain() -> None:
    lost = {"outcome": None, "error": RolloutFailure("infra", "the machine went away")}
    before = [rollout(at, outcome=at != 3) for at in range(5)]
    after = [
        rollout(0, outcome=True),
        rollout(1, outcome=False),
        rollout(2, **lost),
        rollout(3, outcome=True),
    ]
    assert losses_and_gains(before, after) == (1, 1)
    assert losses_and_gains(after, before) == (1, 1)


def test_a_policy_that_is_sure_may_waver_a_little() -> None:
    sure = [{**USUAL, "entropy": 0.001}]
    assert harm_of(leg(entropy=0.02), sure, (0, 0)) == ""


def test_the_steps_of_earlier_legs_are_what_is_usual() -> None:
    assert harm_of(leg(entropy=0.2), [{**USUAL, "entropy": 0.5}], (0, 0)) == ""


@pytest.mark.parametrize(("ratios", "nothing"), [((1.0, 1.0), True), ((1.0, 0.75), False)])
def test_a_leg_of_dead_groups_teaches_nothing(ratios: tuple[float, ...], nothing: bool) -> None:
    assert teaches_nothing([{"dead_group_ratio": ratio} for ratio in ratios]) is nothing
