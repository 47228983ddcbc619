"""search: read twice, bundle, leave one out, go on from the best valid cell, and read again.

A generation takes its ideas in order of strength, as many as merge without conflict and as the
search's share of the budget can try, trains them together and without each, and goes on from the
best cell (`cells`). It ends when neither a bundle nor any of its cells is better than what they
stand on and no idea waits, or when its share is spent. What it goes on from is at the
branch `lead`; `main` waits for the proof (`claim`).

What a person has to approve is asked before anything is trained. Diagnostics change no attempt:
they are judged on past versions (`discriminate`) and join the lead if they are admitted.

Not covered: proof, and more training of what was found (`train_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from meta_agent.errors import BudgetError, CandidateError
from meta_agent.evidence import Evidence
from meta_agent.protocols import JSON, Candidate, Verdict, VerdictKind
from meta_agent.steps.budget import cells_left, pays_for_search
from meta_agent.steps.diagnostics.discriminate import discriminate
from meta_agent.steps.records import (
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
from meta_agent.steps.run import Run
from meta_agent.steps.verbs.approve import to_test
from meta_agent.steps.verbs.cells import (
    ALL,
    Cell,
    Mix,
    Share,
    assembled,
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
from meta_agent.steps.verbs.collect import collect, read, rolled_out_untrained
from meta_agent.steps.verbs.learn import conclude
from meta_agent.steps.verbs.propose import propose, revise
from meta_agent.steps.verbs.test import test

Shows = Callable[[Reading], Reading]


class Tip(NamedTuple):
    """What the next generation starts from."""

    version: Version
    members: tuple[Candidate, ...] = ()
    waiting: tuple[Candidate, ...] = ()
    """Ideas that clashed or found no room: first in the next bundle."""
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
    looks = run.config.candidates * run.plan.search  # a scaffold's, with the base policy
    if not _room(run, tip.version, generation, "propose", looks):
        return tip._replace(ended=True)
    proposed = propose(run, collected, shows(reading), generation)
    again = partial(revise, run, collected, shows(reading))
    trial = _tried(run, collected, to_test(run, collected, reading, proposed, again))
    room = _room(run, tip.version, generation, "bundle")
    ideas = _in_turn(run, tip.waiting, trial.ideas)
    members, waiting = assembled(run, tip.version.commit, ideas, _most(room, run))
    cells = _cells(run, collected, generation, members)
    chosen = _chosen(run, collected, generation, cells)
    _conclude(run, collected, reading, trial, cells, chosen)
    return _after(run, tip, reading, generation, chosen, trial.admitted, waiting)


def _room(run: Run, version: Version, generation: int, what: str, beside: int = 0) -> int:
    """Cells that the search's share still pays for, so many attempts beside them."""
    tree = run.repo.tree(version.commit)
    room = cells_left(run, tree, f"g{generation}/{what}", beside)
    if not room:
        run.note("the search ends: its share of the budget pays for no further bundle")
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
    """Members whose bundle and leave-one-outs fit, with one cell more where there are many."""
    return min(run.config.candidates, room, max(1, room - (2 if room > 4 else 1)))


def _untried() -> Judged:
    reason = "never tried: it clashed with stronger ideas, or no bundle had room for it"
    evidence: JSON = {"judge": "checks", "findings": []}
    verdict = Verdict(VerdictKind.INCONCLUSIVE, (reason,), screened_out=True, evidence=evidence)
    return Judged(verdict)


# --- before anything is trained ------------------------------------------------------------------


def _tried(run: Run, collected: Collected, candidates: Sequence[Candidate]) -> Trial:
    """Static, contract and replay checks; what acts is rolled out with the base policy."""
    tested = {one.id: test(run, collected, one) for one in candidates}
    trial = Trial([], {}, [], tested)
    for one in tested.values():
        if not one.vetoed and not one.watches:
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
    measured = partial(measure, run, base, generation)
    cells = measured(leave_one_out(run, onto, members))
    rest = pruned(run, onto, cells)
    if rest and pays_for_search(run, base.tree, generation, "pruned", jobs_of(run, [rest])):
        cells += measured([rest])
    if best(cells, _below(base)) is None:
        mixes = fraction(run, onto, members)
        due = jobs_of(run, mixes)
        if mixes and pays_for_search(run, base.tree, generation, "fraction", due):
            run.note(f"neither the bundle nor a cell is better: {len(mixes)} cells of a fraction")
            cells += measured(mixes)
    return cells


def _below(base: Collected) -> float:
    return base.evaluated.clean / base.evaluated.planned


def _chosen(run: Run, base: Collected, generation: int, cells: Sequence[Cell]) -> Cell | None:
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
    outcome = run.once(f"g{generation}/bundle", "bundle", intent, told)
    if not cells:
        run.note("the search ends: there is nothing to bundle")
    elif outcome["chosen"] is None:
        run.note("the search ends: neither the bundle nor any of its cells is better")
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
    members = (*tip.members, *onto.members)
    if onto.commit != tip.version.commit:
        told = {
            "candidate": None,
            "generation": generation,
            "commit": onto.commit,
            "main": run.repo.head(),
            "members": [member.id for member in members],
            "effect": None,
        }
        run.once(f"g{generation}/lead", "lead", {"commit": onto.commit}, lambda: told)
        run.repo.set_lead(onto.commit)
    version = Version(f"v0+{len(members)}", onto.commit) if members else tip.version
    ended = chosen is None and not waiting
    return Tip(version, members, tuple(waiting), reading.evidence, ended=ended)


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
