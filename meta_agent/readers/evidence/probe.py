"""Measures what a harness's reward, filter and curriculum do, by calling them with test inputs.

A reward may pay for behaviour that the policy does not show yet, and rollouts cannot reveal that.
Filters and curricula leave no trace in rollouts: a dropped group looks like one that was trained
on. So the host calls them with attempts, groups and histories, and measures what they return.
`metrics.toml` says what each number is. `pay.KIND` is about a kind of failure: an attempt without
more ado (`failed`), not handed in (`quit`), with everything done three times (`busy`), or with next
to nothing done (`hasty`). `curriculum.skew` is in standard deviations of what the tasks' texts show
(length, how often each character occurs); it and `curriculum.solved` are what goes beyond as many
tasks drawn at random.

Promises: harness code runs where its session is; the same harness gives the same numbers. Groups
are made of rewards that attempts really got, where rollouts are given.

Not covered: a filter that looks at the order of calls, or at more than a few hundred groups.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import Teaches
from meta_agent.core.protocols import JSON, Rollout, Task
from meta_agent.core.slices import slices
from meta_agent.readers.evidence._running import share

_SEED: Final = 0
_GROUPS: Final = 16  # in a batch
_GROUP: Final = 8  # attempts in a group
_ROUNDS: Final = 6  # batches that a filter sees
_STEPS: Final = 12
_ATTEMPTS: Final = 32
_MOST_FEATURES: Final = 48
_BY_CHANCE: Final = 3.5  # standard errors that the largest of as many features may move


def probe(session: Teaches, rollouts: Sequence[Rollout], tasks: Sequence[Task]) -> dict[str, float]:
    """Calls the reward, filter and curriculum of the harness in `session`; returns metrics."""
    metrics = ask_reward(session, rollouts)
    metrics |= ask_filter(session, rollouts, groups=_GROUPS, size=_GROUP)
    return metrics | ask_curriculum(session, tasks, groups=_GROUPS, size=_GROUP)


# --- the reward ---------------------------------------------------------------------------------


def ask_reward(session: Teaches, rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns how often the harness in `session` would pay a kind of failure as much as solving.

    It also returns what each reward component adds for the kind of failure that gets most.
    """
    real = [r for r in rollouts if r.error is None and r.messages][:_ATTEMPTS]
    if not real:
        return {}
    solved = [replace(r, outcome=True, flags=[], stop_reason="submitted") for r in real]
    weights, paid = session.weights, session.reward(solved)
    metrics: dict[str, float] = {}
    gains: dict[str, float] = {}
    for kind, change in _FAILURES.items():
        try:
            got = session.reward([replace(change(r), outcome=False) for r in solved])
        except CandidateError:
            continue  # made-up attempts need not look like any that a reward was written for
        pairs = list(zip(paid, got, strict=True))
        alike = sum(_total(bad, weights) >= _total(good, weights) - 1e-9 for good, bad in pairs)
        metrics[f"pay.{kind}"] = share(alike, len(pairs))
        for name, weight in weights.items():
            gain = _mean([weight * (b.get(name, 0.0) - g.get(name, 0.0)) for g, b in pairs])
            gains[name] = max(gain, gains.get(name, gain))
    return metrics | {f"component.{name}.pays_failing": gain for name, gain in gains.items()}


def _total(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights.get(name, 1.0) * value for name, value in values.items())


def _busy(rollout: Rollout) -> Rollout:
    """Returns the attempt with all its work done three times."""
    replies = [message for message in rollout.messages if message.get("role") != "user"]
    return replace(
        rollout,
        turns=3 * rollout.turns,
        tool_events=3 * rollout.tool_events,
        messages=[*rollout.messages, *replies, *replies],
    )


def _hasty(rollout: Rollout) -> Rollout:
    """Returns the attempt as one short reply that is handed in at once."""
    last = str(rollout.messages[-1].get("content") or "")[-1:]
    messages = [*rollout.messages[:1], {"role": "assistant", "content": last}]
    return replace(rollout, turns=1, tool_events=rollout.tool_events[-1:], messages=messages)


_FAILURES: Final[Mapping[str, Callable[[Rollout], Rollout]]] = {
    "failed": lambda rollout: rollout,
    "quit": lambda rollout: replace(rollout, stop_reason="returned"),
    "busy": _busy,
    "hasty": _hasty,
}


# --- the filter ---------------------------------------------------------------------------------


def ask_filter(
    session: Teaches, rollouts: Sequence[Rollout], *, groups: int, size: int
) -> dict[str, float]:
    """Returns what share of reward spread a filter drops, and its weight for groups paid alike."""
    draw = random.Random(_SEED)
    solved, unsolved = _paid(rollouts)
    held = lost = idle = 0.0
    idle_groups = 0
    for _ in range(_ROUNDS):
        batch = [_group(at, draw, solved, unsolved, size) for at in range(max(groups, 8))]
        draw.shuffle(batch)
        weights = session.keep(batch)
        most = max(weights, default=0.0)
        for group, weight in zip(batch, weights, strict=True):
            spread = _std(group["rewards"])
            part = share(weight, most)
            if spread > 1e-6:
                held, lost = held + spread, lost + spread * (1.0 - part)
            else:
                idle, idle_groups = idle + part, idle_groups + 1
    return {"filter.lost": share(lost, held), "filter.idle": share(idle, idle_groups)}


def _paid(rollouts: Sequence[Rollout]) -> tuple[list[float], list[float]]:
    """Returns rewards of solved and of unsolved attempts, or made-up ones if there are too few."""
    paid = [r for r in rollouts if r.rewards and math.isfinite(r.total_reward)]
    solved = [r.total_reward for r in paid if r.clean]
    unsolved = [r.total_reward for r in paid if not r.clean]
    if (
        len(solved) < 4
        or len(unsolved) < 4
        or sum(solved) * len(unsolved) == sum(unsolved) * len(solved)
    ):
        return [1.1], [0.1]
    return solved, unsolved


def _group(
    at: int, draw: random.Random, solved: Sequence[float], unsolved: Sequence[float], size: int
) -> dict[str, JSON]:
    """Returns a group: the first two without spread of rewards, others with each share solved."""
    if at < 2:
        paid = draw.choice(solved if at else unsolved)
        return {"task_key": f"t{at}", "rewards": [paid] * size, "outcomes": [bool(at)] * size}
    count = 1 + (at - 2) % (size - 1)
    outcomes = [index < count for index in range(size)]
    draw.shuffle(outcomes)
    rewards = [draw.choice(solved if outcome else unsolved) for outcome in outcomes]
    return {"task_key": f"t{at}", "rewards": rewards, "outcomes": outcomes}


def _std(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


# --- the curriculum -----------------------------------------------------------------------------


def ask_curriculum(
    session: Teaches, tasks: Sequence[Task], *, groups: int, size: int
) -> dict[str, float]:
    """Returns metrics of how the tasks that a curriculum chooses differ from all tasks."""
    if not tasks:
        return {}
    draw = random.Random(_SEED)
    listed: list[dict[str, JSON]] = [
        {"key": t.key, "view": dict(t.view), "labels": slices(t)} for t in tasks
    ]
    draw.shuffle(listed)
    # Made-up success rates: any fifth from never to always.
    rates = {task.key: hashlib.sha256(task.key.encode()).digest()[0] % 6 / 5 for task in tasks}
    history: dict[str, dict[str, int]] = {}
    chosen: list[str] = []
    for _ in range(_STEPS):
        keys = session.order(listed, history)
        step = [keys[index % len(keys)] for index in range(groups)]
        chosen += step
        for key in step:
            tally = history.setdefault(key, {"tries": 0, "solved": 0})
            tally["tries"] += size
            tally["solved"] += round(size * rates[key])
    could = min(len(tasks), len(chosen))
    by_chance = _BY_CHANCE / math.sqrt(len(set(chosen)))
    moved = abs(_mean([rates[key] for key in chosen]) - _mean(list(rates.values())))
    return {
        "curriculum.covered": share(len(set(chosen)), could),
        "curriculum.skew": max(0.0, _skew(listed, chosen) - by_chance),
        "curriculum.solved": max(0.0, moved - by_chance * _std(list(rates.values()))),
    }


def _skew(listed: Sequence[Mapping[str, JSON]], chosen: Sequence[str]) -> float:
    texts = {task["key"]: json.dumps(task["view"], sort_keys=True) for task in listed}
    common = Counter("".join(texts.values())).most_common(_MOST_FEATURES)
    rows = {
        key: [float(len(text)), *(float(text.count(char)) for char, _ in common)]
        for key, text in texts.items()
    }
    largest = 0.0
    for column in range(len(common) + 1):
        values = [row[column] for row in rows.values()]
        spread = _std(values)
        if spread > 0:
            moved = _mean([rows[key][column] for key in chosen]) - _mean(values)
            largest = max(largest, abs(moved) / spread)
    return largest


def _mean(values: Sequence[float]) -> float:
    return share(sum(values), len(values))
