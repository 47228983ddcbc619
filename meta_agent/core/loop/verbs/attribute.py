"""Attribution: how much of a promotion is the harness acting, how much the policy it trained.

Four cells on the search split: the old and the new policy, each under the old and the new harness.
Everything is an evaluation of a policy that exists already (training seed 0), so no confirm task is
spent. *Harness* is what the new harness adds whichever policy acts, *policy* what the new policy
adds under whichever harness, *interaction* what they add only together.

It explains a promotion that the gate has decided, and decides nothing: the intervals are over tasks
with one training seed, so the luck of that training is not in them. A frozen policy has no second
policy: there the harness effect is all there is.
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


def attribute(run: Run, before: str, after: str) -> JSON:
    """The 2x2 of the step from one version's commit to the next.

    None where a declared budget cannot pay for an explanation.
    """
    if not _paid_for(run, before, after):
        return None
    outcome: JSON = run.once(
        "claim/attribution",
        "attribution",
        {"before": before, "after": after},
        lambda: _attributed(run, before, after),
    )
    return outcome


def _paid_for(run: Run, before: str, after: str) -> bool:
    """Two cells exist already: each policy under the harness that it was trained by."""
    plan = run.plan
    if plan.trains:
        return pays_for(run, "claim/attribution", attempts=2 * plan.search)
    trees = [run.repo.tree(commit) for commit in (before, after)]
    missing = (run.lab.unsampled(tree, split="search", limit=plan.search) for tree in trees)
    return pays_for(run, "claim/attribution", attempts=sum(missing))


def _attributed(run: Run, before: str, after: str) -> JSON:
    told = {"split": "search", "limit": LIMIT}
    try:
        cells = _cells(run, run.repo.tree(before), run.repo.tree(after))
    except CandidateError as error:  # an old policy may be unable to act under a new scaffold
        return {**told, "failed": str(error)[:500], "n": 0, "cells": {}, "effects": {}}
    tasks = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    shares = {name: fmean(cell[task] for task in tasks) for name, cell in cells.items()}
    return {**told, "n": len(tasks), "cells": shares, "effects": _effects(cells, tasks)}


def _cells(run: Run, old: HarnessTree, new: HarnessTree) -> dict[str, _Cell]:
    """By `<policy>_<harness>`: `old_new` is the old policy under the new harness."""
    harnesses, cells = {"old": old, "new": new}, {}
    for whose in ("old", "new") if run.plan.trains else ("old",):
        policy = run.lab.train(harnesses[whose], seed=0, steps=run.plan.steps)
        for name, tree in harnesses.items():
            cells[f"{whose}_{name}"] = _cell(run, tree, policy)
    return cells


def _cell(run: Run, tree: HarnessTree, policy: Trained) -> _Cell:
    seen = run.lab.evaluate(tree, policy, split="search", limit=run.plan.search)
    return _by_task(run, seen)


def _by_task(run: Run, seen: Evaluated) -> _Cell:
    """Clean success; a row that machines lost is left out, as in a pair."""
    known = [r for r in run.lab.rollouts(seen.shard) if r.error is None or r.error.kind == "policy"]
    return {rollout.task_key: float(rollout.clean) for rollout in known}


_CONTRASTS: Final[Mapping[str, Mapping[str, float]]] = {
    "harness": {"old_new": 0.5, "new_new": 0.5, "old_old": -0.5, "new_old": -0.5},
    "policy": {"new_old": 0.5, "new_new": 0.5, "old_old": -0.5, "old_new": -0.5},
    "interaction": {"new_new": 1.0, "old_old": 1.0, "old_new": -1.0, "new_old": -1.0},
}
_FROZEN: Final[Mapping[str, Mapping[str, float]]] = {"harness": {"old_new": 1.0, "old_old": -1.0}}


def _effects(cells: Mapping[str, _Cell], tasks: Sequence[str]) -> JSON:
    contrasts = _CONTRASTS if len(cells) == 4 else _FROZEN
    return {
        name: _interval([_contrast(cells, signs, task) for task in tasks])
        for name, signs in contrasts.items()
    }


def _contrast(cells: Mapping[str, _Cell], signs: Mapping[str, float], task: str) -> float:
    return math.fsum(sign * cells[name][task] for name, sign in signs.items())


def _interval(values: Sequence[float]) -> JSON:
    """A mean with Student's interval; without two tasks nothing is excluded."""
    if len(values) < 2:
        return {"delta": fmean(values) if values else 0.0, "ci_low": -1.0, "ci_high": 1.0}
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half, middle = quantile * stdev(values) / math.sqrt(len(values)), fmean(values)
    return {"delta": middle, "ci_low": middle - half, "ci_high": middle + half}
