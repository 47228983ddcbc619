"""Rules on what training pays for solving: something, and more than for all else together.

What a component is, is judged by what it did: whether its pay follows clean success among attempts
at the same task, and whether the reward would follow it better without.
"""

from __future__ import annotations

from typing import Final

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rewards import RewardFile, reward_file
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule

FOLLOWS: Final = "signal.reward_follows"
_GRADED: Final = "graded"
_CLEAN: Final = 0.9  # what a reward of the outcome and a little else comes to, without a reference
_EXACT: Final = 0.98
_SLACK: Final = 0.03


def shortfall(case: Case) -> float:
    """How much less than in a clean harness the reward follows clean success."""
    return case.short(FOLLOWS, _CLEAN)


def follows(case: Case, component: str) -> float | None:
    """How closely the pay of one component follows clean success; None where nothing tells."""
    found = case.find(f"signal.component.{component}.follows")
    return None if found is None else found[1]


def rest(case: Case, component: str) -> float:
    """How closely the reward would follow it without the component."""
    return case.value(f"signal.component.{component}.rest_follows")


def failing_pays(case: Case) -> float:
    """Of attempts that would be solved, those that would be paid as well for failing."""
    return case.over(*(f"signal.pay.{kind}" for kind in ("failed", "quit", "busy", "hasty")))


def pays_failing(case: Case, component: str) -> float:
    """What a component would add for failing."""
    return case.value(f"signal.component.{component}.pays_failing")


def weighs(case: Case, component: str) -> float:
    """Its share of the reward's spread."""
    return case.value(f"signal.component.{component}.spread_share")


@rule("outcome-first", "reward", repairs=True)
def outcome_first(case: Case) -> Diagnosis | None:
    """Unsolved attempts are paid as much as solved ones: let the outcome dominate."""
    rewards = reward_file(case)
    wrong = case.over("signal.misordered", "order_violations")
    outcome = None if rewards is None else _outcome_component(case, rewards)
    if rewards is None or outcome is None:
        return None
    others = sum(abs(w) for name, w in rewards.weights.items() if name != outcome)
    needed = round(max(1.0, 2 * others), 3)
    alike = max(0.0, shortfall(case) - _SLACK)
    if rewards.weights[outcome] >= needed or (wrong < 0.01 and not alike):
        return None
    return Diagnosis(
        strength=clamp(0.25 + max(2 * wrong, alike)),
        subject=f"weigh {outcome} at {needed:g}",
        change=f"the weight of {outcome} grows from {rewards.weights[outcome]:g} to {needed:g}",
        effect="no unsolved attempt is paid as much as a solved one",
        because=f"{wrong:.1%} of pairs within a group are ranked the wrong way round",
        metric="signal.misordered",
        expected_delta=-max(wrong, 0.01),
        edits=rewards.reweighted(outcome, needed),
        evidence=(line(case, "signal.misordered"), f"weights: {dict(rewards.weights)}"),
        risks=("shaping counts for less",),
    )


@rule("pay-outcome", "reward", repairs=True)
def pay_outcome(case: Case) -> Diagnosis | None:
    """The reward does not follow the sealed grader: pay what it says, and little else."""
    rewards = reward_file(case)
    short = shortfall(case)
    broken = case.over("signal.reward_missing", "signal.train.missing_reward_ratio.last")
    asked = failing_pays(case)
    if rewards is None or (short <= _SLACK and broken < 0.02 and asked <= 0.05):
        return None
    dropped = [name for name, w in rewards.weights.items() if w and not _harmless(case, name)]
    left = {name: w for name, w in rewards.weights.items() if name not in dropped}
    weight = round(max(1.0, 2 * sum(map(abs, left.values()))), 3)
    best = max([0.0, *(rest(case, name) for name in rewards.weights)])
    mended = case.short(FOLLOWS, _CLEAN) - max(0.0, _CLEAN - best) <= 0 and best > _CLEAN
    told = f" instead of {', '.join(dropped)}" if dropped else ""
    return Diagnosis(
        strength=clamp((0.3 if mended else 0.45) + max(short, broken, asked) / 2),
        subject="pay for what the grader says",
        change=f"the component {_GRADED} pays for solved attempts{told}",
        effect="training prefers attempts that solve the task",
        because=f"the reward follows clean success {case.value(FOLLOWS):.2f}, {short:.2f} less "
        f"than it should; {case.value('signal.tied'):.1%} of solved and unsolved attempts "
        f"are paid alike; {asked:.1%} of failures would earn what solving does",
        metric=FOLLOWS,
        expected_delta=max(short, 0.01),
        edits=_paid(rewards, dropped, weight),
        evidence=(
            line(case, FOLLOWS),
            line(case, "signal.tied"),
            line(case, "signal.misordered"),
            line(case, "signal.reward_missing"),
            *(line(case, f"signal.pay.{kind}") for kind in ("quit", "busy", "hasty")),
            f"weights: {dict(rewards.weights)}",
        ),
        risks=("fewer groups differ where hardly anything is solved",),
    )


def _paid(rewards: RewardFile, dropped: list[str], weight: float) -> dict[str, str]:
    """The reward with the grader's answer, and without some components."""
    now = rewards
    for name in dropped:
        now = now.edited(now.without(name))
    edits = now.with_component(_GRADED, weight, _GRADED_SOURCE)
    return edits if edits else {}


def _harmless(case: Case, component: str) -> bool:
    """Whether a component never misled anybody: it weighs little, or pays for solving."""
    pay = follows(case, component)
    if pays_failing(case, component) > 0.05:
        return False
    if pay is None:
        return case.find(f"signal.component.{component}.pays_failing") is not None
    light = weighs(case, component) < 0.2 and pay >= -0.1
    return pay >= _EXACT or (light and case.find(f"signal.component.{component}.mean") is not None)


def _outcome_component(case: Case, rewards: RewardFile) -> str | None:
    """The component that is the grader's answer, as far as was measured."""
    paying = {n: f for n, w in rewards.weights.items() if w > 0 and (f := follows(case, n))}
    best = max(paying, key=lambda name: paying[name], default=None)
    return best if best is not None and paying[best] > _EXACT else None


_GRADED_SOURCE = '''
def graded(rollout):
    """The sealed grader's answer; what it flagged is not solved."""
    return 1.0 if rollout["outcome"] and not rollout["flags"] else 0.0
'''
