"""Rules on what training pays for besides solving: bonuses, penalties, conduct, progress."""

from __future__ import annotations

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rewards import RewardFile, reward_file
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.proposers.rules.outcome import (
    FOLLOWS,
    failing_pays,
    follows,
    pays_failing,
    rest,
    weighs,
)
from meta_agent.readers.evidence import role_of

_LENGTH_CORR = 0.8  # among equal endings: a function of the length, with some other thing in it
_WORTH = 0.05  # less than that is a matter of which attempts were seen
_PAYS = 0.5  # a reward that follows clean success by less pays for something else


@rule("drop-hackable-bonus", "reward", repairs=True)
def drop_hackable_bonus(case: Case) -> Diagnosis | None:
    """A component is paid for something else than solving: remove it."""
    rewards = reward_file(case)
    worst = None if rewards is None else _worst_component(case, rewards)
    if rewards is None or worst is None:
        return None
    component, gain = worst
    misordered = case.over("signal.misordered", "order_violations")
    pull, spread = follows(case, component) or 0.0, weighs(case, component)
    return Diagnosis(
        strength=clamp(0.25 + gain + misordered / 2 + _diverging(case)),
        subject=f"no longer reward {component}",
        change=f"the component {component} is removed from the reward",
        effect="the reward ranks attempts as the grader does, and clean success rises",
        because=f"{component} makes up {spread:.0%} of the reward's spread, its pay follows "
        f"clean success {pull:+.2f}, and without it the reward would by {gain:.2f} more",
        expected_delta=0.02 + misordered / 4,
        edits=rewards.without(component),
        evidence=(
            f"signal.component.{component}: spread share {spread:.2f}, follows {pull:+.2f}, "
            f"the rest {rest(case, component):+.2f}",
            line(case, FOLLOWS),
            line(case, "signal.misordered"),
            line(case, "signal.train.reward_mean.change"),
        ),
        risks=("groups that only this component told apart go dead",),
    )


@rule("drop-length-penalty", "reward")
def drop_length_penalty(case: Case) -> Diagnosis | None:
    """Short attempts are paid, and the policy stops trying: remove the penalty."""
    rewards = reward_file(case)
    component = None if rewards is None else _length_component(case, rewards)
    if rewards is None or component is None:
        return None
    corr = case.value("signal.reward_turns_corr_within", "signal.reward_turns_corr")
    hurry = -min(0.0, corr)
    turns = case.value("behaviour.turns_mean")
    return Diagnosis(
        strength=clamp(0.2 + hurry * 0.5 + (0.3 if 0 < turns < 3 else 0.0)),
        subject=f"no longer punish length ({component})",
        change=f"the component {component} is removed from the reward",
        effect="attempts take the turns they need to look, test and retry",
        because="it is paid for being short whether or not the attempt is right, "
        f"and attempts take {turns:.1f} turns",
        expected_delta=0.03,
        edits=rewards.without(component),
        evidence=(
            line(case, "signal.reward_turns_corr_within"),
            line(case, "signal.reward_turns_corr"),
            line(case, "behaviour.turns_mean"),
        ),
        risks=("attempts get longer",),
    )


@rule("punish-leak", "reward", repairs=True)
def punish_leak(case: Case) -> Diagnosis | None:
    """Flagged attempts are paid like honest ones: training will prefer them. Take that away."""
    rewards = reward_file(case)
    flagged = max(case.value("behaviour.flagged"), case.value("signal.train_leak_use"))
    if rewards is None or flagged <= 0 or _punishes_flags(case, rewards):
        return None
    weight = -round(max(1.0, sum(w for w in rewards.weights.values() if w > 0)), 3)
    return Diagnosis(
        strength=clamp(0.4 + flagged),
        subject="take the reward from flagged attempts",
        change="a flagged attempt loses what it could have earned",
        effect="training moves away from reading the answer",
        because=f"{flagged:.1%} of attempts are flagged and no component sees it",
        metric="behaviour.leak_use",
        expected_delta=-flagged / 2,
        edits=rewards.with_component("flagged", weight, _FLAGGED),
        evidence=(
            f"{flagged:.1%} of attempts are flagged, measured or while training",
            line(case, "signal.flagged_reward_gap"),
        ),
        risks=("the leak stays reachable",),
    )


@rule("reward-testing", "reward")
def reward_testing(case: Case) -> Diagnosis | None:
    """Few attempts test what they edited: a small bonus for it, far below a solution's worth."""
    rewards, tests = reward_file(case), _test_tools(case)
    rate = case.value("behaviour.edit_then_test", "behaviour.self_test_rate", default=1.0)
    if rewards is None or not tests or rate > 0.75 or "tool_events" in rewards.file.text:
        return None
    return Diagnosis(
        strength=clamp(0.55 * (0.9 - rate)),
        subject="a small bonus for testing after the last edit",
        change="attempts that test after their last edit earn 0.1 more",
        effect="more attempts notice and repair a wrong edit",
        because=f"only {rate:.1%} of editing attempts test what they edited",
        metric="behaviour.edit_then_test",
        expected_delta=(0.9 - rate) / 2,
        edits=rewards.with_component(
            "tested_last", 0.1, _tested_last(tests, _tools_for(case, "edit") or ["edit"])
        ),
        evidence=(
            line(case, "behaviour.edit_then_test"),
            line(case, "behaviour.self_test_rate"),
        ),
        risks=("testing for its own sake",),
    )


@rule("reward-progress", "reward")
def reward_progress(case: Case) -> Diagnosis | None:
    """Many groups are all wrong and all equal: pay for a green last test."""
    rewards, tests = reward_file(case), _test_tools(case)
    dead = case.value("signal.dead_unsolved_ratio")
    if rewards is None or not tests or dead < 0.2 or "result" in rewards.file.text:
        return None
    return Diagnosis(
        strength=clamp(0.8 * dead),
        subject="a continuous signal from the attempt's own tests",
        change="an attempt whose last test run reports success earns 0.2 more",
        effect="all-wrong groups carry a gradient",
        because=f"{dead:.1%} of groups are all wrong and all equal",
        metric="signal.dead_group_ratio",
        expected_delta=-dead / 3,
        edits=rewards.with_component("green", 0.2, _green(tests)),
        evidence=(line(case, "signal.dead_unsolved_ratio"), line(case, "signal.reward_spread")),
        risks=("tests that pass without a solution are paid",),
    )


def _worst_component(case: Case, rewards: RewardFile) -> tuple[str, float] | None:
    """(name, how much better the reward would follow clean success without it) of the worst one.

    What alone pays for solving stays, however badly it does.
    """
    rows = []
    if failing_pays(case) > _WORTH:
        gains = {name: pays_failing(case, name) for name in rewards.weights}
        worst = max(gains, key=lambda name: gains[name])
        if gains[worst] > _WORTH and min(gains.values()) < -_WORTH:  # others pay for solving
            rows.append((failing_pays(case) / 2, worst))
    for name, weight in rewards.weights.items():
        if not weight or weighs(case, name) < 0.1 or follows(case, name) is None:
            continue
        gain = rest(case, name) - case.value(FOLLOWS)
        if gain > _WORTH and rest(case, name) > _PAYS:
            rows.append((gain, name))
    return (max(rows)[1], max(rows)[0]) if rows else None


def _punishes_flags(case: Case, rewards: RewardFile) -> bool:
    """Whether some component takes from flagged attempts, as measured; else as it reads."""
    seen = {n: case.find(f"signal.component.{n}.corr_flagged") for n in rewards.weights}
    if any(seen.values()):
        return any(rewards.weights[n] * found[1] < -0.3 for n, found in seen.items() if found)
    return "flags" in rewards.file.text


def _diverging(case: Case) -> float:
    """Reward went up in training while success did not."""
    gain = case.change("score.clean_success")
    up = case.value("signal.train.reward_mean.change")
    return 0.3 if up > 0.1 and gain is not None and gain <= 0.01 else 0.0


def _length_component(case: Case, rewards: RewardFile) -> str | None:
    """A component that falls with the length of attempts that end alike, and weighs something."""
    for name, weight in rewards.weights.items():
        within = weight * case.value(f"signal.component.{name}.turns_corr_within")
        heavy = weighs(case, name) >= 0.1 and rest(case, name) > _PAYS
        if heavy and within < -_LENGTH_CORR * abs(weight):
            return name
    return None


def _test_tools(case: Case) -> list[str]:
    """Names of tools that run tests, as the evidence saw them used: by their plain name, else by
    what they are for (a `run` beside a `test` runs something else)."""
    tools = _tools_for(case, "test")
    plain = [tool for tool in tools if any(word in tool.lower() for word in ("test", "check"))]
    return plain or tools


def _tools_for(case: Case, role: str) -> list[str]:
    return [tool for tool in case.under("behaviour.tool_share.") if role_of(tool) == role]


_FLAGGED = '''
def flagged(rollout):
    """Conduct that the environment flagged, such as reading the answer."""
    return 1.0 if rollout["flags"] else 0.0
'''


def _tested_last(tests: list[str], edits: list[str]) -> str:
    return f'''
def tested_last(rollout):
    """Whether the attempt tested its last edit."""
    tools = [event["tool"] for event in rollout["tool_events"]]
    edits = [i for i, tool in enumerate(tools) if tool in {edits!r}]
    return 1.0 if edits and any(tool in {tests!r} for tool in tools[edits[-1] :]) else 0.0
'''.replace("'", '"')


def _green(tests: list[str]) -> str:
    return f'''
def green(rollout):
    """Whether the attempt's last test run reported success."""
    said = [e["result"] for e in rollout["tool_events"] if e["tool"] in {tests!r}]
    return 1.0 if said and said[-1].split()[-1:] in (["ok"], ["passed"]) else 0.0
'''.replace("'", '"')
