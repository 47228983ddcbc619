"""cells: a bundle of ideas, trained together and with each of them left out.

Repairs mask each other: one that does harm alone may be worth the most beside another, so ideas are
not ranked one at a time. A *cell* is a set of candidates merged onto what they stand on, trained
once (seed 0) and rolled out on the search split. The cell with all members, and one without each,
say what every member adds where all others are present; the best valid cell is gone on from, be it
one whose bundle failed. Where nothing shows anything, a two-level fraction of the members is left
(`fraction`): main effects alone, from cells in which each member is in half.

A cell is valid relative to what it stands on: it must not earn a veto that the version below it has
not earned. Among valid cells those come first that have no veto of their own at all.

Not covered: which ideas there are (`propose`), and whether any of this is proven (`claim`): the
shares of members are explanations, with simultaneous intervals over tasks for one training seed.
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
"""A cell must do so much better on the search split (a share) to be gone on from."""
ALL: Final = "all"
RUNS: Final = 8
"""Cells of a two-level fraction (three to seven members)."""


class Mix(NamedTuple):
    """Candidates merged one after another, each by a `--no-ff` merge: what a cell measures."""

    name: str
    members: tuple[Candidate, ...]
    commit: str

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.members)


class Cell(NamedTuple):
    """A mix with what was measured of it."""

    mix: Mix
    evaluated: Evaluated | None
    arm: ArmRef | None
    vetoes: tuple[Finding, ...] = ()
    """What it earned and the version below it had not; why it could not be measured."""
    flawless: bool = False
    """It has no veto of its own either: it may be claimed and handed over."""

    @property
    def valid(self) -> bool:
        return self.evaluated is not None and not self.vetoes

    @property
    def clean(self) -> float:
        """Clean success on the search split, a share; -1 where it could not be measured."""
        return self.evaluated.clean / self.evaluated.planned if self.evaluated else -1.0


class Share(NamedTuple):
    """What a member adds to the cell of all others: an explanation, not a proof."""

    candidate: Candidate
    delta: float
    low: float
    high: float
    alpha: float
    arms: tuple[ArmRef, ArmRef]  # without it, with it


def mixed(run: Run, base: str, name: str, members: Sequence[Candidate]) -> Mix:
    """The members' merges on top of `base`, in this order. Raises CandidateError on a conflict."""
    commit = base
    for candidate in members:
        commit = run.repo.merge_ahead(onto=commit, **merge_terms(run, candidate))
    return Mix(name, tuple(members), commit)


def merge_terms(run: Run, candidate: Candidate) -> dict[str, JSON]:
    """How a candidate is merged: the same commit each time it is merged onto the same one."""
    told = candidate.hypothesis
    return {
        "ref": candidate.ref,
        "message": f"merge({told.label}): {candidate.id}\n\n{told.statement}",
        "trailers": run.trailers(candidate.id, told),
        "when": run.date(candidate.generation, 900 + candidate.index),
    }


def assembled(
    run: Run, base: str, ideas: Sequence[Candidate], most: int, *, quiet: bool = False
) -> tuple[list[Candidate], list[Candidate]]:
    """The first ideas that merge without conflict, at most `most`, and those that have to wait."""
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
    """The tip with one idea more, or with it in place of the members that it clashes with.

    The mix then holds the tip's other members, merged anew onto `first`: an idea and a member that
    write the same line (a rate up, a rate down) are alternatives, and what was written on top of
    such a member goes with it. None where the idea itself was.
    """
    try:
        more = mixed(run, tip, f"plus {short(run, idea)}", [idea])
        return more._replace(members=(*members, idea))
    except CandidateError:
        fitting, clashing = assembled(run, first, [idea, *members], 1 + len(members), quiet=True)
    if idea not in fitting:
        return None
    name = f"{short(run, idea)} for {' and '.join(short(run, one) for one in clashing)}"
    return mixed(run, first, name, fitting)


def leave_one_out(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
    """The bundle, and the bundle without each member; of one member, the bundle alone."""
    mixes = [mixed(run, base, ALL, members)]
    for left_out in members if len(members) > 1 else ():
        rest = [member for member in members if member is not left_out]
        mixes.append(mixed(run, base, f"without {short(run, left_out)}", rest))
    return mixes


def fraction(run: Run, base: str, members: Sequence[Candidate]) -> list[Mix]:
    """Eight cells in which each member is in half and any two are in a quarter together."""
    if not 3 <= len(members) < RUNS:
        return []
    columns = [(1,), (2,), (4,), (1, 2), (1, 4), (2, 4), (1, 2, 4)]
    found = []
    for row in range(RUNS):
        signs = [sum(bool(row & bit) for bit in column) % 2 == 0 for column in columns]
        chosen = [member for member, inside in zip(members, signs, strict=False) if inside]
        if 0 < len(chosen) < len(members):
            name = "only " + " ".join(short(run, member) for member in chosen)
            found.append(mixed(run, base, name, chosen))
    return found


def short(run: Run, candidate: Candidate) -> str:
    """A candidate's name within its run."""
    return candidate.id.removeprefix(f"{run.id}/")


def measure(run: Run, base: Collected, generation: int, mixes: Sequence[Mix]) -> list[Cell]:
    """Trains and measures the cells side by side; each is a step of the journal."""
    jobs = {mix.name: _job(run, run.repo.tree(mix.commit)) for mix in mixes}
    for mix in mixes:
        run.lab.label(
            jobs[mix.name].tree, f"g{generation} {mix.name}" if mix.name == ALL else mix.name
        )
    run.lab.prepare(list(jobs.values()))
    return [_measured(run, base, generation, mix, jobs[mix.name]) for mix in mixes]


def _job(run: Run, tree: HarnessTree) -> Job:
    return Job(tree, 0, run.plan.steps, "search", run.plan.search)


def jobs_of(run: Run, mixes: Sequence[Mix]) -> list[Job]:
    """What these cells have to train."""
    return [_job(run, run.repo.tree(mix.commit)) for mix in mixes]


def _measured(run: Run, base: Collected, generation: int, mix: Mix, job: Job) -> Cell:
    try:
        seen = run.lab.measure(job)
    except CandidateError as error:
        cell = Cell(mix, None, None, (failure(error),))
    else:
        cell = _inspected(run, base, mix, job.tree, seen)
    told = run.once(
        f"g{generation}/cell/{mix.commit[:12]}",
        "cell",
        {"members": sorted(mix.ids), "commit": mix.commit, "base": base.version.commit},
        lambda: _told(generation, base, cell),
    )
    run.note(f"cell {mix.name}: {told['words']}")
    return cell


def _inspected(run: Run, base: Collected, mix: Mix, tree: HarnessTree, seen: Evaluated) -> Cell:
    below = run.lab.arm_of("baseline", base.tree, {0: base.evaluated})
    arm = run.lab.arm_of(mix.name, tree, {0: seen})
    found = run.lab.inspector.between((below, arm))
    vetoes = tuple(f for f in found if f.severity == "veto" and f.side != "baseline")
    own = any(f.severity == "veto" for f in run.lab.inspector.within(arm))
    return Cell(mix, seen, arm, vetoes, flawless=not own and not vetoes)


def _told(generation: int, base: Collected, cell: Cell) -> JSON:
    seen = cell.evaluated
    below = base.evaluated.clean / base.evaluated.planned
    if seen is None:
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
        "n": seen.planned if seen else 0,
        "clean_success": cell.clean if seen else None,
        "success": seen.solved / seen.planned if seen else None,
        "delta": cell.clean - below if seen else None,
        "valid": cell.valid,
        "flawless": cell.flawless,
        "vetoes": [finding.to_json() for finding in cell.vetoes],
        "arm": cell.arm.to_json() if cell.arm else None,
        "words": words,
    }


def shares(run: Run, cells: Sequence[Cell]) -> list[Share]:
    """Each member's share in the bundle, with Bonferroni's simultaneous intervals over tasks."""
    whole = cells[0]
    found = []
    for cell in cells[1:]:
        (left_out,) = [m for m in whole.mix.members if m.id not in cell.mix.ids]
        if whole.arm is None or cell.arm is None:
            continue
        refs = cell.arm, whole.arm
        alpha = ALPHA / (2 * (len(cells) - 1))
        seen = effect(pair(*map(run.lab.rows, refs)), alpha=alpha)
        found.append(Share(left_out, seen.delta, seen.ci_low, seen.ci_high, alpha, refs))
    return found


def pruned(run: Run, base: str, cells: Sequence[Cell]) -> Mix | None:
    """The bundle without everything that does better absent, where no cell is just that."""
    kept = kept_of(cells)
    if not kept or any(cell.mix.ids == frozenset(one.id for one in kept) for cell in cells):
        return None
    return mixed(run, base, "with " + " ".join(short(run, one) for one in kept), kept)


def kept_of(cells: Sequence[Cell]) -> list[Candidate]:
    """The members of the bundle, which comes first, that do not do better absent."""
    whole = cells[0]
    kept = list(whole.mix.members)
    for cell in cells[1:]:
        if cell.valid and (cell.clean > whole.clean or not whole.valid):
            kept = [member for member in kept if member.id in cell.mix.ids]
    return kept


def best(cells: Sequence[Cell], below: float = -1.0) -> Cell | None:
    """The best valid cell that is better than what it stands on: those without any veto first.

    Of equals the one with fewer members.
    """
    better = [cell for cell in cells if cell.valid and is_better(cell, below)]

    def rank(cell: Cell) -> tuple[bool, float, int]:
        return cell.flawless, cell.clean, -len(cell.mix.members)

    return max(better, key=rank, default=None)


def is_better(cell: Cell | None, below: float) -> bool:
    """Whether a cell is worth going on from, over the clean success of what it stands on."""
    return cell is not None and cell.clean > below + WORTHWHILE
