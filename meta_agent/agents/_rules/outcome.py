"""Rules on what training pays for solving: something, and more than for all else together."""

from __future__ import annotations

from typing import ClassVar

from meta_agent.agents._rules._case import Case
from meta_agent.agents._rules._rewards import RewardFile, reward_file
from meta_agent.agents._rules._rule import Finding, clamp, line
from meta_agent.protocols import Factor

_GRADED = "graded"


class OutcomeFirst:
    """Unsolved attempts are paid as much as solved ones: let the outcome dominate."""

    name: ClassVar[str] = "outcome-first"
    factor: ClassVar[Factor] = "reward"
    repairs: ClassVar[bool] = True

    def diagnose(self, case: Case) -> Finding | None:
        rewards = reward_file(case)
        misordered = case.value("signal.misordered", "order_violations")
        outcome = None if rewards is None else _outcome_component(case, rewards)
        if rewards is None or outcome is None:
            return None
        others = sum(abs(w) for name, w in rewards.weights.items() if name != outcome)
        needed = round(max(1.0, 2 * others), 3)
        if rewards.weights[outcome] >= needed or (misordered < 0.01 and _sound(rewards, outcome)):
            return None
        return Finding(
            strength=clamp(0.25 + 2 * misordered),
            subject=f"weigh {outcome} at {needed:g}",
            change=f"the weight of {outcome} grows from {rewards.weights[outcome]:g} to {needed:g}",
            effect="no unsolved attempt is paid as much as a solved one",
            because=f"{misordered:.1%} of pairs within a group are ranked the wrong way round",
            metric="signal.misordered",
            direction="down",
            expected_delta=-misordered,
            edits=rewards.reweighted(outcome, needed),
            evidence=(line(case, "signal.misordered"), f"weights: {dict(rewards.weights)}"),
            risks=("shaping counts for less",),
        )


class PayOutcome:
    """Nothing in the reward follows the sealed grader: pay what it says."""

    name: ClassVar[str] = "pay-outcome"
    factor: ClassVar[Factor] = "reward"
    repairs: ClassVar[bool] = False

    def diagnose(self, case: Case) -> Finding | None:
        rewards = reward_file(case)
        follows = None if rewards is None else _closest_to_outcome(case, rewards)
        success = case.value("signal.train_success", "success")
        if rewards is None or follows is None or follows > 0.6 or not 0.02 < success < 0.98:
            return None
        dead = _constant_component(case, rewards)
        weight = round(max(1.0, 2 * sum(abs(w) for w in rewards.weights.values())), 3)
        return Finding(
            strength=clamp(1.0 - max(0.0, follows) / 2),
            subject="pay for what the grader says",
            change=f"the component {_GRADED} pays for solved attempts"
            + (f" instead of {dead}, which never changes" if dead else ""),
            effect="training prefers attempts that solve the task",
            because=f"no component of the reward correlates with success above {follows:.2f}",
            metric="signal.reward_corr_success",
            direction="up",
            expected_delta=0.5,
            edits=rewards.with_component(_GRADED, weight, _GRADED_SOURCE, instead_of=dead),
            evidence=(
                line(case, "signal.reward_corr_success"),
                f"weights: {dict(rewards.weights)}",
            ),
            risks=("fewer groups differ where hardly anything is solved",),
        )


def _outcome_component(case: Case, rewards: RewardFile) -> str | None:
    """The component that is the grader's answer."""
    for name, weight in rewards.weights.items():
        exact = case.value(f"signal.component.{name}.corr_success") > 0.98
        if weight > 0 and (exact or "outcome" in rewards.source_of(name)):
            return name
    return None


def _sound(rewards: RewardFile, outcome: str) -> bool:
    """Whether the outcome outweighs all bonuses together."""
    bonuses = sum(w for name, w in rewards.weights.items() if name != outcome and w > 0)
    return rewards.weights[outcome] > bonuses


def _closest_to_outcome(case: Case, rewards: RewardFile) -> float | None:
    """The best correlation with success; None where a component is the outcome, or none is known.

    A component without a correlation is constant while success is not: it follows nothing.
    """
    if not rewards.weights or _outcome_component(case, rewards) is not None:
        return None
    if any(case.find(f"signal.component.{name}.constancy") is None for name in rewards.weights):
        return None
    return max(
        (1 if weight > 0 else -1) * case.value(f"signal.component.{name}.corr_success")
        for name, weight in rewards.weights.items()
    )


def _constant_component(case: Case, rewards: RewardFile) -> str | None:
    """The first paid component that has the same value in every attempt."""
    constant = (
        name
        for name, weight in rewards.weights.items()
        if weight > 0 and case.value(f"signal.component.{name}.constancy") >= 1.0
    )
    return next(constant, None)


_GRADED_SOURCE = '''
def graded(rollout):
    """The sealed grader's answer."""
    return 1.0 if rollout["outcome"] else 0.0
'''
