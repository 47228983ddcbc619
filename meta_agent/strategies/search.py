"""The search of `full` with a trained policy: it bundles ideas and keeps the best valid cell.

A generation takes its ideas in order of strength. It takes as many as merge without conflict and as
the search's share of the budget can try. It trains them together and without each, and goes on from
the best cell (`cells`). If no cell is clearly better than its base, it goes on from one that is at
least above it, for the time being (a detour): a training there may show faults that were masked.
It returns if nothing on the detour is clearly better. The search ends when no cell is above its
base, no idea waits and no diagnostic was admitted, or when the budget pays for no further bundle.
Ideas that still wait are then tried one by one on the result, because its own cell is already
measured. The branch `lead` holds the version that the search goes on from. `main` does not move
before the proof (`claim`).

The search ends before the claim, because the claim is about one harness that is fixed beforehand. A
later search could not replace the proven harness.

A person approves before anything is trained. Admitted diagnostics (`_trials`) join the lead.

Not covered: proof, and further training of the result (`train_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from meta_agent.core.errors import BudgetError, CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.budget import cells_left, pays_for_search
from meta_agent.core.loop.records import (
    Collected,
    Judged,
    Read,
    Reading,
    SearchResult,
    Tested,
    Version,
    stopped,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.cells import (
    ALL,
    WORTHWHILE,
    Cell,
    Mix,
    Share,
    assembled,
    beside,
    best,
    fraction,
    is_better,
    jobs_of,
    leave_one_out,
    measure,
    mixed,
    pruned,
    shares,
    short,
)
from meta_agent.core.loop.verbs.collect import collect, measured, read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.strategies._trials import Trial, try_ideas, undecided

Shows = Callable[[Reading], Reading]


class Tip(NamedTuple):
    """What the next generation starts from: a version, its evidence, and ideas to try later."""

    version: Version
    members: tuple[Candidate, ...] = ()
    waiting: tuple[Candidate, ...] = ()
    """Ideas that conflicted or had no room: first in the next bundle, or tried at the end."""
    evidence: Evidence | None = None
    ended: bool = False
    home: tuple[Version, tuple[Candidate, ...]] | None = None
    """On a detour, the version to return to, with its members."""


def search(run: Run, first: Version, shows: Shows = lambda reading: reading) -> SearchResult:
    """Searches in generations with a trained policy, within the search's share of the budget.

    `shows` returns what a proposer may see of the evidence. The version returned is not proven.
    """
    tip, reads = Tip(first), dict[int, Read]()
    try:
        for generation in range(run.config.generations):
            tip = _generation(run, tip, generation, shows, reads)
            if tip.ended:
                break
        tip = _return_home(run, tip, reads)
        for idea in tip.waiting:
            tip = _try_alone(run, first, tip, idea, reads)
    except BudgetError as reached:
        if run.config.budget is None:
            raise
        run.note(f"the search ends: {reached}")
        tip = _return_home(run, tip, reads)
    untried = undecided("never tried: it clashed with stronger ideas, or no bundle had room for it")
    for candidate in tip.waiting:
        conclude(run, reads[max(reads)].collected, candidate, untried, reads[max(reads)].reading)
    return SearchResult(tip.version, tip.members, reads)


def _generation(run: Run, tip: Tip, generation: int, shows: Shows, reads: dict[int, Read]) -> Tip:
    """Tries one bundle and its cells. Returns where the next generation starts."""
    if generation and not _room(run, tip.version, generation, "read", run.plan.search):
        return tip._replace(ended=True)
    collected = collect(run, tip.version)
    reading = read(run, collected, generation, tip.evidence)
    reads[generation] = Read(collected, reading)
    if not _room(run, tip.version, generation, "propose"):
        return tip._replace(ended=True)
    proposed = propose(run, collected, shows(reading), generation)
    again = partial(revise, run, collected, shows(reading))
    ready = to_test(run, collected, reading, proposed, again)
    trial = try_ideas(run, collected, generation, ready)
    ideas = _in_turn(run, tip.waiting, trial.ideas)
    room = _room(run, tip.version, generation, "bundle")
    members, waiting = assembled(run, tip.version.commit, ideas, _most(room, run))
    cells = _cells(run, collected, generation, members)
    below = collected.evaluated.clean_success
    near = best(cells, below - WORTHWHILE) if run.plan.rules > 2 else None
    chosen = _choose_cell(run, collected, f"g{generation}/bundle", generation, cells, near)
    _conclude(run, collected, reading, trial, cells, chosen)
    if chosen and not is_better(chosen, below):
        tip = tip._replace(home=tip.home or (tip.version, tip.members))
    elif chosen:
        tip = tip._replace(home=None)
    next_tip = _next_tip(run, tip, reading, generation, chosen, trial.admitted, waiting)
    return next_tip if cells or trial.admitted else next_tip._replace(ended=True)


def _room(run: Run, version: Version, generation: int, what: str, beside: int = 0) -> int:
    """Returns how many cells the search can still pay for, beside `beside` other attempts."""
    tree, later = run.repo.tree(version.commit), generation > 0
    room = cells_left(run, tree, f"g{generation}/{what}", beside, later=later)
    if not room:
        run.note("the search's share of the budget pays for no further bundle")
    return room


def _in_turn(run: Run, waiting: Sequence[Candidate], ideas: Sequence[Candidate]) -> list[Candidate]:
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


def _most(room: int, run: Run) -> int:
    """Returns how many members a bundle may have, so that it and the bundles without one fit."""
    return min(run.config.candidates, room, max(1, room - 1))


# --- ideas that wait to the end ------------------------------------------------------------------


def _try_alone(run: Run, first: Version, tip: Tip, idea: Candidate, reads: dict[int, Read]) -> Tip:
    """Measures the present version with one waiting idea more, and takes it if it is better."""
    mix = beside(run, first.commit, tip.version.commit, tip.members, idea)
    tree, name = run.repo.tree(tip.version.commit), short(run, idea)
    if mix is None or not cells_left(run, tree, f"{name}/alone", later=True):
        return tip
    run.phase("bundle", f"{name} is tried at the end: {mix.name}, on {tip.version.id}")
    base, last = measured(run, tip.version), max(reads)
    cells = measure(run, base, last, [mix])
    chosen = _choose_cell(run, base, f"{name}/bundle", last, cells)
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


def _cells(run: Run, base: Collected, generation: int, members: Sequence[Candidate]) -> list[Cell]:
    """Measures the bundle, each leave-one-out, and the bundle without members that harm.

    If no cell is better than the base, measures a fraction of the remaining combinations.
    """
    if not members:
        return []
    onto, names = base.version.commit, ", ".join(short(run, member) for member in members)
    run.phase("bundle", f"generation {generation}: {names} together, and without each")
    trained = partial(measure, run, base, generation)
    pays = partial(pays_for_search, run, base.tree)
    cells = trained(leave_one_out(run, onto, members))
    rest, at = pruned(run, onto, cells), f"g{generation}"
    if rest and pays(f"{at}/pruned", jobs_of(run, [rest]), later=True):
        cells += trained([rest])
    if best(cells, base.evaluated.clean_success) is None:
        mixes = fraction(run, onto, members)
        if mixes and pays(f"{at}/fraction", jobs_of(run, mixes)):
            run.note(f"no cell is better: {len(mixes)} further combinations are tried")
            cells += trained(mixes)
    return cells


def _choose_cell(
    run: Run,
    base: Collected,
    name: str,
    generation: int,
    cells: Sequence[Cell],
    near: Cell | None = None,
) -> Cell | None:
    """Returns the cell to go on from, and journals it: the best one, else the cell `near`."""
    chosen = best(cells, base.evaluated.clean_success) or near

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
    elif is_better(chosen, base.evaluated.clean_success):
        run.note(f"generation {generation} continues from the cell {outcome['chosen']}")
    else:
        run.note(f"no cell is better; for now the search continues from {outcome['chosen']}")
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


def _conclude(
    run: Run,
    collected: Collected,
    reading: Reading,
    trial: Trial,
    cells: Sequence[Cell],
    chosen: Cell | None,
) -> None:
    """Records the verdicts on dropped candidates. The members that stay are judged by the claim."""
    chosen_ids = chosen.mix.ids if chosen else frozenset()
    judgements = dict(trial.judged)
    by_member = {share.candidate.id: share for share in _shares(run, cells)}
    for member in cells[0].mix.members if cells else ():
        if member.id not in chosen_ids:
            share = by_member.get(member.id)
            judgements[member.id] = _judge_member(run, collected, member, share, cells)
    for member in cells[0].mix.members if cells else ():
        trial.tested.setdefault(member.id, Tested(member, ()))
    for cid, judged in judgements.items():
        conclude(run, collected, trial.tested[cid].candidate, judged, reading)


def _judge_member(
    run: Run, base: Collected, member: Candidate, share: Share | None, cells: Sequence[Cell]
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


def _next_tip(
    run: Run,
    tip: Tip,
    reading: Reading,
    generation: int,
    chosen: Cell | None,
    admitted: Sequence[Candidate],
    waiting: Sequence[Candidate],
) -> Tip:
    """Moves the lead to the chosen cell with the admitted diagnostics. Returns the next tip."""
    onto = chosen.mix if chosen else Mix(ALL, (), tip.version.commit)
    onto = with_diagnostics(run, onto, admitted)
    members, version = (*tip.members, *onto.members), tip.version
    if onto.commit != version.commit:
        version = move_lead(run, f"g{generation}/lead", generation, onto.commit, members)
    ended = chosen is None and not waiting and not admitted
    return Tip(version, members, tuple(waiting), reading.evidence, ended=ended, home=tip.home)


def _return_home(run: Run, tip: Tip, reads: dict[int, Read]) -> Tip:
    """Ends a detour that led to nothing better: drops its candidates and returns the old tip."""
    if tip.home is None:
        return tip
    version, members = tip.home
    reason = "dropped: no better on its own, and neither was what was tried on top of it"
    judged = undecided(reason)
    detour = [member for member in tip.members if member not in members]
    for member in (member for member in detour if member.factor != "diagnostics"):
        collected, reading = reads[member.generation]
        conclude(run, collected, member, judged, reading)
    watches = [member for member in detour if member.factor == "diagnostics"]
    onto = with_diagnostics(run, Mix(ALL, (), version.commit), watches)
    members = (*members, *onto.members)
    lead = move_lead(run, f"g{max(reads)}/home", max(reads), onto.commit, members)
    run.note(f"the search returns to {version.id}: nothing on the detour was better")
    return tip._replace(version=lead if onto.members else version, members=members, home=None)


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
