"""Attribution: how much of a gain comes from the harness, and how much from the policy it trained.

There are four cells on the search split: the old and the new policy, each under the old and the new
harness. All use policies that exist already (training seed 0), so no confirm task is spent. The
*harness* effect is what the new harness adds under either policy. The *policy* effect is what the
new policy adds under either harness. The *interaction* is what they add only together.

It explains a promotion and decides nothing. The intervals are over tasks with one training seed,
so they leave out the luck of that training. With a frozen policy there is only the harness effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.loop.budget import pays_for
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, HarnessTree

CONFIDENCE: Final = 0.95
LIMIT: Final = "search split, training seed 0: intervals are over tasks, not over trainings"
_Cell = Mapping[str, float]  # clean success by task


def attribute(run: Run, before: str, after: str, weights: tuple[Trained, Trained]) -> JSON:
    """Returns how much of the gain between two commits comes from the harness and from the policy.

    `weights` are those of the old and of the new policy. Returns None if the budget cannot pay for
    the measurements.
    """
    if not _paid_for(run, before, after):
        return None
    outcome: JSON = run.once(
        "claim/attribution",
        "attribution",
        {"before": before, "after": after},
        lambda: _attributed(run, before, after, weights),
    )
    return outcome


def _paid_for(run: Run, before: str, after: str) -> bool:
    """Returns whether the budget pays for the missing cells. Two of four exist already."""
    plan = run.plan
    if plan.trains:
        return pays_for(run, "claim/attribution", 2 * plan.search)
    trees = [run.repo.tree(commit) for commit in (before, after)]
    missing = (run.lab.unsampled(tree, split="search", limit=plan.search) for tree in trees)
    return pays_for(run, "claim/attribution", sum(missing))


def _attributed(run: Run, before: str, after: str, weights: tuple[Trained, Trained]) -> JSON:
    scope = {"split": "search", "limit": LIMIT}
    try:
        cells = _cells(run, run.repo.tree(before), run.repo.tree(after), weights)
    except CandidateError as error:  # an old policy may be unable to act under a new scaffold
        return {**scope, "failed": str(error)[:500], "n": 0, "cells": {}, "effects": {}}
    tasks = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    shares = {name: fmean(cell[task] for task in tasks) for name, cell in cells.items()}
    return {**scope, "n": len(tasks), "cells": shares, "effects": _effects(cells, tasks)}


def _cells(
    run: Run, old: HarnessTree, new: HarnessTree, weights: tuple[Trained, Trained]
) -> dict[str, _Cell]:
    """Returns the cells by `<policy>_<harness>`: `old_new` is the old policy, new harness."""
    harnesses, cells = {"old": old, "new": new}, {}
    policies = {"old": weights[0], "new": weights[1]}
    for whose in ("old", "new") if run.plan.trains else ("old",):
        policy = policies[whose]
        for name, tree in harnesses.items():
            cells[f"{whose}_{name}"] = _cell(run, tree, policy)
    return cells


def _cell(run: Run, tree: HarnessTree, policy: Trained) -> _Cell:
    evaluation = run.lab.evaluate(tree, policy, split="search", limit=run.plan.search)
    return _by_task(run, evaluation)


def _by_task(run: Run, evaluation: Evaluated) -> _Cell:
    """Returns clean success by task. Attempts that machines lost are left out."""
    rollouts = run.lab.rollouts(evaluation.shard)
    counted = [r for r in rollouts if r.error is None or r.error.kind == "policy"]
    return {rollout.task_key: float(rollout.clean) for rollout in counted}


_CONTRASTS: Final[Mapping[str, Mapping[str, float]]] = {
    "harness": {"old_new": 0.5, "new_new": 0.5, "old_old": -0.5, "new_old": -0.5},
    "policy": {"new_old": 0.5, "new_new": 0.5, "old_old": -0.5, "old_new": -0.5},
    "interaction": {"new_new": 1.0, "old_old": 1.0, "old_new": -1.0, "new_old": -1.0},
}
_FROZEN: Final[Mapping[str, Mapping[str, float]]] = {"harness": {"old_new": 1.0, "old_old": -1.0}}


def _effects(cells: Mapping[str, _Cell], tasks: Sequence[str]) -> JSON:
    contrasts = _CONTRASTS if len(cells) == 4 else _FROZEN
    return {
        effect: _interval(
            [math.fsum(sign * cells[cell][task] for cell, sign in signs.items()) for task in tasks]
        )
        for effect, signs in contrasts.items()
    }


def _interval(values: Sequence[float]) -> JSON:
    """Returns a mean with Student's interval, which is -1 to 1 for fewer than two tasks."""
    if len(values) < 2:
        return {"delta": fmean(values) if values else 0.0, "ci_low": -1.0, "ci_high": 1.0}
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half, middle = quantile * stdev(values) / math.sqrt(len(values)), fmean(values)
    return {"delta": middle, "ci_low": middle - half, "ci_high": middle + half}
