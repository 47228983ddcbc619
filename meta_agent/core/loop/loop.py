"""The loop: one run with a trained policy, from its first version to what it hands over.

    read           attempts under the version at hand become evidence
    propose        authors read the evidence and hand over edits, which become candidates
    check          a person, static checks, the contract and a replay stop what cannot work
    bundle         the candidates that merge without conflict are trained together
    leave one out  they are trained once more without each of them, which shows what each adds
                   from the best valid cell the search reads again, while its share of the budget
                   lasts; ideas that waited are tried one by one at its end; after two
                   generations without anything better it escalates (`escalate`)
    claim          the harness is compared with the start, on fresh seeds and unseen tasks
    train on       the rest of the budget trains the winner further, and a second claim compares
                   this version, harness and weights, with the start and its own weights
    promote        what is proven reaches `main`, one merge for each member
    vault          both versions attempt tasks by which nothing was chosen (`finish`)

Budgets, bundles, cells and leads are functions of what was measured. The ledger holds the
measurements, what authors and people answered, and what a reader needs to check a decision. So a
killed run comes to the same decisions again, and `verify` is this loop over a lab that only reads.

The search ends before the claim, because the claim is about one harness that is fixed beforehand.
A version is handed over only if it is valid by itself. The branch `lead` holds the version that the
search continues from; `main` does not move before the proof.

Not covered: other ways to search (`strategies`). They end in the same `hand_over`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from meta_agent.core.errors import BudgetError
from meta_agent.core.ledger.kinds import Commit
from meta_agent.core.loop.budget import allowed, cells_left, first_tree
from meta_agent.core.loop.diagnostics.tend import tend
from meta_agent.core.loop.escalate import escalated
from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.records import HandedOver, Read, Reading, SearchResult, Strategy, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_propose, to_test, to_train
from meta_agent.core.loop.verbs.bundle import (
    Mixes,
    Tip,
    choose_cell,
    conclude_dropped,
    conclude_untried,
    in_turn,
    measure_cells,
    next_tip,
    try_alone,
)
from meta_agent.core.loop.verbs.cells import assembled, leave_one_out
from meta_agent.core.loop.verbs.check import check
from meta_agent.core.loop.verbs.claim import Sides, prove_harness, prove_version
from meta_agent.core.loop.verbs.collect import collect, read
from meta_agent.core.loop.verbs.hand_over import (
    Proof,
    choose,
    hand_over_start,
    is_invalid,
    promote_proven,
    proves_harness,
    say_what_can_be_proven,
    weights_to_train_on,
)
from meta_agent.core.loop.verbs.promote import promote_diagnostics
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.train_on import train_on

Shows = Callable[[Reading], Reading]
"""Returns what a proposer may see of the evidence."""


def evolve(run: Run, strategy: Strategy) -> None:
    """Carries a run out: from the harness on `main` to what is handed over, and to the vault."""
    first = tend(run, first_version(run))
    run.ledger.event("plan", {"attempts": allowed(run)})
    finish(run, first, strategy.carry_out(run, first))


def first_version(run: Run) -> Version:
    """Returns the version that `main` held at the run's first start, and records it then."""
    start = run.once("start", "start", {}, lambda: Commit(commit=run.repo.head()))
    return Version("v0", start["commit"])


def search_and_prove(
    run: Run, first: Version, shows: Shows, mixes: Mixes = leave_one_out
) -> HandedOver:
    """Searches with a trained policy, proves what was found, and trains it further."""
    say_what_can_be_proven(run)
    return hand_over(run, first, search(run, first, shows, mixes))


# --- the search ----------------------------------------------------------------------------------


def search(
    run: Run, first: Version, shows: Shows = lambda reading: reading, mixes: Mixes = leave_one_out
) -> SearchResult:
    """Searches in generations within the search's share of the budget.

    The version returned is not proven.
    """
    tip, reads = Tip(first), dict[int, Read]()
    try:
        for generation in range(run.config.generations):
            tip = _generation(run, tip, generation, (shows, mixes), reads)
            tip = escalated(run, tip, generation, reads)
            if tip.ended:
                break
        for idea in tip.waiting:
            tip = try_alone(run, first, tip, idea, reads)
    except BudgetError as reached:
        if run.config.budget is None:
            raise
        run.note(f"the search ends: {reached}")
    conclude_untried(run, tip, reads)
    return SearchResult(tip.version, tip.members, reads)


def _generation(
    run: Run, tip: Tip, generation: int, ways: tuple[Shows, Mixes], reads: dict[int, Read]
) -> Tip:
    """Reads a version, tries one bundle of edits of it, and returns where the search continues."""
    shows, mixes = ways
    if generation and not _room(run, tip.version, generation, beside=run.plan.search):
        return tip._replace(ended=True)
    collected = collect(run, tip.version)
    reading = read(run, collected, generation, tip.evidence)
    reads[generation] = Read(collected, reading)
    to_propose(run, generation)
    if not _room(run, tip.version, generation):
        return tip._replace(ended=True)

    proposed = propose(run, collected, shows(reading), generation)
    again = partial(revise, run, collected, shows(reading))
    approved = to_test(run, collected, reading, proposed, again)
    checked = check(run, collected, generation, approved)
    checked.ideas[:] = to_train(run, collected, reading, checked.ideas)

    # A bundle has room for as many members as the budget can train without one of them each.
    ideas, room = in_turn(run, tip.waiting, checked.ideas), _room(run, tip.version, generation)
    most = min(run.config.candidates, room, max(1, room - 1))
    members, waiting = assembled(run, tip.version.commit, ideas, most)
    cells = measure_cells(run, collected, generation, members, mixes)
    chosen = choose_cell(run, collected, f"g{generation}/bundle", generation, cells)
    conclude_dropped(run, reads[generation], checked, cells, chosen)
    return next_tip(
        run, tip, generation, reads[generation], chosen, checked.admitted, waiting, tried=cells
    )


def _room(run: Run, version: Version, generation: int, beside: int = 0) -> int:
    """Returns how many trainings the search can still pay for, beside `beside` other attempts."""
    room = cells_left(run, run.repo.tree(version.commit), beside, later=generation > 0)
    if not room:
        run.note("the search's share of the budget pays for no further bundle")
    return room


# --- claim, train on, promote --------------------------------------------------------------------


def hand_over(run: Run, first: Version, search_result: SearchResult) -> HandedOver:
    """Tests the version found by a search against the first version, and trains the winner further.

    Returns the harness and weights that the run ends with.
    """
    sides, steps = Sides(first, search_result.version), run.plan.steps
    start = run.lab.train(first_tree(run), seed=0, steps=steps)
    if not search_result.acting:
        watched = promote_diagnostics(run, first, search_result)
        trained = train_on(run, first, start)
        return HandedOver(watched, trained, "start", "nothing that was tried did better on search")

    harness = prove_harness(run, sides) if proves_harness(run) else None
    if harness and is_invalid(harness):
        return hand_over_start(run, first, train_on(run, first, start), search_result, harness)

    basis = weights_to_train_on(run, search_result.version, harness)
    reserved = 2 * (run.plan.confirm + run.plan.search)  # the claim about the version, attribution
    weights = train_on(run, search_result.version, basis, reserved=reserved)
    version = prove_version(run, sides, (start, weights))
    if is_invalid(version):
        if harness is None or harness.arms is None:
            return hand_over_start(run, first, start, search_result, version)
        run.note(f"the trained version is INVALID: {version.verdict.reasons[0]}. It is left out")
        weights = basis

    proof = Proof(harness, version)
    of_search = run.lab.train(run.repo.tree(search_result.version.commit), seed=0, steps=steps)
    reaches_main = promote_proven(run, first, search_result, proof, (start, of_search))
    return choose(run, first, start, search_result, weights, proof, proven=reaches_main)
