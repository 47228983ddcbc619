"""Rules on what the reward pays for: solving above all else, and never for flagged conduct.

The rules judge a component by what it did: whether its pay follows clean success among attempts at
the same task, and whether the reward would follow it better without the component.
"""

from __future__ import annotations

from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rewards import RewardFile, reward_rule
from meta_agent.proposers.rules._rule import Diagnosis, clamp
from meta_agent.proposers.rules._source import literal

_FOLLOWS: Final = "signal.reward_follows"
_PAY: Final = tuple(f"signal.pay.{kind}" for kind in ("failed", "quit", "busy", "hasty"))
_CLEAN: Final = 0.9  # what a reward of the outcome and a little else comes to, without a reference
_EXACT: Final = 0.98
_SLACK: Final = 0.03
_WORTH: Final = 0.05  # less than that depends on which attempts were sampled
_PAYS: Final = 0.5  # a reward that follows clean success by less pays for something else


# --- what a component did -----------------------------------------------------------------------


def _follows(case: Case, component: str) -> float | None:
    """Returns how closely the component's pay follows clean success, or None if unmeasured."""
    metric = case.find(f"signal.component.{component}.follows")
    return None if metric is None else metric[1]


def _rest(case: Case, component: str) -> float:
    """Returns how closely the reward would follow clean success without the component."""
    return case.value(f"signal.component.{component}.rest_follows")


def _pays_failing(case: Case, component: str) -> float:
    """Returns what the component would add for failing."""
    return case.value(f"signal.component.{component}.pays_failing")


def _weighs(case: Case, component: str) -> float:
    """Returns the component's share of the reward's spread."""
    return case.value(f"signal.component.{component}.spread_share")


# --- components that mislead --------------------------------------------------------------------


@reward_rule("drop-hackable-bonus", repairs=True)
def drop_hackable_bonus(case: Case, rewards: RewardFile) -> Diagnosis | None:
    """Suggests removing a reward component that pays for something else than solving."""
    worst = _worst_component(case, rewards)
    if worst is None:
        return None
    gain, component = worst
    misordered = case.over("signal.misordered", "order_violations")
    grew = case.value("signal.train.reward_mean.change") > 0.1
    success = case.evidence.metric("version.change.score.clean_success")
    diverging = 0.3 if grew and success is not None and success <= 0.01 else 0.0
    measured = (f"signal.component.{component}.{part}" for part in ("follows", "rest_follows"))
    return Diagnosis(
        strength=clamp(0.25 + gain + misordered / 2 + diverging),
        change=f"the component {component} is removed from the reward",
        effect="the reward ranks attempts as the grader does, and clean success rises",
        because=f"{component} makes up {_weighs(case, component):.0%} of the reward's spread and "
        f"without it the reward would follow clean success by {gain:.2f} more",
        delta=0.02 + misordered / 4,
        edits=rewards.without(component),
        evidence=case.lines(
            *measured, _FOLLOWS, "signal.misordered", "signal.train.reward_mean.change"
        ),
        risk="groups that only this component told apart become dead",
    )


def _worst_component(case: Case, rewards: RewardFile) -> tuple[float, str] | None:
    """Returns (how much better the reward would be without it, name) of the worst component.

    A component that alone pays for solving is never returned, however badly it does.
    """
    rows = []
    if case.over(*_PAY) > _WORTH:
        gains = {name: _pays_failing(case, name) for name in rewards.weights}
        worst = max(gains, key=lambda name: gains[name])
        if gains[worst] > _WORTH and min(gains.values()) < -_WORTH:  # others pay for solving
            rows.append((case.over(*_PAY) / 2, worst))
    for name, weight in rewards.weights.items():
        if not weight or _weighs(case, name) < 0.1 or _follows(case, name) is None:
            continue
        gain = _rest(case, name) - case.value(_FOLLOWS)
        if gain > _WORTH and _rest(case, name) > _PAYS:
            rows.append((gain, name))
    return max(rows, default=None)


# --- pay for the outcome ------------------------------------------------------------------------


@reward_rule("pay-outcome", repairs=True)
def pay_outcome(case: Case, rewards: RewardFile) -> Diagnosis | None:
    """Suggests paying mostly for the grader's outcome if the reward hardly depends on it."""
    short, pays = case.short(_FOLLOWS, _CLEAN), case.over(*_PAY)
    broken = case.over("signal.reward_missing", "signal.train.missing_reward_ratio.last")
    if short <= _SLACK and broken < 0.02 and pays <= _WORTH:
        return None
    dropped = [name for name, w in rewards.weights.items() if w and not _harmless(case, name)]
    rest = sum(abs(w) for name, w in rewards.weights.items() if name not in dropped)
    best = max([0.0, *(_rest(case, name) for name in rewards.weights)])
    mended = best > _CLEAN and short - max(0.0, _CLEAN - best) <= 0
    instead = f" instead of {', '.join(dropped)}" if dropped else ""
    return Diagnosis(
        strength=clamp((0.3 if mended else 0.45) + max(short, broken, pays) / 2),
        change=f"the component graded pays for solved attempts{instead}",
        effect="training prefers attempts that solve the task",
        because=f"the reward follows clean success {case.value(_FOLLOWS):.2f}, {short:.2f} less "
        f"than it should; {case.value('signal.tied'):.1%} of solved and unsolved attempts "
        f"are paid alike; {pays:.1%} of failures would earn what solving does",
        metric=_FOLLOWS,
        delta=max(short, 0.01),
        edits=_paid(rewards, dropped, round(max(1.0, 2 * rest), 3)),
        evidence=case.lines(
            _FOLLOWS, "signal.tied", "signal.misordered", "signal.reward_missing", *_PAY[1:]
        ),
        risk="fewer groups differ where hardly anything is solved",
    )


def _paid(rewards: RewardFile, dropped: list[str], weight: float) -> dict[str, str]:
    """Returns the reward with the grader's answer, and without some components."""
    for name in dropped:
        rewards = rewards.edited(rewards.without(name))
    return rewards.with_component("graded", weight, _GRADED)


def _harmless(case: Case, component: str) -> bool:
    """Returns True if a component weighs little or pays for solving."""
    pay = _follows(case, component)
    if _pays_failing(case, component) > _WORTH:
        return False
    if pay is None:
        return case.find(f"signal.component.{component}.pays_failing") is not None
    measured = case.find(f"signal.component.{component}.mean") is not None
    light = _weighs(case, component) < 0.2 and pay >= -0.1
    return pay >= _EXACT or (light and measured)


# --- pay for parts ------------------------------------------------------------------------------


@reward_rule("pay-parts")
def pay_parts(case: Case, rewards: RewardFile) -> Diagnosis | None:
    """Suggests paying for the parts of the grade if that tells attempts of a group apart."""
    parts = _parts(case, rewards)
    revived = _revived(case, parts) if parts else 0.0
    if revived < _WORTH:
        return None
    weight = round(sum(w for w in rewards.weights.values() if w > 0) / 2, 3)
    return Diagnosis(
        strength=clamp(0.3 + revived / 2),
        change=f"the reward also pays for parts of the grade: {', '.join(parts)}",
        effect="more groups of a step carry a gradient",
        because=f"in {revived:.0%} of the groups all attempts are paid alike, though the grader's "
        "parts tell them apart",
        metric="signal.dead_group_ratio",
        delta=-revived,
        edits=rewards.with_component("parts", weight, _PARTS.format(names=literal(parts))),
        evidence=case.lines("signal.dead_group_ratio", _FOLLOWS),
        risk="what is easy is learned first, and the rest of an answer never",
    )


def _parts(case: Case, rewards: RewardFile) -> tuple[str, ...]:
    """Returns the details of the outcome that are shares, and 1 in every solved attempt.

    A detail that the reward reads already is left out, and one in which all attempts agree.
    """
    details = [(a.clean, a.outcome_detail) for a in case.attempts if a.outcome is not None]
    names = {name for _, detail in details for name in detail} - rewards.literals
    return tuple(
        name
        for name in sorted(names)
        if all(_is_share(detail.get(name)) for _, detail in details)
        and all(detail[name] == 1 for clean, detail in details if clean)
        and len({float(detail[name]) for _, detail in details}) > 1
    )


def _is_share(value: JSON) -> bool:
    return isinstance(value, bool | int | float) and 0 <= value <= 1


def _revived(case: Case, parts: tuple[str, ...]) -> float:
    """Returns the share of groups that are paid alike and differ in the sum of the parts."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for attempt in case.attempts:
        if attempt.outcome is not None:
            total = sum(float(attempt.outcome_detail[name]) for name in parts)
            groups.setdefault(attempt.group_id, []).append((attempt.total_reward, total))
    several = [group for group in groups.values() if len(group) > 1]
    alike = [group for group in several if len({reward for reward, _ in group}) == 1]
    return sum(len({total for _, total in group}) > 1 for group in alike) / max(1, len(several))


# --- components that lack -----------------------------------------------------------------------


@reward_rule("punish-leak", repairs=True)
def punish_leak(case: Case, rewards: RewardFile) -> Diagnosis | None:
    """Suggests a penalty for attempts flagged for cheating, if some occur and none is punished."""
    flagged = case.flagged
    if flagged <= 0 or _punishes_flags(case, rewards):
        return None
    weight = -round(max(1.0, sum(w for w in rewards.weights.values() if w > 0)), 3)
    return Diagnosis(
        strength=clamp(0.4 + flagged),
        change="a flagged attempt loses what it could have earned",
        effect="training moves away from reading the answer",
        because=f"{flagged:.1%} of attempts are flagged and no component sees it",
        metric="behaviour.leak_use",
        delta=-flagged / 2,
        edits=rewards.with_component("flagged", weight, _FLAGGED),
        evidence=case.lines("behaviour.flagged", "signal.flagged_reward_gap"),
        risk="the leak stays reachable",
    )


def _punishes_flags(case: Case, rewards: RewardFile) -> bool:
    """Returns True if a component pays flagged attempts less, as measured or by its code."""
    metrics = {n: case.find(f"signal.component.{n}.corr_flagged") for n in rewards.weights}
    if any(metrics.values()):
        return any(rewards.weights[n] * m[1] < -0.3 for n, m in metrics.items() if m)
    return "flags" in rewards.file.text


_FLAGGED: Final = '''
def flagged(rollout):
    """Conduct that the environment flagged, such as reading the answer."""
    return 1.0 if rollout["flags"] else 0.0
'''
_PARTS: Final = '''
def parts(rollout):
    """The mean of the parts of the grade, each from 0 to 1."""
    detail = rollout["outcome_detail"]
    values = [float(detail.get(name) or 0) for name in {names}]
    return sum(values) / len(values)
'''
_GRADED: Final = '''
def graded(rollout):
    """The sealed grader's answer; what it flagged is not solved."""
    return 1.0 if rollout["outcome"] and not rollout["flags"] else 0.0
'''
