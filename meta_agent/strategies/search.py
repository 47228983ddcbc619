"""search: read twice, bundle, leave one out, go on from the best valid cell, and read again.

A generation takes its ideas in order of strength, as many as merge without conflict and as the
search's share of the budget can try, trains them together and without each, and goes on from the
best cell (`cells`). It ends when neither a bundle nor any of its cells is better than what they
stand on and no idea waits, or when the budget pays for no further bundle. What still waits is
then tried one by one on what was found, whose own cell is known: the cheapest experiment that
decides. What it goes on from is at the branch `lead`; `main` waits for the proof (`claim`).

All of it comes before the claim, which is about one harness that was fixed beforehand. Once it is
made nothing is searched any more: what came of that could not stand in for what is proven.

What a person has to approve is asked before anything is trained. Diagnostics change no attempt:
they are judged on past versions (`discriminate`) and join the lead if they are admitted.

Not covered: proof, and more training of what was found (`train_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from meta_agent.core.errors import BudgetError, CandidateError
from meta_agent.core.evidence import Evidence
from meta_agent.core.loop.budget import cells_left, pays_for_search
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.records import (
    Collected,
    Found,
    Judged,
    Read,
    Reading,
    Tested,
    Version,
    failure,
    stopped,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.cells import (
    ALL,
    Cell,
    Mix,
    Share,
    assembled,
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
from meta_agent.core.loop.verbs.collect import collect, measured, read, rolled_out_untrained
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.test import test
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind

Shows = Callable[[Reading], Reading]


class Tip(NamedTuple):
    """What the next generation starts from."""

    version: Version
    members: tuple[Candidate, ...] = ()
    waiting: tuple[Candidate, ...] = ()
    """Ideas that clashed or found no room: first in the next bundle, or tried at the end."""
    evidence: Evidence | None = None
    ended: bool = False


class Trial(NamedTuple):
    """A generation's candidates by what happens to them next."""

    ideas: list[Candidate]
    judged: dict[str, Judged]
    admitted: list[Candidate]
    tested: dict[str, Tested]


def search(run: Run, first: Version, shows: Shows = lambda reading: reading) -> Found:
    """The best that the search's share of the budget finds."""
    tip, seen = Tip(first), dict[int, Read]()
    try:
        for generation in range(run.config.generations):
            tip = _generation(run, tip, generation, shows, seen)
            if tip.ended:
                break
        for idea in tip.waiting:
            tip = _alone(run, first, tip, idea, seen)
    except BudgetError as reached:
        if run.config.budget is None:
            raise
        run.note(f"the search ends: {reached}")
    for candidate in tip.waiting:
        conclude(run, seen[max(seen)].collected, candidate, _untried(), seen[max(seen)].reading)
    return Found(tip.version, tip.members, seen)


def _generation(run: Run, tip: Tip, generation: int, shows: Shows, seen: dict[int, Read]) -> Tip:
    """One bundle and its cells."""
    if generation and not _room(run, tip.version, generation, "read", run.plan.search):
        return tip._replace(ended=True)
    collected = collect(run, tip.version)
    reading = read(run, collected, generation, tip.evidence)
    seen[generation] = Read(collected, reading)
    if not _room(run, tip.version, generation, "propose"):
        return tip._replace(ended=True)
    proposed = propose(run, collected, shows(reading), generation)
    again = partial(revise, run, collected, shows(reading))
    ready = to_test(run, collected, reading, proposed, again)
    trial = _tried(run, collected, generation, ready)
    room = _room(run, tip.version, generation, "bundle")
    ideas = _in_turn(run, tip.waiting, trial.ideas)
    members, waiting = assembled(run, tip.version.commit, ideas, _most(room, run))
    cells = _cells(run, collected, generation, members)
    chosen = _chosen(run, collected, f"g{generation}/bundle", generation, cells)
    _conclude(run, collected, reading, trial, cells, chosen)
    found = _after(run, tip, reading, generation, chosen, trial.admitted, waiting)
    return found if cells else found._replace(ended=True)  # what waits merges with nothing more


def _room(run: Run, version: Version, generation: int, what: str, beside: int = 0) -> int:
    """Cells that the search may still pay for, so many attempts beside them."""
    tree, later = run.repo.tree(version.commit), generation > 0
    room = cells_left(run, tree, f"g{generation}/{what}", beside, later=later)
    if not room:
        run.note("its share of the budget pays for no further bundle")
    return room


def _in_turn(run: Run, waiting: Sequence[Candidate], ideas: Sequence[Candidate]) -> list[Candidate]:
    """Those that waited first; one that was had again, on what it now stands on, as it is now."""
    again = {one.hypothesis.rule: one for one in ideas if one.hypothesis.rule}
    first = []
    for candidate in waiting:
        newer = again.get(candidate.hypothesis.rule)
        if newer:
            run.note(f"{candidate.id} comes again as {newer.id}")
        first.append(newer or candidate)
    return [*first, *(one for one in ideas if one not in first)]


def _most(room: int, run: Run) -> int:
    """Members whose bundle and leave-one-outs fit; what is pruned later is paid for later."""
    return min(run.config.candidates, room, max(1, room - 1))


# --- what waited to the end ----------------------------------------------------------------------


def _alone(run: Run, first: Version, tip: Tip, idea: Candidate, seen: dict[int, Read]) -> Tip:
    """One cell of what was found with one idea more; what does no better is out."""
    mix = beside(run, first.commit, tip.version.commit, tip.members, idea)
    tree, name = run.repo.tree(tip.version.commit), short(run, idea)
    if mix is None or not cells_left(run, tree, f"{name}/alone", later=True):
        return tip
    run.phase("bundle", f"{name} waited: {mix.name}, on {tip.version.id}")
    base, last = measured(run, tip.version), max(seen)
    cells = measure(run, base, last, [mix])
    chosen = _chosen(run, base, f"{name}/bundle", last, cells)
    members = mix.members if chosen else tip.members
    for out in (one for one in (*tip.members, idea) if one not in members):
        collected, reading = seen[out.generation]
        conclude(run, collected, out, _out(cells[0], base, taken=chosen is not None), reading)
    waiting = tuple(one for one in tip.waiting if one is not idea)
    if not chosen:
        return tip._replace(waiting=waiting)
    version = _led(run, f"{name}/lead", last, mix.commit, members)
    return tip._replace(version=version, members=members, waiting=waiting)


def _out(cell: Cell, base: Collected, *, taken: bool) -> Judged:
    """Of the idea that waited, or of the member that it took the place of."""
    if cell.vetoes:
        return stopped(cell.vetoes)
    points = f"{100 * (cell.clean - _below(base)):+.1f} points on the search split"
    verb = "given up for what does better in its place" if taken else "no better"
    reason = f"{verb}: {cell.mix.name}, {points}, training seed 0"
    evidence: JSON = {"judge": "bundle", "inputs": {"cells": [cell.mix.name]}}
    return Judged(_inconclusive(reason, evidence))


def _untried() -> Judged:
    reason = "never tried: it clashed with stronger ideas, or no bundle had room for it"
    return Judged(_inconclusive(reason, {"judge": "checks", "findings": []}))


def _inconclusive(reason: str, evidence: JSON) -> Verdict:
    return Verdict(VerdictKind.INCONCLUSIVE, (reason,), screened_out=True, evidence=evidence)


# --- before anything is trained ------------------------------------------------------------------


def _tried(
    run: Run, collected: Collected, generation: int, candidates: Sequence[Candidate]
) -> Trial:
    """Static, contract and replay checks; what acts is rolled out with the base policy.

    Where that would leave no cell it is left out: a cell is inspected itself.
    """
    tested = {one.id: test(run, collected, one) for one in candidates}
    trial = Trial([], {}, [], tested)
    acting = [one for one in candidates if one.factor == "scaffold" and not tested[one.id].vetoed]
    looks = len(acting) * run.plan.search
    looked = cells_left(run, collected.tree, f"g{generation}/looks", looks, later=generation > 0)
    for one in tested.values():
        if looked and not one.vetoed and not one.watches:
            one = tested[one.candidate.id] = _with_conduct(run, collected, one)
        if one.vetoed:
            trial.judged[one.candidate.id] = stopped(one.findings)
        elif one.watches:
            judged = trial.judged[one.candidate.id] = discriminate(run, one)
            if judged.verdict.kind is VerdictKind.PROMOTE:
                trial.admitted.append(one.candidate)
        else:
            trial.ideas.append(one.candidate)
    return trial


def _with_conduct(run: Run, collected: Collected, tested: Tested) -> Tested:
    """Of a scaffold, what the base policy does under it that it does not do under the version."""
    before = collected.untrained
    if tested.candidate.factor != "scaffold" or before is None:
        return tested
    tree, lab = run.repo.tree(tested.candidate.commit), run.lab
    try:
        after = rolled_out_untrained(run, tree)
    except CandidateError as error:
        return tested._replace(findings=(*tested.findings, failure(error)))
    refs = (
        lab.arm_of("baseline", collected.tree, {0: before}),
        lab.arm_of(tested.candidate.id, tree, {0: after}),
    )
    found = lab.inspector.between(refs)
    new = (f for f in found if f.severity == "veto" and f.side != "baseline")
    return tested._replace(findings=(*tested.findings, *new))


# --- the cells -----------------------------------------------------------------------------------


def _cells(run: Run, base: Collected, generation: int, members: Sequence[Candidate]) -> list[Cell]:
    """The bundle, each leave-one-out, the bundle without what harms; else a fraction."""
    if not members:
        return []
    onto, names = base.version.commit, ", ".join(short(run, member) for member in members)
    run.phase("bundle", f"generation {generation}: {names} together, and without each")
    trained = partial(measure, run, base, generation)
    cells = trained(leave_one_out(run, onto, members))
    rest, at = pruned(run, onto, cells), f"g{generation}"
    if rest and pays_for_search(run, base.tree, f"{at}/pruned", jobs_of(run, [rest]), later=True):
        cells += trained([rest])
    if best(cells, _below(base)) is None:
        mixes = fraction(run, onto, members)
        due = jobs_of(run, mixes)
        if mixes and pays_for_search(run, base.tree, f"{at}/fraction", due):
            run.note(f"neither the bundle nor a cell is better: {len(mixes)} cells of a fraction")
            cells += trained(mixes)
    return cells


def _below(base: Collected) -> float:
    return base.evaluated.clean / base.evaluated.planned


def _chosen(
    run: Run, base: Collected, name: str, generation: int, cells: Sequence[Cell]
) -> Cell | None:
    """The cell to go on from, journalled; None where nothing is better."""
    chosen = best(cells, _below(base))

    def told() -> JSON:
        return {
            "generation": generation,
            "base": base.version.id,
            "clean_success": _below(base),
            "cells": [cell.mix.name for cell in cells],
            "chosen": chosen.mix.name if chosen else None,
            "members": [member.id for member in chosen.mix.members] if chosen else [],
            "shares": [_share_json(share) for share in _shares(run, cells)],
        }

    intent = {"cells": [cell.mix.commit for cell in cells]}
    outcome = run.once(name, "bundle", intent, told)
    if not cells:
        run.note("there is nothing to bundle")
    elif outcome["chosen"] is None:
        run.note("no better" if len(cells) == 1 else "neither the bundle nor any cell is better")
    else:
        run.note(f"generation {generation} goes on from the cell {outcome['chosen']}")
    return chosen


def _shares(run: Run, cells: Sequence[Cell]) -> list[Share]:
    """Of the bundle's members; a bundle of one is its own share, which the cell tells."""
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


# --- what came of it -----------------------------------------------------------------------------


def _conclude(
    run: Run,
    collected: Collected,
    reading: Reading,
    trial: Trial,
    cells: Sequence[Cell],
    chosen: Cell | None,
) -> None:
    """The verdicts on everything that is out; what is gone on with has its own at the end."""
    kept = chosen.mix.ids if chosen else frozenset()
    told = dict(trial.judged)
    by_member = {share.candidate.id: share for share in _shares(run, cells)}
    for member in cells[0].mix.members if cells else ():
        if member.id not in kept:
            told[member.id] = _dropped(run, member, by_member.get(member.id), cells)
    for member in cells[0].mix.members if cells else ():
        trial.tested.setdefault(member.id, Tested(member, ()))
    for cid, judged in told.items():
        conclude(run, collected, trial.tested[cid].candidate, judged, reading)


def _dropped(run: Run, member: Candidate, share: Share | None, cells: Sequence[Cell]) -> Judged:
    """A member that the next version does without."""
    name = short(run, member)
    without = [cell for cell in cells if cell.evaluated and member.id not in cell.mix.ids]
    among = [cell for cell in cells if member.id in cell.mix.ids]
    vetoes = tuple({f.code: f for cell in among for f in cell.vetoes}.values())
    brings = among and without and all(c.vetoes for c in among) and any(c.valid for c in without)
    if brings:
        return stopped(vetoes)
    if share is None:
        reason = f"{name} was in no cell that did better"
        kind = VerdictKind.INCONCLUSIVE
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


def _after(
    run: Run,
    tip: Tip,
    reading: Reading,
    generation: int,
    chosen: Cell | None,
    admitted: Sequence[Candidate],
    waiting: Sequence[Candidate],
) -> Tip:
    """The lead moves to the chosen cell, with the diagnostics that were admitted on top."""
    onto = chosen.mix if chosen else Mix(ALL, (), tip.version.commit)
    onto = _with_diagnostics(run, onto, admitted)
    members, version = (*tip.members, *onto.members), tip.version
    if onto.commit != version.commit:
        version = _led(run, f"g{generation}/lead", generation, onto.commit, members)
    ended = chosen is None and not waiting
    return Tip(version, members, tuple(waiting), reading.evidence, ended=ended)


def _led(
    run: Run, name: str, generation: int, commit: str, members: Sequence[Candidate]
) -> Version:
    """The lead moves there."""
    told = {
        "candidate": None,
        "generation": generation,
        "commit": commit,
        "main": run.repo.head(),
        "members": [member.id for member in members],
        "effect": None,
    }
    run.once(name, "lead", {"commit": commit}, lambda: told)
    run.repo.set_lead(commit)
    return Version(f"v0+{len(members)}", commit)


def _with_diagnostics(run: Run, onto: Mix, admitted: Sequence[Candidate]) -> Mix:
    """On top of what acts; one that no longer merges is left out."""
    for candidate in admitted:
        try:
            more = mixed(run, onto.commit, onto.name, [candidate])
        except CandidateError as error:
            run.note(f"{candidate.id} was admitted, and does not fit what it would join: {error}")
            continue
        onto = Mix(onto.name, (*onto.members, candidate), more.commit)
    return onto
