"""`full`: search, prove once, train to the end, hand over the best.

    found   = search      read twice, bundle, leave one out, go on from the best valid cell
    proof   = claim       this harness against the start, over training seeds
    weights = train on    from the proof seed that is best on search, with all that is left
    claim                 this version (harness with these weights) against the start with its own
    hand over             `main` is what is proven, `lead` what is estimated best; both have weights

What is handed over must be valid by itself: an edit that wins only inside an invalid bundle never
is. What a search leaves unproven is said in the first line, with what a proof would take.
"""

from __future__ import annotations

from typing import NamedTuple

from meta_agent.core.lab.live import Trained
from meta_agent.core.loop.budget import (
    SEARCH_SHARE,
    allowed,
    cap_for,
    claim_pairs,
    first_tree,
    one_pair,
    pays_for,
)
from meta_agent.core.loop.plan import MIN_PAIRS
from meta_agent.core.loop.records import Found, HandedOver, Judged, Reading, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_merge
from meta_agent.core.loop.verbs.claim import Sides, examine, prove_harness, prove_version
from meta_agent.core.loop.verbs.members import conclude_claim, conclude_members
from meta_agent.core.loop.verbs.promote import promote, promote_watching
from meta_agent.core.loop.verbs.train_on import best_of, on_search, train_on
from meta_agent.core.protocols import JSON, VerdictKind
from meta_agent.strategies.race import race
from meta_agent.strategies.search import search


class Proof(NamedTuple):
    """Both claims about what was found; `harness` is None where it was not made."""

    harness: Judged | None
    version: Judged
    trains: bool = True

    @property
    def teaches(self) -> bool:
        """Whether more than one training says so; of a frozen policy there is none."""
        judged = self.harness if self.trains else self.version
        return judged is not None and judged.verdict.kind is VerdictKind.PROMOTE

    def decides(self, kind: str) -> Judged | None:
        """The claim that moves `main`."""
        return self.harness if kind == "harness" else self.version


class Full:
    """The loop with everything."""

    def shows(self, reading: Reading) -> Reading:
        """What a proposer may see of the evidence."""
        return reading

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        if run.plan.race:
            return examined(run, first, race(run, first, self.shows))
        say_what_can_be_proven(run)
        found = search(run, first, self.shows)
        return hand_over(run, first, found)


def hand_over(run: Run, first: Version, found: Found) -> HandedOver:
    """Proves what a search found, trains it on, and says what it is."""
    sides = Sides(first, found.version)
    start = run.lab.train(first_tree(run), seed=0, steps=run.plan.steps)
    if not found.acting:
        watched = promote_watching(run, first, found)
        trained = train_on(run, first, start)
        return HandedOver(watched, trained, "start", "nothing that was tried did better on search")
    harness = prove_harness(run, sides) if _proves_harness(run) else None
    if harness and _is_invalid(harness):
        return _invalid(run, first, train_on(run, first, start), found, harness)
    basis = _basis(run, found.version, harness)
    after = 2 * (run.plan.confirm + run.plan.search)  # the claim about the version, attribution
    weights = train_on(run, found.version, basis, reserved=after)
    version = prove_version(run, sides, (start, weights))
    if _is_invalid(version):
        if harness is None or harness.arms is None:
            return _invalid(run, first, start, found, version)
        run.note(f"what was trained on is INVALID: {version.verdict.reasons[0]}; it is left out")
        weights = basis
    proof = Proof(harness, version)
    proven = _promoted(run, first, found, proof)
    return _chosen(run, first, start, found, weights, proof, proven)


def examined(run: Run, first: Version, found: Found) -> HandedOver:
    """What a race found, after its one exam; a frozen policy's weights are whose they are."""
    weights = run.lab.untrained()
    if not found.acting:
        watched = promote_watching(run, first, found)
        return HandedOver(watched, weights, "start", "no edit was accepted")
    version = examine(run, Sides(first, found.version))
    if _is_invalid(version):
        return _invalid(run, first, weights, found, version)
    proof = Proof(None, version, trains=False)
    proven = _promoted(run, first, found, proof)
    return _chosen(run, first, weights, found, weights, proof, proven)


def prove(run: Run) -> str:
    """Which claim moves `main`: where a training is dear, the one that needs none."""
    return run.config.prove or ("harness" if run.config.policy == "nano" else "version")


def _proves_harness(run: Run) -> bool:
    return prove(run) == "harness" and claim_pairs(run.plan, allowed(run), first_tree(run)) > 0


def _is_invalid(judged: Judged) -> bool:
    return judged.verdict.kind is VerdictKind.INVALID


def _basis(run: Run, version: Version, harness: Judged | None) -> Trained:
    """The weights to go on from: those of the proof seed that is best on search, or of seed 0."""
    tree, lab, plan = run.repo.tree(version.commit), run.lab, run.plan
    seeds = sorted(harness.arms[1].shards) if harness and harness.arms else []
    price = len(seeds) * plan.search + 2 * plan.confirm
    if not seeds or not pays_for(run, "claim/basis", attempts=price):
        return lab.train(tree, seed=0, steps=plan.steps)
    made = [lab.train(tree, seed=seed, steps=plan.steps) for seed in seeds]
    return best_of([on_search(run, tree, trained) for trained in made]).trained


def _promoted(run: Run, first: Version, found: Found, proof: Proof) -> bool:
    """Brings what is proven to `main`, unless a person declines; what only watches comes anyway."""
    decided, kept, parts = proof.decides(prove(run)), False, None
    if decided and decided.verdict.kind is VerdictKind.PROMOTE:
        last = found.last
        kept = last is None or to_merge(run, last, decided.verdict)
    if kept and decided:
        parts = promote(run, first, found, decided)
    else:
        promote_watching(run, first, found)
    conclude_members(run, first, found, decided, skills=proof.teaches)
    conclude_claim(run, found, decided or proof.version, parts)
    return kept


def _invalid(
    run: Run, first: Version, trained: Trained, found: Found, judged: Judged
) -> HandedOver:
    conclude_members(run, first, found, judged, skills=False)
    conclude_claim(run, found, judged)
    watched = promote_watching(run, first, found)
    give_up_lead(run, first)
    words = f"what scored best is INVALID and not handed over: {judged.verdict.reasons[0]}"
    return HandedOver(watched, trained, "start", words)


def _chosen(
    run: Run,
    first: Version,
    start: Trained,
    found: Found,
    weights: Trained,
    proof: Proof,
    proven: bool,
) -> HandedOver:
    if proven:
        run.repo.drop_lead()
        return HandedOver(found.version, weights, "proven", _proven_words(run, proof))
    best = proof.harness if proof.harness and proof.harness.verdict.effect else proof.version
    seen = best.verdict.effect
    worse = seen is not None and seen.delta <= 0
    main = Version(first.id, run.repo.head())  # the start, with what only watches
    told = _estimate(best) + _missing(run, proof)
    if worse:
        give_up_lead(run, first)
        return HandedOver(main, start, "start", f"what was found is no better: {told}")
    if run.config.hand_over == "proven":
        words = f"the start, though the lead is estimated better and unproven: {told}"
        return HandedOver(main, start, "start", words)
    return HandedOver(found.version, weights, "unproven", told)


def give_up_lead(run: Run, first: Version) -> None:
    """What is no better, or INVALID, is no lead any more; its candidates keep their refs."""
    told: JSON = {"candidate": None, "generation": run.config.generations, "members": []}
    run.once("handover/lead", "lead", {"main": first.commit}, lambda: told)
    run.repo.drop_lead()


def _proven_words(run: Run, proof: Proof) -> str:
    about = "this harness, over training seeds" if prove(run) == "harness" else "this version"
    decided = proof.decides(prove(run))
    assert decided is not None
    return f"{about}: {_estimate(decided)}"


def _estimate(judged: Judged) -> str:
    seen = judged.verdict.effect
    if seen is None:
        return judged.verdict.reasons[0]
    low, high = 100 * seen.ci_low, 100 * seen.ci_high
    return f"{100 * seen.delta:+.1f} points [{low:+.1f}, {high:+.1f}] over the start{seen.selected}"


def _missing(run: Run, proof: Proof) -> str:
    """What it would take to prove it: another run, since a budget is part of what a run is.

    Its search has another share then, so it may find something else; this run's claim is spent.
    """
    if prove(run) == "version":
        return ""
    done = len(proof.harness.arms[1].shards) if proof.harness and proof.harness.arms else 0
    pairs = done + 2 if done else MIN_PAIRS
    if pairs > run.plan.looks[-1]:
        return f"; {done} of at most {run.plan.looks[-1]} pairs did not prove it"
    cap = cap_for(run.plan, first_tree(run), pairs)
    return f"; {pairs} pairs may prove it: --budget {cap} begins a new run that holds them"


def say_what_can_be_proven(run: Run) -> None:
    """Beforehand: whether the budget holds a claim over training seeds, and what that takes."""
    if prove(run) != "harness":
        return
    cap, tree = allowed(run), first_tree(run)
    if pairs := claim_pairs(run.plan, cap, tree):
        run.note(f"of {cap:,} attempts {pairs} pairs of trainings may prove what is found")
        return
    least: JSON = MIN_PAIRS * one_pair(run.plan, tree)
    run.note(
        f"the budget of {cap:,} attempts cannot prove a harness: that takes {least:,} of its "
        f"{cap - int(SEARCH_SHARE * cap):,} beside the search; this version alone is judged"
    )
