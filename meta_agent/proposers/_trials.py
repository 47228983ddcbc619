"""What no rule foresees: small edits of the scaffold, tried on the base policy.

Rolling out costs a fraction of training, so a whole neighbourhood of edits (`_mutants.py`) can be
tried by successive halving: all of them on a few search tasks, the better ones on more. Mutants
that act as the original give the very same attempts, since the policy's luck goes by task.

Promises: an edit is proposed only where an exact sign test over tasks, with Bonferroni's correction
for every edit that was tried, says that it is better; it stays within the attempts that were lent.

Not covered: what shows only after training (a bundle's cells tell), and edits of two places.
Source: successive halving, Jamieson and Talwalkar, arXiv 1502.07943.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from scipy.stats import binomtest

from meta_agent.core.harness import parse_contract
from meta_agent.core.proposals import Tried
from meta_agent.core.protocols import HarnessTree, Hypothesis
from meta_agent.proposers.rules._mutants import Mutant, mutants
from meta_agent.proposers.rules._rule import clamp
from meta_agent.proposers.rules._source import PythonFile
from meta_agent.proposers.rules_table import Proposal

ALPHA: Final = 0.05
PROPOSED: Final = 2
_FEWEST, _MOST = 12, 32  # tasks of the first rung
_RUNGS: Final = ((16, 64), (4, 256))  # (edits kept, tasks)
_MEASURED: Final = 0.5  # of strength, for what was seen and not inferred
Clean = Mapping[str, bool]  # by task


class Better(NamedTuple):
    """An edit that did better than the version, over `tasks` tasks of the search split."""

    mutant: Mutant
    gain: float  # share of tasks, clean success
    wins: int
    losses: int
    tasks: int


class Sample(Protocol):
    """See `HostServices.sample`."""

    def __call__(
        self, trees: Sequence[HarnessTree], tasks: int | None, /
    ) -> Sequence[Clean | None]: ...


def small_edits(
    tree: HarnessTree, sample: Sample, attempts: int, tried: Sequence[Tried] = ()
) -> list[Proposal]:
    """The best small edits of the scaffold that are surely better under the base policy.

    `attempts`: how many may be made; where they do not pay for the first rung, nothing is tried.
    """
    around = _neighbours(tree, {one.rule for one in tried})
    rungs = _rungs(len(around), attempts)
    if not rungs:
        return []
    (version,) = sample([tree], None)
    left, found = around, list[Better]()
    for kept, tasks in rungs:
        left = [one.mutant for one in _apart(found)][:kept] if found else left
        found = _better(left, sample([_edited(tree, one) for one in left], tasks), version or {})
        if not found:
            return []
    sure = [one for one in found if _p_value(one) * len(around) <= ALPHA]
    return [_proposal(one, len(around)) for one in _apart(sure)[:PROPOSED]]


def _neighbours(tree: HarnessTree, known: set[str]) -> list[Mutant]:
    """All of them, but for what was tried before."""
    paths = parse_contract(tree).files_of("scaffold", tree)
    texts = {path: tree.files[path].decode() for path in paths if path.endswith(".py")}
    found = [mutant for path, text in texts.items() for mutant in _mutants(path, text)]
    return [mutant for mutant in found if _rule(mutant) not in known]


@lru_cache(maxsize=64)
def _mutants(path: str, text: str) -> tuple[Mutant, ...]:
    """Most proposals are for the version that the last was for."""
    return tuple(mutants(PythonFile(path, text)))


def _rungs(edits: int, attempts: int) -> list[tuple[int, int]]:
    """(edits, tasks) of each rung; none where what is lent does not pay for them."""
    later = sum(kept * tasks for kept, tasks in _RUNGS)
    each = min(_MOST, (attempts - later) // max(1, edits))
    return [(edits, each), *_RUNGS] if edits and each >= _FEWEST else []


def _better(tried: Sequence[Mutant], seen: Sequence[Clean | None], version: Clean) -> list[Better]:
    """Those that solved more of the same tasks, best first; the earlier of equals."""
    found = []
    for mutant, clean in zip(tried, seen, strict=True):
        same = [key for key in clean or {} if key in version]
        wins = sum(clean[key] and not version[key] for key in same) if clean else 0
        losses = sum(version[key] and not clean[key] for key in same) if clean else 0
        if wins > losses:
            found.append(Better(mutant, (wins - losses) / len(same), wins, losses, len(same)))
    return sorted(found, key=lambda one: -one.gain)


def _apart(found: Sequence[Better]) -> list[Better]:
    """The best of each line, best first: edits of one line mostly do the same."""
    lines = {(one.mutant.path, one.mutant.line): one for one in reversed(found)}
    return sorted(lines.values(), key=lambda one: -one.gain)


def _p_value(one: Better) -> float:
    """Of the exact one-sided sign test over tasks."""
    return float(binomtest(one.wins, one.wins + one.losses, alternative="greater").pvalue)


def _edited(tree: HarnessTree, mutant: Mutant) -> HarnessTree:
    files = {**tree.files, mutant.path: mutant.text.encode()}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:40]
    return replace(tree, commit="", tree_hash=digest, files=files)


def _rule(mutant: Mutant) -> str:
    words = "\0".join((mutant.path, mutant.before, mutant.after))
    return f"small-edit-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def _proposal(one: Better, tried: int) -> Proposal:
    mutant = one.mutant
    words = f"`{_short(mutant.before)}`"
    change = f"{words} becomes `{_short(mutant.after)}`" if mutant.after else f"{words} is left out"
    hypothesis = Hypothesis(
        factor="scaffold",
        statement=f"if {change} ({mutant.path}, line {mutant.line}) then clean success rises "
        f"because of {tried} small edits of the scaffold this one did best under the base policy: "
        f"{100 * one.gain:+.1f} points on {one.tasks} search tasks",
        metric="clean_success",
        direction="up",
        expected_delta=one.gain,
        risks=("what the trained policy makes of it was not measured",),
        evidence=(
            f"base policy, {one.tasks} search tasks: {one.wins} solved that were not, "
            f"{one.losses} lost; sign test p = {_p_value(one):.2g}, times {tried} edits",
        ),
        rule=_rule(mutant),
    )
    strength = clamp(_MEASURED + one.gain)
    return Proposal(hypothesis, f"small edit: {change}"[:72], {mutant.path: mutant.text}, strength)


def _short(words: str) -> str:
    return " ".join(words.split())[:60]
