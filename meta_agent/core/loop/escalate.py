"""What a search does after two generations in a row in which nothing was better.

    1. it measures the version again, trained with another seed (A/A): how far luck alone reaches
    2. it asks the next generation for ideas about other factors
    3. if that fails too, it takes each earlier edit away, and goes on without one that hindered
    4. else it asks a person whether to go on, if `--approve` allows it, and ends otherwise

Each step is one record of the kind `escalation` and one line of the report. What the search's share
of the budget cannot pay for is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_agent.core.errors import CandidateError
from meta_agent.core.lab.live import Job
from meta_agent.core.loop.budget import attempts_of_jobs, search_pays
from meta_agent.core.loop.records import Collected, Read, undecided
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_go_on
from meta_agent.core.loop.verbs.bundle import PATIENCE, Tip, move_lead
from meta_agent.core.loop.verbs.cells import WORTHWHILE, Mix, best, jobs_of, measure, short
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.protocols import JSON, Candidate, Factor


def escalated(run: Run, tip: Tip, generation: int, reads: Mapping[int, Read]) -> Tip:
    """Returns where a search continues, after the next step if nothing was better for long."""
    failed = len(tip.failures)
    if failed == 0:
        run.stage_factors = ()
    if tip.ended or failed < PATIENCE:
        return tip
    base = reads[generation].collected
    if failed == PATIENCE:
        _measure_again(run, base, generation)
        return tip._replace(ended=not _turn_to_others(run, tip.failures, generation))
    run.stage_factors = ()
    tip = tip._replace(failures=())
    mix = _take_away(run, base, tip.members, generation)
    if mix is None:
        names = [short(run, member) for member in tip.members]
        return tip._replace(ended=not to_go_on(run, generation, names))
    (hinders,) = [member for member in tip.members if member.id not in mix.ids]
    judged = undecided("taken away again: the version does better without it", [mix.name])
    collected, reading = reads[hinders.generation]
    conclude(run, collected, hinders, judged, reading)
    version = move_lead(run, f"g{generation}/away", generation, mix.commit, mix.members)
    return tip._replace(version=version, members=mix.members)


def _measure_again(run: Run, base: Collected, generation: int) -> None:
    seed = run.plan.looks[-1] + 1  # the search has seed 0, the claim those in between
    job = Job(base.tree, seed, run.plan.steps, "search", run.plan.search)
    if not search_pays(run, attempts_of_jobs(run, [job], base.tree)):
        return
    before, after = base.evaluated.clean_success, run.lab.measure(job).clean_success
    _record(
        run,
        generation,
        "again",
        f"{base.version.id} was trained again: {after:.1%} clean on search, {before:.1%} before. "
        f"Luck alone moves it by {100 * abs(after - before):.1f} points; a cell has to be "
        f"{100 * WORTHWHILE:.0f} points better",
    )


def _turn_to_others(run: Run, failures: Sequence[frozenset[Factor]], generation: int) -> bool:
    """Restricts the next generation to factors that did not fail. Returns False if all did."""
    others = tuple(f for f in run.plan.factors if not any(f in tried for tried in failures))
    if others:
        run.stage_factors = others
        failed = ", ".join(sorted(frozenset[Factor]().union(*failures)))
        words = f"ideas about {failed} failed; the next generation is about {', '.join(others)}"
        _record(run, generation, "factors", words)
    return bool(others)


def _take_away(
    run: Run, base: Collected, members: Sequence[Candidate], generation: int
) -> Mix | None:
    """Measures the version without each earlier edit; returns the best if one edit hindered."""
    acting = [member for member in members if member.factor != "diagnostics"]
    several = acting if len(acting) > 1 else []
    tip = base.version.commit
    rests = (_without(run, tip, members, member, generation) for member in several)
    mixes = [mix for mix in rests if mix]
    if not mixes or not search_pays(run, attempts_of_jobs(run, jobs_of(run, mixes), base.tree)):
        return None
    chosen = best(measure(run, base, generation, mixes), base.evaluated.clean_success)
    names = ", ".join(short(run, member) for member in acting)
    became = f"the search continues {chosen.mix.name}" if chosen else "none of them hindered"
    _record(run, generation, "away", f"each earlier edit was taken away ({names}): {became}")
    return chosen.mix if chosen else None


def _without(
    run: Run, tip: str, members: Sequence[Candidate], member: Candidate, generation: int
) -> Mix | None:
    """Returns the commit `tip` with one member's edit undone, or None if a later one needs it."""
    when = run.date(generation, 700 + member.index)
    try:
        commit = run.repo.revert_ahead(
            member.commit, onto=tip, message=f"revert: {member.id}", when=when
        )
    except CandidateError:
        return None
    rest = tuple(other for other in members if other is not member)
    return Mix(f"without {short(run, member)}", rest, commit)


def _record(run: Run, generation: int, step: str, words: str) -> None:
    noted = f"nothing was better: {words}"
    record: JSON = {"generation": generation, "step": step, "noted": noted}
    run.once(f"g{generation}/escalate/{step}", "escalation", {}, lambda: record)
    run.note(noted)
