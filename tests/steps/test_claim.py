"""One claim of either kind, at the whole alpha: what it takes, moves and hands over."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from meta_agent.core.display import PersonReply
from meta_agent.core.lab.live import Trained
from meta_agent.core.loop.budget import allowed, cap_for, claim_pairs, first_tree, spent
from meta_agent.core.loop.records import HandedOver
from meta_agent.core.protocols import HarnessTree
from tests.steps._again import gone_through_again
from tests.steps._approval import decided, gates
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, found_with, handed_over, marks, outcomes, prepare

REWARD, DATA = Idea("reward", "reward"), Idea("data", "data")


def by_seed(bench: Bench, gain: float, luck: float = 0.0) -> None:
    """Each mark is worth so much, and each training of a seed has its own luck."""

    def acts(tree: HarnessTree, trained: Trained) -> float:
        swing = luck * (-1) ** trained.seed if marks(tree) else 0.0
        return 0.4 + gain * len(marks(tree)) + swing

    bench.lab.acts = acts


def claim(bench: Bench) -> HandedOver:
    return handed_over(bench, found_with(bench, REWARD, DATA))


def claimed(bench: Bench) -> HandedOver:
    """Claims. Nothing is trained twice, and no claim goes beyond the cap."""
    handed = claim(bench)
    assert len(bench.lab.made) == len(set(bench.lab.made))
    assert spent(bench.run.ledger, "r") <= allowed(bench.run)
    return handed


def claims(bench: Bench, kind: str) -> list[dict[str, Any]]:
    return [told for told in outcomes(bench, "live") if told["claim"] == kind]


def seeds_trained(bench: Bench) -> set[int]:
    return {step.intent["seed"] for step in bench.run.ledger.steps("r", kind="train")}


def test_a_large_gain_is_proven_with_three_pairs_at_the_whole_alpha(bench: Bench) -> None:
    """`main` gets one merge a member, and every commit its note."""
    prepare(bench)
    by_seed(bench, 0.15, luck=0.01)
    start = bench.repo.head()
    handed = claimed(bench)
    (told,) = claims(bench, "harness")
    assert told["verdict"]["kind"] == "PROMOTE" and told["seeds"] == 3
    assert told["verdict"]["evidence"]["numbers"]["alpha"] == bench.run.plan.alpha
    assert set(told["arms"][1]["shards"]) == {"1", "2", "3"}, "no seed that a search has seen"
    assert (handed.standing, bench.repo.head()) == ("proven", handed.version.commit)
    (version,) = claims(bench, "version")
    assert version["verdict"]["kind"] == "PROMOTE"
    log = {entry.commit: entry for entry in bench.repo.log(20)}
    head, chain = handed.version.commit, []
    while head != start:
        assert len(log[head].parents) == 2, "--no-ff"
        chain.append(log[head].subject)
        head = log[head].parents[0]
    assert chain == ["merge(reward): r/g0/c1", "merge(data): r/g0/c0"]
    members = [member["commit"] for member in outcomes(bench, "candidate")]
    notes = [log[commit].note or "" for commit in (handed.version.commit, *members)]
    assert len(notes) == 3 and all("Verdict: PROMOTE" in note for note in notes)
    again = gone_through_again(bench, claim)
    assert again.differences == []
    assert {told["kind"] for told in again.verdicts.values()} == {"PROMOTE"}
    require_that_what_is_written_over_is_named(bench)


def require_that_what_is_written_over_is_named(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.run.ledger._journal.path)) as db, db:
        for where in ("$.effect.delta", "$.evidence.inputs.alpha", "$.arms[1].planned"):
            db.execute(
                "UPDATE steps SET outcome = json_set(outcome, ?, 0.44)"
                " WHERE key = 'r/claim/verdict'",
                (where,),
            )
    again = gone_through_again(bench, claim)
    assert {
        "claim/verdict.effect.delta",
        "claim/verdict.evidence.inputs.alpha",
        "claim/verdict.arms",
        "the journal's chain",
    } <= {one.what for one in again.differences}


def test_a_gain_within_the_luck_of_training_is_not_proven_and_handed_over_as_such(
    bench: Bench,
) -> None:
    prepare(bench, trainings=60)
    by_seed(bench, 0.03, luck=0.1)
    start = bench.repo.head()
    handed = claimed(bench)
    assert handed.standing == "unproven" and bench.repo.head() == start
    assert handed.trained is not None and handed.trained.policy
    assert bench.repo.tip("refs/heads/lead") == handed.version.commit
    looks = [told["seeds"] for told in claims(bench, "harness")]
    assert looks == list(range(3, looks[-1] + 1))
    kinds = {told["kind"] for told in outcomes(bench, "verdict")}
    assert kinds == {"INCONCLUSIVE"} and not bench.run.skills.all()


def test_a_version_is_proven_without_a_training(bench: Bench) -> None:
    prepare(bench, prove="version")
    by_seed(bench, 0.15)
    handed = claimed(bench)
    assert handed.standing == "proven" and bench.repo.head() == handed.version.commit
    assert not claims(bench, "harness") and not seeds_trained(bench) & set(range(1, 100))
    assert not bench.run.skills.all(), "a skill needs the harness to be proven"
    assert gone_through_again(bench, claim).differences == []


def test_what_is_worse_is_never_handed_over(bench: Bench) -> None:
    prepare(bench)
    by_seed(bench, -0.1)
    handed = claimed(bench)
    assert handed.standing == "start"


def test_a_seed_that_collapses_costs_the_proof_and_not_the_policy(bench: Bench) -> None:
    prepare(bench)

    def acts(tree: HarnessTree, trained: Trained) -> float:
        return 0.0 if trained.seed == 2 and marks(tree) else 0.4 + 0.15 * len(marks(tree))

    bench.lab.acts = acts
    handed = claimed(bench)
    assert handed.standing == "unproven"
    assert handed.trained is not None and handed.trained.seed != 2


# --- further pairs -------------------------------------------------------------------------------


def with_a_weak_seed(bench: Bench) -> None:
    """All pairs are better, one of them hardly: five do not prove it, six do."""
    small, large = 0.03, 0.6

    def acts(tree: HarnessTree, trained: Trained) -> float:
        return 0.1 + ((small if trained.seed == 2 else large) if marks(tree) else 0.0)

    bench.lab.acts = acts


FIVE_PAIRS = 29  # trainings, whose claim's share of the budget pays for five pairs


def test_a_claim_that_has_come_near_buys_further_pairs(bench: Bench) -> None:
    prepare(bench, trainings=FIVE_PAIRS)
    with_a_weak_seed(bench)
    handed = claimed(bench)
    looks = claims(bench, "harness")
    assert [look["seeds"] for look in looks] == [3, 4, 5, 6]
    numbers = [look["verdict"]["evidence"]["numbers"] for look in looks]
    assert numbers[2]["bar"] / 4 < numbers[2]["wealth"] < numbers[2]["bar"] < numbers[3]["wealth"]
    assert handed.standing == "proven"
    again = gone_through_again(bench, claim)
    assert again.differences == []


def test_a_claim_that_is_far_from_its_bar_buys_none(bench: Bench) -> None:
    """The start is handed over where only what is proven may be."""
    prepare(bench, trainings=FIVE_PAIRS, hand_over="proven")
    by_seed(bench, 0.03, luck=0.1)
    handed = claimed(bench)
    assert (handed.standing, handed.version.id) == ("start", "v0")
    looks = claims(bench, "harness")
    assert [look["seeds"] for look in looks] == [3, 4, 5]
    assert looks[-1]["verdict"]["reasons"][-1] == "no look is left"


# --- validity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prove", ["harness", "version"])
def test_what_leaks_is_never_handed_over(bench: Bench, prove: str) -> None:
    prepare(bench, prove=prove)
    by_seed(bench, 0.2)
    bench.lab.leaks = lambda tree, *_: bool(marks(tree))
    start = bench.repo.head()
    handed = claimed(bench)
    assert handed.standing == "start" and handed.version.commit == bench.repo.head() == start
    kinds = {told["candidate"]: told["kind"] for told in outcomes(bench, "verdict")}
    assert kinds == {"r/claim": "INVALID", "r/g0/c0": "INCONCLUSIVE", "r/g0/c1": "INCONCLUSIVE"}


def leaks_when_trained_on(bench: Bench) -> None:
    """On the confirm split alone, so that no checkpoint is dropped for it on search."""
    bench.lab.leaks = lambda tree, trained, split: (
        bool(marks(tree)) and trained.steps > 2 and split == "confirm"
    )
    bench.lab.acts = lambda tree, trained: (
        0.4 + 0.15 * len(marks(tree)) + (0.1 if trained.steps > 2 else 0.0)
    )


def test_weights_that_learned_to_leak_are_left_out(bench: Bench) -> None:
    """The harness is proven; what more training made of it is not what was proven."""
    prepare(bench)
    leaks_when_trained_on(bench)
    handed = claimed(bench)
    assert claims(bench, "version")[0]["verdict"]["kind"] == "INVALID"
    assert handed.standing == "proven"
    assert handed.trained is not None and handed.trained.steps == 2


def test_where_only_the_version_is_claimed_leaking_weights_end_it(bench: Bench) -> None:
    prepare(bench, prove="version")
    leaks_when_trained_on(bench)
    start = bench.repo.head()
    handed = claimed(bench)
    assert handed.standing == "start" and bench.repo.head() == start


# --- budget --------------------------------------------------------------------------------------


def test_a_budget_too_small_for_a_proof_names_one_that_is_not(bench: Bench) -> None:
    prepare(bench, trainings=7)
    by_seed(bench, 0.2)
    start = bench.repo.head()
    handed = claimed(bench)
    assert handed.standing == "unproven" and bench.repo.head() == start
    assert not claims(bench, "harness") and claims(bench, "version")
    cap = cap_for(bench.run.plan, first_tree(bench.run), 3)
    assert f"--budget {cap} " in handed.words


@pytest.mark.parametrize("pairs", [3, 4, 8])
def test_the_budget_that_is_named_is_the_least_that_holds_the_pairs(
    bench: Bench, pairs: int
) -> None:
    prepare(bench)
    plan, tree = bench.run.plan, first_tree(bench.run)
    cap = cap_for(plan, tree, pairs)
    assert claim_pairs(plan, cap, tree) >= pairs > claim_pairs(plan, cap - 1, tree)


@pytest.mark.parametrize("trainings", [8, 13])
def test_the_claim_about_the_version_is_made_in_every_run(bench: Bench, trainings: int) -> None:
    prepare(bench, trainings=trainings)
    by_seed(bench, 0.02, luck=0.1)
    claimed(bench)
    pairs = claim_pairs(bench.run.plan, allowed(bench.run), first_tree(bench.run))
    assert (len(claims(bench, "harness")) > 0) is (pairs > 0)
    assert len(claims(bench, "version")) == 1


# --- people --------------------------------------------------------------------------------------


def test_a_person_may_decline_what_is_proven(bench: Bench) -> None:
    prepare(bench)
    by_seed(bench, 0.15)
    found = found_with(bench, REWARD, DATA)
    gates(bench, "merge")
    start = bench.repo.head()
    handed = decided(bench, lambda: handed_over(bench, found), PersonReply("REVISE", "not now"))
    assert bench.repo.head() == start and handed.standing == "unproven"
