"""Rules on what is trained on: groups with differing rewards, and tasks that are mixed and open.

Filter and curriculum are judged by what they do in a probe and in training, not by their source.
A suggestion writes the whole file anew.
"""

from __future__ import annotations

from typing import Final

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule

_KEEP: Final = '''\
def keep(groups):
    """A group whose rewards are all equal carries no gradient; every other one does."""
    return [1.0 if max(g["rewards"]) - min(g["rewards"]) > 1e-6 else 0.0 for g in groups]
'''
_MIXED: Final = '''\
import hashlib


def order(tasks, history):
    """All tasks, those least tried first, mixed by a hash so that no step sees one kind only."""

    def place(task):
        tries = history.get(task["key"], {}).get("tries", 0)
        return tries, hashlib.sha256(task["key"].encode()).hexdigest()

    return [task["key"] for task in sorted(tasks, key=place)]
'''
_INFORMATIVE: Final = '''\
import hashlib


def order(tasks, history):
    """Tasks that are solved sometimes come first; the untried count as such; mixed by a hash."""

    def place(task):
        seen = history.get(task["key"], {})
        tries, solved = seen.get("tries", 0), seen.get("solved", 0)
        decided = abs(solved / tries - 0.5) > 0.45 if tries >= 4 else False
        return decided, tries, hashlib.sha256(task["key"].encode()).hexdigest()

    return [task["key"] for task in sorted(tasks, key=place)]
'''
_DROPPED: Final = "signal.train.dropped_group_ratio.last"
_DEAD: Final = "signal.train.dead_group_ratio.last"
_DEAD_MEASURED: Final = "signal.dead_group_ratio"

# --- which groups train -------------------------------------------------------------------------


@rule("keep-informative-groups", "filter")
def keep_informative_groups(case: Case) -> Diagnosis | None:
    """Suggests another filter if the present one discards groups whose rewards differ."""
    file, lost = case.defining("filter", "keep"), _lost(case)
    if file is None or lost < 0.05:
        return None
    return Diagnosis(
        strength=clamp(0.35 + 1.5 * lost),
        change="only groups with equal rewards are dropped",
        effect="each step learns from more groups",
        because=f"{lost:.1%} of what groups could teach is left out although their rewards differ",
        metric=_DROPPED,
        delta=-max(lost, 0.1),
        edits={file.path: _KEEP},
        evidence=case.lines("signal.filter.lost", _DROPPED, _DEAD, _DEAD_MEASURED),
        risk="noisier gradients",
    )


def _lost(case: Case) -> float:
    """Returns the share of useful groups that the filter drops: in a probe, or while training."""
    dropped = case.find(_DROPPED, "dropped_group_ratio")
    dead = case.find(_DEAD, _DEAD_MEASURED)
    in_training = dropped[1] - dead[1] if dropped and dead else 0.0
    return max(0.0, case.over("signal.filter.lost"), in_training)


# --- which tasks train --------------------------------------------------------------------------


@rule("broaden-curriculum", "data")
def broaden_curriculum(case: Case) -> Diagnosis | None:
    """Suggests a mixed curriculum of all tasks if the present one omits, repeats or sorts tasks."""
    file, left_out = case.defining("data", "order"), case.short("signal.curriculum.covered", 0.9)
    skew, solved = case.over("signal.curriculum.skew"), case.over("signal.curriculum.solved")
    worst = max(left_out, skew, 2 * solved, _needless_repeats(case))
    if file is None or worst < 0.1:
        return None
    probes = (f"signal.curriculum.{name}" for name in ("covered", "skew", "solved"))
    return Diagnosis(
        strength=clamp(0.4 + worst / 2),
        change="the curriculum gives all tasks, those least tried first, in mixed order",
        effect="what is learned carries over to tasks that were not trained on",
        because=f"{left_out:.0%} of what could be trained on comes too late or never, what is "
        f"chosen lies {skew:.2f} standard deviations beside all tasks",
        delta=0.04,
        edits={file.path: _MIXED},
        evidence=case.lines(*probes, "signal.task_repeats", "clean_success"),
        risk="easy tasks take steps from hard ones",
    )


@rule("informative-tasks-first", "data")
def informative_tasks_first(case: Case) -> Diagnosis | None:
    """Suggests training first on tasks solved only sometimes if many groups have equal rewards."""
    file = case.defining("data", "order")
    if file is None or case.dead < 0.25 or "solved" in file.text:
        return None
    return Diagnosis(
        strength=clamp(0.45 * case.dead),
        change="tasks that were always or never solved come last",
        effect="more groups of a step carry a gradient",
        because=f"{case.dead:.1%} of groups are dead and {file.path} ignores what was solved",
        metric=_DEAD,
        delta=-case.dead / 4,
        edits={file.path: _INFORMATIVE},
        evidence=case.lines(_DEAD_MEASURED),
        risk="tasks that were hopeless once are given up",
    )


def _needless_repeats(case: Case) -> float:
    """Returns the share of groups that repeat a task although there are others. Else 0."""
    repeats, groups = case.value("signal.task_repeats"), case.value("signal.groups")
    if not groups or not case.situation.train_tasks:
        return 0.0
    return max(0.0, repeats - max(0.0, 1 - case.situation.train_tasks / groups))
