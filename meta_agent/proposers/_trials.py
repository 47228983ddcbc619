"""Small edits of the scaffold that no rule foresees, tried with the base policy.

Rolling out costs a fraction of training. So a whole neighbourhood of edits (`_mutants.py`) can be
tried by successive halving: all of them on a few search tasks, the better ones on more. A mutant
that acts like the original makes the very same attempts, since the policy's luck depends on the
task.

Promises: an edit is proposed only if an exact sign test over tasks says that it is better, with
Bonferroni's correction for every edit that was tried. The trials stay within the granted attempts.

Not covered: effects that show only after training, and edits of two places.
Source: successive halving, Jamieson and Talwalkar, arXiv 1502.07943.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from meta_agent.core.harness import parse_contract
from meta_agent.core.proposals import TriedIdea
from meta_agent.core.protocols import HarnessTree, Hypothesis
from meta_agent.proposers.rules._mutants import Mutant, mutants
from meta_agent.proposers.rules._rule import clamp
from meta_agent.proposers.rules._source import PythonFile
from meta_agent.proposers.rules_table import Proposal

ALPHA: Final = 0.05
PROPOSED: Final = 2
_FEWEST, _MOST = 12, 32  # tasks of the first rung
_RUNGS: Final = ((16, 64), (4, 256))  # (edits that remain, tasks)
_MEASURED: Final = 0.5  # of strength: the gain was measured, not inferred
Clean = Mapping[str, bool]  # by task


class Result(NamedTuple):
    """The result of trying one edit (`mutant`) and the current harness on the same search tasks.

    `wins` counts tasks that only the edited harness solves cleanly, `losses` the opposite.
    """

    mutant: Mutant
    wins: int
    losses: int
    tasks: int

    @property
    def gain(self) -> float:
        """Returns the edited harness's share of cleanly solved tasks less the current one's."""
        return (self.wins - self.losses) / self.tasks

    @property
    def p_value(self) -> float:
        """Returns the p-value of a one-sided exact sign test on the wins and losses."""
        from scipy.stats import binomtest  # slow to import, and few processes try edits

        pairs = self.wins + self.losses
        return float(binomtest(self.wins, pairs, alternative="greater").pvalue)


Sample = Callable[[Sequence[HarnessTree], int | None], Sequence[Clean | None]]
"""Returns which tasks the base policy solves cleanly, by tree (`HostServices.sample`)."""


def small_edits(
    tree: HarnessTree, sample: Sample, attempts: int, tried: Sequence[TriedIdea] = ()
) -> list[Proposal]:
    """Returns at most two edits of the scaffold that solve significantly more tasks, best first.

    `sample` returns which tasks the untrained policy solves cleanly with each harness. Ideas in
    `tried` are skipped. Returns [] if no edit is better, or `attempts` is too low for the trials.
    """
    candidates = _neighbours(tree, {trial.rule for trial in tried})
    number, results = len(candidates), list[Result]()
    rungs = _rungs(number, attempts)
    if not rungs:
        return []
    (version,) = sample([tree], None)
    for remaining, tasks in rungs:
        if results:
            candidates = [result.mutant for result in _apart(results)][:remaining]
        measured = sample([_edited(tree, mutant) for mutant in candidates], tasks)
        results = _better(candidates, measured, version or {})
        if not results:
            return []
    sure = [result for result in results if result.p_value * number <= ALPHA]
    return [_proposal(result, number) for result in _apart(sure)[:PROPOSED]]


def _neighbours(tree: HarnessTree, tried: set[str]) -> list[Mutant]:
    """Returns all small edits that were not tried before."""
    paths = parse_contract(tree).files_of("scaffold", tree)
    texts = {path: tree.files[path].decode() for path in paths if path.endswith(".py")}
    edits = [mutant for path, text in texts.items() for mutant in _mutants(path, text)]
    return [mutant for mutant in edits if _rule(mutant) not in tried]


@lru_cache(maxsize=64)
def _mutants(path: str, text: str) -> tuple[Mutant, ...]:
    """Returns the mutants of a file, cached: most proposals are for the last one's version."""
    return tuple(mutants(PythonFile(path, text)))


def _rungs(edits: int, attempts: int) -> list[tuple[int, int]]:
    """Returns how many edits and tasks each round tries; [] if `attempts` is too low for all."""
    later = sum(remaining * tasks for remaining, tasks in _RUNGS)
    first = min(_MOST, (attempts - later) // max(1, edits))
    return [(edits, first), *_RUNGS] if edits and first >= _FEWEST else []


def _better(
    edits: Sequence[Mutant], measured: Sequence[Clean | None], version: Clean
) -> list[Result]:
    """Returns the edits that solve more of the same tasks than the version, best first."""
    results = []
    for mutant, clean in zip(edits, measured, strict=True):
        pairs = [(new, version[key]) for key, new in (clean or {}).items() if key in version]
        wins = sum(new and not old for new, old in pairs)
        losses = sum(old and not new for new, old in pairs)
        if wins > losses:
            results.append(Result(mutant, wins, losses, len(pairs)))
    return sorted(results, key=lambda result: -result.gain)


def _apart(results: Sequence[Result]) -> list[Result]:
    """Returns the best edit of each code line, best first: edits of one line mostly do the same."""
    lines = {(r.mutant.path, r.mutant.line): r for r in reversed(results)}
    return sorted(lines.values(), key=lambda result: -result.gain)


def _edited(tree: HarnessTree, mutant: Mutant) -> HarnessTree:
    files = {**tree.files, mutant.path: mutant.text.encode()}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:40]
    return replace(tree, commit="", tree_hash=digest, files=files)


def _rule(mutant: Mutant) -> str:
    words = "\0".join((mutant.path, mutant.before, mutant.after))
    return f"small-edit-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def _proposal(result: Result, number: int) -> Proposal:
    mutant = result.mutant
    before, after = (" ".join(words.split())[:60] for words in (mutant.before, mutant.after))
    change = f"`{before}` becomes `{after}`" if after else f"`{before}` is left out"
    hypothesis = Hypothesis(
        factor="scaffold",
        statement=f"if {change} ({mutant.path}, line {mutant.line}) then clean success rises "
        f"because of {number} small edits of the scaffold this one did best under the base policy: "
        f"{100 * result.gain:+.1f} points on {result.tasks} search tasks",
        metric="clean_success",
        direction="up",
        expected_delta=result.gain,
        risks=("nobody measured what the trained policy makes of it",),
        evidence=(
            f"base policy, {result.tasks} search tasks: {result.wins} solved that were not, "
            f"{result.losses} lost; sign test p = {result.p_value:.2g}, times {number} edits",
        ),
        rule=_rule(mutant),
    )
    strength = clamp(_MEASURED + result.gain)
    return Proposal(hypothesis, f"small edit: {change}"[:72], {mutant.path: mutant.text}, strength)
