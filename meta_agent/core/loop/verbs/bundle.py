"""Bundles: which ideas are trained together, which cell is best, and where the search continues.

A generation takes its ideas in order of strength. It takes as many as merge without conflict and as
the search's share of the budget can try. It trains them together and without each (`cells`). The
search continues from the best valid cell. Admitted diagnostics join the lead.

Not covered: how cells are measured and compared (`cells`), and the proof (`claim`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.budget import attempts_of_jobs, cells_left, search_pays
from meta_agent.core.loop.records import (
    Collected,
    Judged,
    Read,
    Tested,
    Version,
    stopped,
    undecided,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.cells import (
    ALL,
    Cell,
    Mix,
    Share,
    beside,
    best,
    fraction,
    jobs_of,
    leave_one_out,
    measure,
    mixed,
    pruned,
    shares,
    short,
)
from meta_agent.core.loop.verbs.check import Checked
from meta_agent.core.loop.verbs.collect import measured
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.protocols import JSON, Candidate, Factor, Verdict, VerdictKind

Mixes = Callable[[Run, str, Sequence[Candidate]], list[Mix]]
"""Returns the sets of ideas to train, merged onto a commit: by default all, and without each."""
PATIENCE: Final = 2
"""Generations without anything better, in a row, before a search escalates."""


class Tip(NamedTuple):
    """What the next generation starts from: a version, its evidence, and ideas to try later."""

    version: Version
    members: tuple[Candidate, ...] = ()
    waiting: tuple[Candidate, ...] = ()
    """Ideas that conflicted or had no room: first in the next bundle, or tried at the end."""
    evidence: Evidence | None = None
    ended: bool = False
    failures: tuple[frozenset[Factor], ...] = ()
    """The factors that each generation tried since one was better."""


def in_turn(run: Run, waiting: Sequence[Candidate], ideas: Sequence[Candidate]) -> list[Candidate]:
    """Returns the waiting ideas, then the new ones. A new one of the same rule replaces the old."""
    renewed = {idea.hypothesis.rule: idea for idea in ideas if idea.hypothesis.rule}
    first = []
    for candidate in waiting:
        newer = renewed.get(candidate.hypothesis.rule)
        if newer:
            run.note(
                f"{candidate.id} is replaced by {newer.id}, the same idea for the present version"
            )
        first.append(newer or candidate)
    return [*first, *(idea for idea in ideas if idea not in first)]


# --- ideas that wait to the end ------------------------------------------------------------------


def try_alone(run: Run, first: Version, tip: Tip, idea: Candidate, reads: dict[int, Read]) -> Tip:
    """Measures the present version with one waiting idea more, and takes it if it is better."""
    mix = beside(run, first.commit, tip.version.commit, tip.members, idea)
    tree, name = run.repo.tree(tip.version.commit), short(run, idea)
    if mix is None or not cells_left(run, tree, later=True):
        return tip
    run.phase("bundle", f"{name} is tried at the end: {mix.name}, on {tip.version.id}")
    base, last = measured(run, tip.version), max(reads)
    cells = measure(run, base, last, [mix])
    chosen = choose_cell(run, base, f"{name}/bundle", last, cells)
    members = mix.members if chosen else tip.members
    for dropped in (candidate for candidate in (*tip.members, idea) if candidate not in members):
        collected, reading = reads[dropped.generation]
        conclude(
            run,
            collected,
            dropped,
            _judge_dropped(cells[0], base, taken=chosen is not None),
            reading,
        )
    waiting = tuple(candidate for candidate in tip.waiting if candidate is not idea)
    if not chosen:
        return tip._replace(waiting=waiting)
    version = move_lead(run, f"{name}/lead", last, mix.commit, members)
    return tip._replace(version=version, members=members, waiting=waiting)


def _judge_dropped(cell: Cell, base: Collected, *, taken: bool) -> Judged:
    """Returns the verdict of a dropped idea: the one that waited, or the member it replaced."""
    if cell.vetoes:
        return stopped(cell.vetoes)
    points = f"{100 * (cell.clean - base.evaluated.clean_success):+.1f} points on the search split"
    verb = "given up for what does better in its place" if taken else "no better"
    reason = f"{verb}: {cell.mix.name}, {points}, training seed 0"
    return undecided(reason, [cell.mix.name])


# --- the cells -----------------------------------------------------------------------------------


def measure_cells(
    run: Run, base: Collected, generation: int, members: Sequence[Candidate], mixes: Mixes
) -> list[Cell]:
    """Measures the bundle, each leave-one-out, and the bundle without members that harm.

    If no cell is better than the base, measures a fraction of the remaining combinations. With
    other `mixes` it measures these alone.
    """
    if not members:
        return []
    onto, names = base.version.commit, ", ".join(short(run, member) for member in members)
    run.phase("bundle", f"generation {generation}: {names} together, and without each")
    trained = partial(measure, run, base, generation)

    def price(sets: Sequence[Mix]) -> int:
        return attempts_of_jobs(run, jobs_of(run, sets), base.tree)

    cells = trained(mixes(run, onto, members))
    if mixes is not leave_one_out:
        return cells
    rest = pruned(run, onto, cells)
    if rest and search_pays(run, price([rest])):
        cells += trained([rest])
    if best(cells, base.evaluated.clean_success) is None:
        more = fraction(run, onto, members)
        if more and search_pays(run, price(more), later=False):
            run.note(f"no cell is better: {len(more)} further combinations are tried")
            cells += trained(more)
    return cells


def choose_cell(
    run: Run, base: Collected, name: str, generation: int, cells: Sequence[Cell]
) -> Cell | None:
    """Returns the best cell to go on from, or None if none is better. The choice is journalled."""
    chosen = best(cells, base.evaluated.clean_success)

    def record() -> JSON:
        return {
            "generation": generation,
            "base": base.version.id,
            "clean_success": base.evaluated.clean_success,
            "cells": [cell.mix.name for cell in cells],
            "chosen": chosen.mix.name if chosen else None,
            "members": [member.id for member in chosen.mix.members] if chosen else [],
            "shares": [_share_json(share) for share in _shares(run, cells)],
        }

    intent = {"cells": [cell.mix.commit for cell in cells]}
    outcome = run.once(name, "bundle", intent, record)
    if not cells:
        run.note("there is no idea to bundle")
    elif outcome["chosen"] is None:
        run.note("no better" if len(cells) == 1 else "neither the bundle nor any cell is better")
    else:
        run.note(f"generation {generation} continues from the cell {outcome['chosen']}")
    return chosen


def _shares(run: Run, cells: Sequence[Cell]) -> list[Share]:
    """Returns each member's share of the bundle's gain; empty for a bundle of one."""
    whole = cells[0] if cells else None
    if whole is None or len(whole.mix.members) < 2:
        return []
    left_out = [c for c in cells[1:] if c.mix.name.startswith("without ")]
    return shares(run, [whole, *left_out])


def _share_json(share: Share) -> JSON:
    return {
        "candidate": share.candidate.id,
        "delta": share.delta,
        "ci_low": share.low,
        "ci_high": share.high,
        "alpha": share.alpha,
        "arms": [arm.to_json() for arm in share.arms],
    }


# --- verdicts and the next version ---------------------------------------------------------------


def conclude_dropped(
    run: Run, at: Read, checked: Checked, cells: Sequence[Cell], chosen: Cell | None
) -> None:
    """Records the verdicts on dropped candidates. The members that stay are judged by the claim."""
    chosen_ids = chosen.mix.ids if chosen else frozenset()
    judgements = dict(checked.judged)
    by_member = {share.candidate.id: share for share in _shares(run, cells)}
    for member in members_of(cells):
        checked.tested.setdefault(member.id, Tested(member, ()))
        if member.id not in chosen_ids:
            judgements[member.id] = _judge_member(run, member, by_member.get(member.id), cells)
    for cid, judged in judgements.items():
        conclude(run, at.collected, checked.tested[cid].candidate, judged, at.reading)


def members_of(cells: Sequence[Cell]) -> list[Candidate]:
    """Returns the candidates that are in any of the cells, each once."""
    return list({member.id: member for cell in cells for member in cell.mix.members}.values())


def conclude_untried(run: Run, tip: Tip, reads: dict[int, Read]) -> None:
    """Records the verdicts on ideas that still wait when the search ends."""
    judged = undecided("never tried: it clashed with stronger ideas, or no bundle had room for it")
    for candidate in tip.waiting:
        collected, reading = reads[max(reads)]
        conclude(run, collected, candidate, judged, reading)


def _judge_member(
    run: Run, member: Candidate, share: Share | None, cells: Sequence[Cell]
) -> Judged:
    """Returns the verdict on a member that the next version does without."""
    name = short(run, member)
    without = [cell for cell in cells if cell.evaluated and member.id not in cell.mix.ids]
    among = [cell for cell in cells if member.id in cell.mix.ids]
    vetoes = tuple({f.code: f for cell in among for f in cell.vetoes}.values())
    brings = among and without and all(c.vetoes for c in among) and any(c.valid for c in without)
    if brings:
        return stopped(vetoes)
    kind = VerdictKind.INCONCLUSIVE
    if share is None:
        reason = f"{name} was in no cell that did better"
    else:
        points = (
            f"{100 * share.delta:+.1f} points [{100 * share.low:+.1f}, {100 * share.high:+.1f}]"
        )
        kind = VerdictKind.REJECT if share.high < 0 else VerdictKind.INCONCLUSIVE
        reason = f"dropped: with it the bundle does {points} on the search split, training seed 0"
    evidence: JSON = {"judge": "bundle", "inputs": {"cells": [cell.mix.name for cell in cells]}}
    if share:
        evidence["share"] = _share_json(share)
    verdict = Verdict(
        kind, (reason,), evidence=evidence, screened_out=kind is not VerdictKind.REJECT
    )
    return Judged(verdict, share.arms if share else None)


def next_tip(
    run: Run,
    tip: Tip,
    generation: int,
    at: Read,
    chosen: Cell | None,
    admitted: Sequence[Candidate],
    waiting: Sequence[Candidate],
    *,
    tried: Sequence[Cell],
) -> Tip:
    """Moves the lead to the chosen cell with the admitted diagnostics. Returns the next tip.

    The search ends there if nothing was `tried`, unless it turned to other factors. It goes on
    after a new diagnostic, because authors then read more.
    """
    onto = chosen.mix if chosen else Mix(ALL, (), tip.version.commit)
    onto = with_diagnostics(run, onto, admitted)
    members, version = (*tip.members, *onto.members), tip.version
    if onto.commit != version.commit:
        version = move_lead(run, f"g{generation}/lead", generation, onto.commit, members)
    factors = frozenset(member.factor for member in members_of(tried))
    failures = () if chosen or admitted else (*tip.failures, factors)
    ended = not admitted and not tried and len(failures) <= PATIENCE
    return Tip(version, members, tuple(waiting), at.reading.evidence, ended, failures)


def move_lead(
    run: Run, name: str, generation: int, commit: str, members: Sequence[Candidate]
) -> Version:
    """Records a new best version, and moves the branch `lead` (unproven edits) to `commit`.

    `name` is the record's key, `members` are the version's candidates. Returns the version.
    """
    record = {
        "candidate": None,
        "generation": generation,
        "commit": commit,
        "main": run.repo.head(),
        "members": [member.id for member in members],
        "effect": None,
    }
    run.once(name, "lead", {"commit": commit}, lambda: record)
    run.repo.set_lead(commit)
    return Version(f"v0+{len(members)}", commit)


def with_diagnostics(run: Run, onto: Mix, admitted: Sequence[Candidate]) -> Mix:
    """Merges admitted diagnostics (the harness's own metrics) into `onto`, unless they conflict."""
    for candidate in admitted:
        try:
            more = mixed(run, onto.commit, onto.name, [candidate])
        except CandidateError as error:
            run.note(
                f"{candidate.id} was admitted, but does not merge with the other edits: {error}"
            )
            continue
        onto = Mix(onto.name, (*onto.members, candidate), more.commit)
    return onto
