"""What a run hands over, by the verdicts of its claims, and what it says about the proof.

A version is handed over only if it is valid by itself. What is proven reaches `main`. What is not
proven but estimated better stays on `lead`, and the words say what a proof would take.
"""

from __future__ import annotations

from typing import NamedTuple

from meta_agent.core.gate import NEAR
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
from meta_agent.core.loop.records import HandedOver, Judged, SearchResult, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_merge
from meta_agent.core.loop.verbs.members import conclude_claim, conclude_members
from meta_agent.core.loop.verbs.promote import promote, promote_diagnostics
from meta_agent.core.loop.verbs.train_on import best_of, on_search
from meta_agent.core.protocols import JSON, VerdictKind


class Proof(NamedTuple):
    """The verdicts of final tests: on the harness (None if not tested) and on the version."""

    harness: Judged | None
    version: Judged
    trains: bool = True

    @property
    def teaches(self) -> bool:
        """Returns True if skills are due: the harness, or a frozen policy's version, is proven."""
        judged = self.harness if self.trains else self.version
        return judged is not None and judged.verdict.kind is VerdictKind.PROMOTE

    def decides(self, kind: str) -> Judged | None:
        """Returns the verdict on "harness" (None if not tested) or "version", as `kind` says."""
        return self.harness if kind == "harness" else self.version


def hand_over_version(
    run: Run,
    first: Version,
    search_result: SearchResult,
    weights: tuple[Trained, Trained],
    version: Judged,
) -> HandedOver:
    """Hands over what the verdict on the version found leads to, where only that was tested.

    `weights` are those of the first version and of the version found.
    """
    if is_invalid(version):
        return hand_over_start(run, first, weights[0], search_result, version)
    proof = Proof(None, version, trains=False)
    proven = promote_proven(run, first, search_result, proof, weights)
    return choose(run, first, weights[0], search_result, weights[1], proof, proven=proven)


def deciding_claim(run: Run) -> str:
    """Returns which final test decides what is merged into `main`: "harness" or "version".

    The first tests the harness over pairs of trainings, the second the version with its weights.
    """
    trains_in_seconds = run.config.policy == "nano" and not run.plan.leg
    return run.config.prove or ("harness" if trains_in_seconds else "version")


def proves_harness(run: Run) -> bool:
    """Returns True if a claim over training seeds is due, and the budget pays for its pairs."""
    return (
        deciding_claim(run) == "harness"
        and claim_pairs(run.plan, allowed(run), first_tree(run)) > 0
    )


def is_invalid(judged: Judged) -> bool:
    """Returns True if a claim found the new version INVALID."""
    return judged.verdict.kind is VerdictKind.INVALID


def weights_to_train_on(run: Run, version: Version, harness: Judged | None) -> Trained:
    """Returns the weights to train on: of the proof seed that is best on search, or of seed 0."""
    tree, lab, plan = run.repo.tree(version.commit), run.lab, run.plan
    seeds = sorted(harness.arms[1].shards) if harness and harness.arms else []
    price = len(seeds) * plan.search + 2 * plan.confirm
    if not seeds or not pays_for(run, "claim/basis", price):
        return lab.train(tree, seed=0, steps=plan.steps)
    trainings = [lab.train(tree, seed=seed, steps=plan.steps) for seed in seeds]
    return best_of([on_search(run, tree, trained) for trained in trainings]).trained


def promote_proven(
    run: Run,
    first: Version,
    search_result: SearchResult,
    proof: Proof,
    weights: tuple[Trained, Trained],
) -> bool:
    """Merges proven edits into `main` unless a person declines. Diagnostics are merged anyway.

    Returns True if the proven edits reach `main`, or if only `weights` are proven, the first
    version's and the new one's.
    """
    claim, reaches_main, parts = proof.decides(deciding_claim(run)), False, None
    if claim and claim.verdict.kind is VerdictKind.PROMOTE:
        last = search_result.last
        reaches_main = last is None or to_merge(run, last, claim.verdict)
    if reaches_main and claim and search_result.candidates:
        parts = promote(run, first, search_result, claim, weights)
    elif not reaches_main:
        promote_diagnostics(run, first, search_result)
    conclude_members(run, first, search_result, claim, skills=proof.teaches)
    conclude_claim(run, search_result, claim or proof.version, parts)
    return reaches_main


def hand_over_start(
    run: Run, first: Version, trained: Trained, search_result: SearchResult, judged: Judged
) -> HandedOver:
    """Hands over the first version with the weights `trained`; what was found is INVALID."""
    conclude_members(run, first, search_result, judged, skills=False)
    conclude_claim(run, search_result, judged)
    watched = promote_diagnostics(run, first, search_result)
    give_up_lead(run, first)
    words = f"what scored best is INVALID and not handed over: {judged.verdict.reasons[0]}"
    return HandedOver(watched, trained, "start", words)


def choose(
    run: Run,
    first: Version,
    start: Trained,
    search_result: SearchResult,
    weights: Trained,
    proof: Proof,
    *,
    proven: bool,
) -> HandedOver:
    """Returns what the run ends with: the version found if it is proven or estimated better.

    `start` and `weights` are those of the first version and of the one found.
    """
    if proven:
        run.repo.drop_lead()
        return HandedOver(search_result.version, weights, "proven", _proven_words(run, proof))
    best = proof.harness if proof.harness and proof.harness.verdict.effect else proof.version
    effect = best.verdict.effect
    is_worse = effect is not None and effect.delta <= 0
    main = Version(first.id, run.repo.head())  # the start, with its diagnostics
    estimate = _estimate(best) + _missing(run, proof)
    if is_worse:
        give_up_lead(run, first)
        return HandedOver(main, start, "start", f"what was found is no better: {estimate}")
    if run.config.hand_over == "proven":
        words = f"the start, though the lead is estimated better and unproven: {estimate}"
        return HandedOver(main, start, "start", words)
    return HandedOver(search_result.version, weights, "unproven", estimate)


def give_up_lead(run: Run, first: Version) -> None:
    """Deletes the branch `lead`, whose edits are INVALID or no better than the first version."""
    record: JSON = {"candidate": None, "generation": run.config.generations, "members": []}
    run.once("handover/lead", "lead", {"main": first.commit}, lambda: record)
    run.repo.drop_lead()


def _proven_words(run: Run, proof: Proof) -> str:
    about = (
        "this harness, over training seeds" if deciding_claim(run) == "harness" else "this version"
    )
    decided = proof.decides(deciding_claim(run))
    assert decided is not None
    return f"{about}: {_estimate(decided)}"


def _estimate(judged: Judged) -> str:
    effect = judged.verdict.effect
    if effect is None:
        return judged.verdict.reasons[0]
    low, high = 100 * effect.ci_low, 100 * effect.ci_high
    points = f"{100 * effect.delta:+.1f} points [{low:+.1f}, {high:+.1f}]"
    return f"{points} over the start{effect.selected}"


def _missing(run: Run, proof: Proof) -> str:
    """Returns what a proof would take, in words; empty if the version was to be proven.

    It takes a new run, because the budget is part of a run and this run's claim is spent.
    The search of the new run has another share of the budget, so it may find something else.
    """
    if deciding_claim(run) == "version":
        return ""
    done = len(proof.harness.arms[1].shards) if proof.harness and proof.harness.arms else 0
    pairs = done + 2 if done else MIN_PAIRS
    if pairs > run.plan.looks[-1]:
        return f"; {done} of at most {run.plan.looks[-1]} pairs did not prove it"
    cap = cap_for(run.plan, first_tree(run), pairs)
    return f"; {pairs} pairs may prove it: --budget {cap} begins a new run that holds them"


def _further_words(run: Run, pairs: int) -> str:
    """Returns what a claim that has come near may buy, in words; empty if it ends there."""
    most, price = run.plan.looks[-1], one_pair(run.plan, first_tree(run))
    if most <= pairs:
        return ""
    return (
        f"; with {NEAR:.0%} of the evidence that it needs, the claim buys up to {most - pairs} "
        f"more at {price:,} attempts each, of what would train on"
    )


def say_what_can_be_proven(run: Run) -> None:
    """Tells the user how many pairs of trainings the budget buys to prove a harness, or none."""
    if deciding_claim(run) != "harness":
        return
    cap, tree = allowed(run), first_tree(run)
    if pairs := claim_pairs(run.plan, cap, tree):
        words = f"the budget of {cap:,} attempts pays for {pairs} pairs of trainings as proof"
        run.note(words + _further_words(run, pairs))
        return
    least: JSON = MIN_PAIRS * one_pair(run.plan, tree)
    run.note(
        f"the budget of {cap:,} attempts cannot prove a harness: the claim takes {least:,}, and "
        f"{cap - int(SEARCH_SHARE * cap):,} are left beside the search. Only this version is judged"
    )
