"""Rules about rewards: what pays for something else, and what pays for nothing."""

from __future__ import annotations

import pytest

from meta_agent.core.protocols import HarnessTree
from tests.agents._rules import evidence, find, namespace, rollout, tree


def bonus(weight: float = 0.5) -> HarnessTree:
    harness = tree(
        {"swe/reward.py": ('"submitted": 0.1}', f'"submitted": 0.1, "busy": {weight}}}')}
    )
    text = harness.files["swe/reward.py"].decode()
    text = text.replace(
        "COMPONENTS = {",
        'def busy(rollout):\n    return len(rollout["tool_events"])\n\n\nCOMPONENTS = {',
    )
    text = text.replace('"submitted": submitted}', '"submitted": submitted, "busy": busy}')
    return HarnessTree("a" * 40, "t" * 40, {**harness.files, "swe/reward.py": text.encode()})


HACKED = {
    "signal__reward_follows": 0.4,
    "signal__component.busy.spread_share": 0.6,
    "signal__component.busy.follows": -0.2,
    "signal__component.busy.rest_follows": 0.98,
    "signal__component.solved.spread_share": 0.3,
    "signal__component.solved.follows": 1.0,
    "signal__component.solved.rest_follows": -0.1,
    "signal__misordered": 0.3,
}


def test_a_bonus_that_pays_for_something_else_is_removed_without_a_trace() -> None:
    proposal = find("drop-hackable-bonus", evidence(**HACKED), bonus())
    assert proposal is not None
    assert proposal.edits["swe/reward.py"] == tree().files["swe/reward.py"].decode()


def test_an_honest_reward_is_left_alone() -> None:
    honest = {
        "signal__reward_follows": 0.97,
        "signal__component.submitted.spread_share": 0.2,
        "signal__component.submitted.follows": 0.5,
        "signal__component.submitted.rest_follows": 1.0,
    }
    assert find("drop-hackable-bonus", evidence(**honest), tree()) is None


def test_a_penalty_on_flagged_conduct_is_no_hackable_bonus() -> None:
    harness = tree({"swe/reward.py": ('"submitted": 0.1}', '"submitted": 0.1, "leak": -1.0}')})
    found = evidence(
        **{
            "signal__reward_follows": 0.98,
            "signal__component.leak.spread_share": 0.5,
            "signal__component.leak.follows": 0.6,
            "signal__component.leak.rest_follows": 0.9,
        }
    )
    assert find("drop-hackable-bonus", found, harness) is None


def test_what_alone_pays_for_solving_is_never_removed() -> None:
    """A component that misleads and is all there is: without it nothing would pay for solving."""
    only = {
        "signal__reward_follows": 0.3,
        "signal__component.solved.spread_share": 0.9,
        "signal__component.solved.follows": 0.3,
        "signal__component.solved.rest_follows": 0.4,
    }
    found = evidence(**only)
    assert find("drop-hackable-bonus", found, tree()) is None
    paid = find("pay-outcome", found, tree())
    assert paid is not None
    reward = namespace(paid.edits["swe/reward.py"])["reward"]
    assert reward(rollout(outcome=True))["graded"] == 1.0  # type: ignore[operator]


DEAD = {
    "signal__reward_follows": 0.2,
    "signal__component.solved.mean": 0.0,
    "signal__component.solved.follows": 0.0,
    "signal__component.solved.spread_share": 0.0,
    "signal__component.submitted.mean": 0.8,
    "signal__component.submitted.follows": 0.2,
    "signal__component.submitted.spread_share": 1.0,
}
DEAD_SOURCE = {"swe/reward.py": ('rollout["outcome"]', 'rollout.get("answered")')}


def test_a_reward_that_nothing_ties_to_the_grader_is_given_its_answer() -> None:
    proposal = find("pay-outcome", evidence(**DEAD), tree(DEAD_SOURCE))
    assert proposal is not None
    scope = namespace(proposal.edits["swe/reward.py"])
    assert "submitted" not in scope["WEIGHTS"]  # type: ignore[operator]
    weights, reward = scope["WEIGHTS"], scope["reward"]

    def paid(**fields: object) -> float:
        values = reward(rollout(**fields))  # type: ignore[operator]
        return sum(weights[name] * value for name, value in values.items())  # type: ignore[index]

    assert paid(outcome=True) - paid() >= 1.0


def test_a_reward_that_follows_the_grader_or_was_never_measured_is_left_alone() -> None:
    follows = {**DEAD, "signal__reward_follows": 0.95}
    assert find("pay-outcome", evidence(**follows), tree(DEAD_SOURCE)) is None
    assert find("pay-outcome", evidence(), tree(DEAD_SOURCE)) is None


@pytest.mark.parametrize("layout", ["a table", "a dict in the function"])
def test_a_new_component_takes_from_flagged_attempts_only(layout: str) -> None:
    harness = tree()
    if layout != "a table":
        text = 'WEIGHTS = {"solved": 1.0}\n\n\n'
        text += 'def reward(rollout):\n    return {"solved": float(rollout["outcome"])}\n'
        harness = HarnessTree("a" * 40, "t" * 40, {**harness.files, "swe/reward.py": text.encode()})
    proposal = find("punish-leak", evidence(behaviour__flagged=0.3), harness)
    assert proposal is not None
    scope = namespace(proposal.edits["swe/reward.py"])
    assert scope["WEIGHTS"]["flagged"] <= -1.0  # type: ignore[index]
    flagged = scope["reward"](rollout(flags=["leak:log"]))  # type: ignore[operator]
    honest = scope["reward"](rollout())  # type: ignore[operator]
    assert (flagged["flagged"], honest["flagged"]) == (1.0, 0.0)
    assert flagged["solved"] == 0.0
