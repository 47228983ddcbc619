"""Cells: a bundle of candidates, trained together and with each of them left out.

Repairs mask each other: one that does harm alone may help most beside another. So candidates are
not ranked one at a time. A *cell* is a set of candidates merged onto a base version, trained once
(seed 0) and measured on the search split. One cell holds all members of the bundle; the others
leave out one member each and show what it adds to the rest. The search goes on from the best valid
cell. If no cell is better, `fraction` tests the members in a two-level fractional design.

A cell is valid if it earns no veto that its base lacks. Valid cells without any veto rank first.

Not covered: the choice of candidates (`propose`) and the proof (`claim`). Shares of members only
explain; their simultaneous intervals are over tasks, for one training seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import Finding, effect, pair
from meta_agent.core.lab.live import ArmRef, Evaluated, Job
from meta_agent.core.loop.records import Collected, failure
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON, Candidate, HarnessTree

ALPHA: Final = 0.05
WORTHWHILE: Final = 0.02
"""The search continues from a cell only if its clean success is higher by this share."""
ALL: Final = "all"
RUNS: Final = 8
"""Cells of a two-level fraction (three to seven members)."""


class Mix(NamedTuple):
    """Candidates merged onto a base commit, one after another; `commit` is the last merge."""

    name: str
    members: tuple[Candidate, ...]
    commit: str

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.members)


class Cell(NamedTuple):
    """A set of merged candidates, and how the policy trained under it did on the search split."""

    mix: Mix
    evaluated: Evaluated | None
    arm: ArmRef | None
    vetoes: tuple[Finding, ...] = ()
    """Vetoes that its base version does not have, or the reason why it was not measured."""
    flawless: bool = False
    """Whether it has no veto at all. Then it may be claimed and handed over."""

    @property
    def valid(self) -> bool:
        return self.evaluated is not None and not self.vetoes

    @property
    def clean(self) -> float:
        """Returns clean success on the search split as a share, or -1 if it was not measured."""
        return self.evaluated.clean_success if self.evaluated else -1.0


class Share(NamedTuple):
    """How much clean success one candidate adds to those trained together with it (an estimate)."""

    candidate: Candidate
    delta: float
    low: float
    high: float
    alpha: float
    arms: tuple[ArmRef, ArmRef]  # without it, with it


def mixed(run: Run, base: str, name: str, members: Sequence[Candidate]) -> Mix:
    """Returns the own changes of `members`, merged onto `base` one by one, as mix `name`.

    Raises CandidateError on a conflict.
    """
    commit = base
    for candidate in members:
        commit = run.repo.merge_ahead(onto=commit, **merge_terms(run, candidate))
    return Mix(name, tuple(members), commit)


def merge_terms(run: Run, candidate: Candidate) -> dict[str, JSON]:
    """Returns the arguments of a candidate's git merge. They give the same commit each time."""
    hypothesis = candidate.hypothesis
    return {
        "ref": candidate.ref,
        "message": f"merge({hypothesis.label}): {candidate.id}\n\n{hypothesis.statement}",
        "trailers": run.trailers(candidate.id, hypothesis),
        "when": run.date(candidate.generation, 900 + candidate.index),
    }


def assembled(
    run: Run, base: str, ideas: Sequence[Candidate], most: int, *, quiet: bool = False
) -> tuple[list[Candidate], list[Candidate]]:
    """Returns up to `most` ideas that merge onto `base` without conflict, and the other ideas.

    Unless `quiet`, it tells the user of each conflict.
    """
    members: list[Candidate] = []
    waiting: list[Candidate] = []
    for idea in ideas:
        if len(members) == most:
            waiting.append(idea)
            continue
        try:
            mixed(run, base, ALL, [*members, idea])
        except CandidateError as error:
            if not quiet:
                run.note(f"{idea.id} waits for the next bundle: {error}")
            waiting.append(idea)
            continue
        members.append(idea)
    return members, waiting


def beside(
    run: Run, first: str, tip: str, members: Sequence[Candidate], idea: Candidate
) -> Mix | None:
    """Returns `idea` merged with `members`, whose own merges onto `first` end at the commit `tip`.

    If they conflict, the idea replaces the members that it conflicts with, and those that do not
    merge without them. The others are merged anew onto `first`, each by its own change: an edit
    that was taken away stays away. Returns None if the idea conflicts with `first`.
    """
    try:
        more = mixed(run, tip, f"plus {short(run, idea)}", [idea])
        return more._replace(members=(*members, idea))
    except CandidateError:
        fitting, clashing = assembled(run, first, [idea, *members], 1 + len(members), quiet=True)
    if idea not in fitting:
        return None
    name = f"{short(run, idea)} for {' and '.join(short(run, member) for member in clashing)}"
    return mixed(run, first, name, fitting)


def leave_one_out(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
    """Returns the mix of all members on `base` and, if there are several, each mix without one."""
    mixes = [mixed(run, base, ALL, members)]
    for left_out in members if len(members) > 1 else ():
        rest = [member for member in members if member is not left_out]
        mixes.append(mixed(run, base, f"without {short(run, left_out)}", rest))
    return mixes


def fraction(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
    """Returns mixes of subsets of 3 to 7 members, by a two-level fractional design of eight runs.

    The subsets with all members and with none are left out, so each member is in three mixes.
    Returns [] for any other number of members.
    """
    if not 3 <= len(members) < RUNS:
        return []
    columns = [(1,), (2,), (4,), (1, 2), (1, 4), (2, 4), (1, 2, 4)]
    mixes = []
    for row in range(RUNS):
        signs = [sum(bool(row & bit) for bit in column) % 2 == 0 for column in columns]
        chosen = [member for member, inside in zip(members, signs, strict=False) if inside]
        if 0 < len(chosen) < len(members):
            name = "only " + " ".join(short(run, member) for member in chosen)
            mixes.append(mixed(run, base, name, chosen))
    return mixes


def short(run: Run, candidate: Candidate) -> str:
    """Returns a candidate's name without the name of its run."""
    return candidate.id.removeprefix(f"{run.id}/")


def measure(run: Run, base: Collected, generation: int, mixes: Sequence[Mix]) -> list[Cell]:
    """Trains and evaluates sets of merged candidates; returns a cell for each, with its results."""
    jobs = dict(zip((mix.name for mix in mixes), jobs_of(run, mixes), strict=True))
    for mix in mixes:
        run.lab.label(
            jobs[mix.name].tree, f"g{generation} {mix.name}" if mix.name == ALL else mix.name
        )
    run.lab.prepare(list(jobs.values()))
    return [_measured(run, base, generation, mix, jobs[mix.name]) for mix in mixes]


def jobs_of(run: Run, mixes: Sequence[Mix]) -> list[Job]:
    """Returns the job of training and evaluating each set of merged candidates."""
    trees, plan = (run.repo.tree(mix.commit) for mix in mixes), run.plan
    return [Job(tree, 0, plan.steps, "search", plan.search) for tree in trees]


def _measured(run: Run, base: Collected, generation: int, mix: Mix, job: Job) -> Cell:
    try:
        evaluation = run.lab.measure(job)
    except CandidateError as error:
        cell = Cell(mix, None, None, (failure(error),))
    else:
        cell = _inspected(run, base, mix, job.tree, evaluation)
    record = run.once(
        f"g{generation}/cell/{mix.commit[:12]}",
        "cell",
        {"members": sorted(mix.ids), "commit": mix.commit, "base": base.version.commit},
        lambda: _cell_record(run, generation, base, cell),
    )
    run.note(f"cell {mix.name}: {record['words']}")
    return cell


def _inspected(
    run: Run, base: Collected, mix: Mix, tree: HarnessTree, evaluation: Evaluated
) -> Cell:
    below = run.lab.arm_of("baseline", base.tree, {0: base.evaluated})
    arm = run.lab.arm_of(mix.name, tree, {0: evaluation})
    findings = run.lab.inspector.between((below, arm))
    vetoes = tuple(f for f in findings if f.severity == "veto" and f.side != "baseline")
    own_veto = any(f.severity == "veto" for f in run.lab.inspector.within(arm))
    return Cell(mix, evaluation, arm, vetoes, flawless=not own_veto and not vetoes)


def _cell_record(run: Run, generation: int, base: Collected, cell: Cell) -> JSON:
    evaluation, below = cell.evaluated, base.evaluated.clean_success
    if evaluation is None:
        words = "failed"
    else:
        words = f"{100 * cell.clean:.1f} % clean on search ({100 * (cell.clean - below):+.1f})"
    words += "".join(f"; {finding.code}: {finding.message}" for finding in cell.vetoes)
    return {
        "generation": generation,
        "name": cell.mix.name,
        "members": [member.id for member in cell.mix.members],
        "commit": cell.mix.commit,
        "base": base.version.id,
        "split": "search",
        "n": evaluation.planned if evaluation else 0,
        "clean_success": cell.clean if evaluation else None,
        "success": evaluation.solved / evaluation.planned if evaluation else None,
        "delta": cell.clean - below if evaluation else None,
        "valid": cell.valid,
        "flawless": cell.flawless,
        "vetoes": [finding.to_json() for finding in cell.vetoes],
        "arm": cell.arm.to_json() if cell.arm else None,
        "words": words,
    }


def shares(run: Run, cells: Sequence[Cell]) -> list[Share]:
    """Returns how much clean success each candidate adds, with Bonferroni intervals over tasks.

    `cells` are first the one with all candidates, then one without each, if it was measured.
    """
    whole = cells[0]
    member_shares = []
    for cell in cells[1:]:
        (left_out,) = [m for m in whole.mix.members if m.id not in cell.mix.ids]
        if whole.arm is None or cell.arm is None:
            continue
        refs = cell.arm, whole.arm
        alpha = ALPHA / (2 * (len(cells) - 1))
        gain = effect(pair(*map(run.lab.rows, refs)), alpha=alpha)
        member_shares.append(Share(left_out, gain.delta, gain.ci_low, gain.ci_high, alpha, refs))
    return member_shares


def pruned(run: Run, base: str, cells: Sequence[Cell]) -> Mix | None:
    """Returns the merge of `kept_of(cells)` onto `base`; None if it is empty or measured already.

    `cells` are first the one with all candidates, then one without each.
    """
    members = kept_of(cells)
    ids = frozenset(member.id for member in members)
    if not ids or any(cell.mix.ids == ids for cell in cells):
        return None
    return mixed(run, base, "with " + " ".join(short(run, member) for member in members), members)


def kept_of(cells: Sequence[Cell]) -> list[Candidate]:
    """Returns the candidates of the first cell except those without which a cell did better."""
    whole = cells[0]
    members = list(whole.mix.members)
    for cell in cells[1:]:
        if cell.valid and (cell.clean > whole.clean or not whole.valid):
            members = [member for member in members if member.id in cell.mix.ids]
    return members


def best(cells: Sequence[Cell], below: float = -1.0) -> Cell | None:
    """Returns the valid cell with the most clean success, better than `below`, or None.

    One without any veto goes before one that shares its base's vetoes; of equals, the smaller wins.
    """
    better = [cell for cell in cells if cell.valid and is_better(cell, below)]

    def rank(cell: Cell) -> tuple[bool, float, int]:
        return cell.flawless, cell.clean, -len(cell.mix.members)

    return max(better, key=rank, default=None)


def is_better(cell: Cell | None, below: float) -> bool:
    """Returns True if a cell's clean success is above the share `below` by more than 2 points."""
    return cell is not None and cell.clean > below + WORTHWHILE
