"""Rules on which groups train: those that tell attempts apart, all of those, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.proposers.rules._source import Constant, PythonFile, rewritten

_SPREAD = r"(MIN_)?(SPREAD|STD|VARIANCE|RANGE|REWARD_STD|REWARD_SPREAD)(_MIN|_FLOOR|_THRESHOLD)?"
_TINY = 1e-6
_STANDARD = '''
def keep(groups):
    """A group whose rewards are all equal carries no gradient; every other one does."""
    return [1.0 if max(g["rewards"]) - min(g["rewards"]) > 1e-6 else 0.0 for g in groups]
'''


@rule("keep-informative-groups", "filter")
def keep_informative_groups(case: Case) -> Diagnosis | None:
    """Groups with a gradient are thrown away, or the floor is so high that they would be."""
    file = _filter_file(case)
    if file is None:
        return None
    lost, floor = _lost(case), _high_floor(file)
    asked = case.find("signal.filter.lost") is not None
    odd = not asked and (floor is not None or _looks_beyond_rewards(file))
    if lost < 0.05 and not odd:
        return None
    edits = case.set_constant(floor, _TINY) if floor else _standard(file)
    why = (
        f"{lost:.1%} of what groups could teach is left out although their rewards differ"
        if lost > 0
        else (
            f"{floor.name} = {floor.value:g} drops groups whose rewards differ less"
            if floor
            else "it drops by something else than the spread of the rewards"
        )
    )
    return Diagnosis(
        strength=clamp(0.35 + 1.5 * lost),
        subject="train on every group whose rewards differ",
        change="only groups with equal rewards are dropped",
        effect="each step learns from more groups",
        because=why,
        metric="signal.train.dropped_group_ratio.last",
        expected_delta=-max(lost, 0.1),
        edits=edits,
        evidence=(
            line(case, "signal.filter.lost"),
            line(case, "signal.train.dropped_group_ratio.last"),
            line(case, "signal.train.dead_group_ratio.last"),
            line(case, "signal.dead_group_ratio"),
        ),
        risks=("noisier gradients",),
    )


@rule("drop-dead-groups", "filter")
def drop_dead_groups(case: Case) -> Diagnosis | None:
    """Groups without a gradient are kept: drop them, so that their tokens weigh nothing."""
    file, dead = _filter_file(case), case.value("signal.dead_group_ratio")
    idle = case.find("signal.filter.idle")
    keeps = file is not None and (not _sees_spread(file) if idle is None else idle[1] > 0.1)
    if file is None or dead < 0.15 or not keeps:
        return None
    return Diagnosis(
        strength=clamp(0.1 + 0.5 * dead),
        subject="drop groups whose rewards are all equal",
        change="groups with equal rewards get weight 0",
        effect="the loss is averaged over tokens that carry a gradient",
        because=f"{dead:.1%} of groups are dead, and the filter never looks at the spread",
        expected_delta=dead / 10,
        edits=_standard(file),
        evidence=(line(case, "signal.dead_group_ratio"),),
        risks=("fewer groups in a step",),
    )


def _filter_file(case: Case) -> PythonFile | None:
    return next((f for f in case.python("filter") if f.function("keep") is not None), None)


def _lost(case: Case) -> float:
    """What is lost of groups that could teach: when the filter was asked, or while training."""
    told = case.over("signal.filter.lost")
    dropped = case.find("signal.train.dropped_group_ratio.last", "dropped_group_ratio")
    dead = case.find("signal.train.dead_group_ratio.last", "signal.dead_group_ratio")
    seen = 0.0 if dropped is None or dead is None else dropped[1] - dead[1]
    return max(0.0, told, seen)


def _high_floor(file: PythonFile) -> Constant | None:
    """A spread below which groups are dropped and that real reward differences may not reach."""
    numbers = (c for c in file.constants() if isinstance(c.value, float | int))
    return next((c for c in numbers if re.fullmatch(_SPREAD, c.name) and c.value > 0.01), None)


def _reachable(file: PythonFile) -> str:
    """The text of `keep` and of every function of the file that it uses."""
    names, text = ["keep"], ""
    for name in names:
        node = file.function(name)
        text += file.source_of(node) if node else ""
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()
        names += sorted(f.name for f in file.functions() if f.name in used - set(names))
    return text


def _sees_spread(file: PythonFile) -> bool:
    text = _reachable(file)
    return any(w in text for w in ("min(", "std", "var", "set(", "spread", "advantage"))


def _looks_beyond_rewards(file: PythonFile) -> bool:
    """Whether groups are chosen by their outcomes or mean, which also drops mixed ones."""
    text = _reachable(file)
    return not _sees_spread(file) and any(
        w in text for w in ("outcomes", "mean", "sum(", "any(", "all(")
    )


def _standard(file: PythonFile) -> Mapping[str, str]:
    """The filter that drops exactly the dead groups."""
    return {file.path: rewritten(file, "keep", _STANDARD).text}
