"""Bundles: repairs that mask each other are found, what harms is dropped, the best goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_agent.core.errors import BudgetError
from meta_agent.core.loop.budget import claim_pairs, one_cell, one_pair, search_cap
from meta_agent.core.loop.verbs._briefing import past
from tests.steps._bench import Bench
from tests.steps._ideas import (
    Idea,
    Marks,
    Score,
    having,
    in_it,
    marks,
    outcomes,
    prepare,
    searched,
    solving,
)

REWARD, DATA, FILTER = Idea("reward", "reward"), Idea("data", "data"), Idea("filter", "filter")
AGENT = Idea("agent", "scaffold")


def table(otherwise: float, **shares: float) -> Score:
    """Shares by the marks of a harness, as `a_b`."""
    known = {frozenset(names.split("_")): share for names, share in shares.items()}
    return lambda found: known.get(found, otherwise)


def verdicts(bench: Bench) -> dict[str, tuple[str, str]]:
    """By candidate, its kind and its first reason."""
    return {
        told["candidate"].removeprefix("r/"): (told["kind"], told["reasons"][0])
        for told in outcomes(bench, "verdict")
    }


def cells(bench: Bench) -> dict[str, float]:
    return {f"g{told['generation']} {told['name']}": told["clean_success"]
            for told in outcomes(bench, "cell")}  # fmt: skip


def test_repairs_that_mask_each_other_are_found_together(bench: Bench) -> None:
    """Each alone does nothing or harm, two of them nothing, all three together +60 points."""
    prepare(bench)
    having(bench, REWARD, DATA, FILTER)
    solving(bench, table(0.2, filter=0.05, reward_data_filter=0.8))
    found = searched(bench)
    assert in_it(bench, found) == {"reward", "data", "filter"}
    assert [one.removeprefix("r/") for one in found.members] == ["g0/c0", "g0/c1", "g0/c2"]
    assert bench.repo.tip("refs/heads/lead") == found.version.commit
    assert bench.repo.head() != found.version.commit, "main waits for the proof"
    bundle = outcomes(bench, "bundle")[0]
    assert bundle["chosen"] == "all"
    assert {round(share["delta"], 2) for share in bundle["shares"]} == {0.6}
    assert all(
        0 < share["ci_low"] < share["delta"] < share["ci_high"] for share in bundle["shares"]
    )
    assert [share["alpha"] for share in bundle["shares"]] == [pytest.approx(0.05 / 6)] * 3


def test_two_that_harm_are_left_out_at_once_and_later_authors_hear_of_it(bench: Bench) -> None:
    """The cell without both is in no leave-one-out: it is made of them."""
    prepare(bench)
    having(bench, REWARD, DATA, FILTER, AGENT)
    harm = {"filter": 0.2, "agent": 0.15}

    def score(found: Marks) -> float:
        gain = 0.15 * len(found & {"reward", "data"})
        return 0.4 + gain - sum(harm.get(name, 0.0) for name in found)

    solving(bench, score)
    found = searched(bench)
    assert in_it(bench, found) == {"reward", "data"}
    assert outcomes(bench, "bundle")[0]["chosen"].startswith("with ")
    kinds = {name: kind for name, (kind, _) in verdicts(bench).items()}
    assert set(kinds.values()) == {"REJECT"}, "the others have their verdicts at the end"
    briefed = {attempt.name: attempt for attempt in past(bench.run, found.version.commit)}
    kept = {name for name, attempt in briefed.items() if attempt.verdict == "KEPT"}
    assert len(kept) == 2 and kept | kinds.keys() == briefed.keys() and not kept & kinds.keys()
    deltas = [briefed[name].delta for name in kept]
    assert all(delta and round(delta[0], 2) == 0.15 for delta in deltas)


def test_a_bundle_that_fails_may_hold_a_cell_that_wins(bench: Bench) -> None:
    """A training that collapses is a cell that solves nothing."""
    prepare(bench)
    having(bench, REWARD, DATA)
    solving(bench, table(0.5, reward_data=0.0, reward=0.79, data=0.0))
    assert in_it(bench, searched(bench)) == {"reward"}
    assert outcomes(bench, "bundle")[0]["chosen"] == "without g0/c0"
    assert verdicts(bench)["g0/c0"][0] == "REJECT"


def test_where_neither_shows_anything_a_fraction_is_tried_and_nothing_twice(bench: Bench) -> None:
    """One of three is worth having, and any other beside it undoes it."""
    prepare(bench)
    having(bench, REWARD, DATA, FILTER)
    solving(bench, table(0.4, reward=0.6))
    assert in_it(bench, searched(bench)) == {"reward"}
    assert outcomes(bench, "bundle")[0]["chosen"] == "only g0/c2"
    assert len(bench.lab.made) == len(set(bench.lab.made)) == 8  # all subsets of three
    searched(bench)
    assert len(bench.lab.made) == 8


def test_where_nothing_helps_the_search_ends(bench: Bench) -> None:
    prepare(bench)
    having(bench, REWARD, DATA, Idea("late", "filter", after="reward"))
    solving(bench, lambda _: 0.5)
    found = searched(bench)
    assert not found.members and found.version.commit == bench.repo.head()
    assert [told["chosen"] for told in outcomes(bench, "bundle")] == [None, None]
    assert {kind for kind, _ in verdicts(bench).values()} == {"INCONCLUSIVE"}
    assert bench.repo.tip("refs/heads/lead") is None
    assert not outcomes(bench, "escalation"), "the second generation had no idea"


def test_it_goes_on_from_the_best_cell_and_reads_again(bench: Bench) -> None:
    """A version is read before its training and after it."""
    prepare(bench)
    asked = having(bench, REWARD, Idea("next", "data", after="reward"))
    bench.lab.acts = lambda tree, unit: 0.3 + 0.2 * len(marks(tree)) if unit.steps else 0.1
    found = searched(bench)
    assert in_it(bench, found) == {"reward", "next"}
    assert frozenset({"reward"}) in asked
    assert [one.generation for one in found.candidates] == [0, 1]
    assert found.read[1].collected.version.id == "v0+1"
    reading = found.read[0].reading
    assert found.read[0].collected.untrained is not None and reading.untrained is not None
    assert reading.untrained.metrics()["score.clean_success"] == pytest.approx(0.1)
    assert reading.evidence.metrics()["score.clean_success"] == pytest.approx(0.3)


# --- ideas that clash ----------------------------------------------------------------------------


def test_what_clashes_waits_and_comes_first_in_the_next_bundle(bench: Bench) -> None:
    """Both write the same lines; the first harms, so the second stands where it did."""
    prepare(bench)
    having(
        bench,
        Idea("bad", "reward", strength=0.9),
        Idea("good", "reward", strength=0.8),
        Idea("data", "data", strength=0.7),
        Idea("late", "filter", after="data"),
    )
    solving(bench, lambda found: 0.4 + 0.15 * len(found - {"bad"}) - 0.3 * ("bad" in found))
    found = searched(bench)
    assert in_it(bench, found) == {"good", "data", "late"}
    bundles = outcomes(bench, "bundle")
    assert bundles[0]["cells"][0] == "all" and bundles[0]["members"] == ["r/g0/c2"]
    assert bundles[1]["members"][0] in ("r/g0/c1", "r/g1/c0"), "it comes first"


def test_what_waits_is_tried_although_the_bundle_failed(bench: Bench) -> None:
    prepare(bench)
    having(bench, Idea("bad", "reward", strength=0.9), Idea("good", "reward", strength=0.8))
    solving(bench, lambda found: 0.4 + 0.3 * ("good" in found) - 0.2 * ("bad" in found))
    assert in_it(bench, searched(bench)) == {"good"}


def test_what_waits_is_had_again_where_it_no_longer_merges(bench: Bench) -> None:
    """Its clash stays in, so only an edit written on top of it fits."""
    prepare(bench)
    having(bench, Idea("one", "reward", strength=0.9), Idea("two", "reward", strength=0.8))
    solving(bench, lambda found: 0.3 + 0.2 * len(found))
    found = searched(bench)
    assert in_it(bench, found) == {"one", "two"}
    assert [one.removeprefix("r/") for one in found.members] == ["g0/c0", "g1/c0"]


# --- ideas that are left over --------------------------------------------------------------------


def test_what_does_no_better_in_the_place_of_another_or_leaks_leaves_it_there(bench: Bench) -> None:
    prepare(bench, generations=1)
    names = ("down", "up", "leaky")
    having(bench, *(Idea(name, "reward", strength=0.9 - at / 10) for at, name in enumerate(names)))
    solving(bench, lambda found: 0.2 + 0.3 * ("down" in found) + 0.5 * ("leaky" in found))
    bench.lab.leaks = lambda tree, *_: "leaky" in marks(tree)
    assert in_it(bench, searched(bench)) == {"down"}
    kind, reason = verdicts(bench)["g0/c1"]
    assert kind == "INCONCLUSIVE" and "g0/c1 for g0/c0, -30.0 points" in reason
    assert verdicts(bench)["g0/c2"][0] == "INVALID"


def test_an_idea_beyond_the_room_of_its_bundle_has_a_cell_of_its_own(bench: Bench) -> None:
    """Room for one; the strongest idea harms, the weakest is the repair."""
    prepare(bench, trainings=10, generations=1)
    bench.run.plan = replace(bench.run.plan, looks=(3,))
    having(
        bench,
        Idea("harms", "filter", strength=0.9),
        Idea("nothing", "data", strength=0.8),
        Idea("repair", "reward", strength=0.1),
    )
    solving(bench, lambda found: 0.3 + 0.3 * ("repair" in found) - 0.1 * ("harms" in found))
    assert in_it(bench, searched(bench)) == {"repair"}
    names = [cell["name"] for cell in outcomes(bench, "cell")]
    assert names[-1] == "plus g0/c2" and len(names) >= 2


def test_what_waits_leaves_the_claim_and_half_of_what_trains_on(bench: Bench) -> None:
    prepare(bench, trainings=40)
    plan, tree = bench.run.plan, bench.repo.tree(bench.repo.head())
    cap = 40 * one_cell(plan, tree)
    pairs = claim_pairs(plan, cap, tree)
    held = pairs * one_pair(plan, tree)
    later, share = search_cap(bench.run, later=True), search_cap(bench.run, later=False)
    assert pairs >= 3 and share < later and cap - later - held >= later - share


# --- validity ------------------------------------------------------------------------------------


def test_a_member_that_leaks_is_out_and_a_scaffold_that_does_is_never_trained(bench: Bench) -> None:
    """Under the scaffold the base policy leaks, so no training is needed to see it."""
    prepare(bench)
    having(bench, REWARD, DATA, FILTER, AGENT)
    solving(bench, lambda found: 0.3 + 0.2 * len(found))
    bench.lab.leaks = lambda tree, *_: bool({"filter", "agent"} & marks(tree))
    assert in_it(bench, searched(bench)) == {"reward", "data"}
    assert [kind for kind, _ in verdicts(bench).values()] == ["INVALID", "INVALID"]
    factors = {one["id"]: one["factor"] for one in outcomes(bench, "candidate")}
    trained = {factors[name] for cell in outcomes(bench, "cell") for name in cell["members"]}
    assert trained == {"reward", "data", "filter"}


def test_a_start_that_leaks_does_not_condemn_what_stands_on_it(bench: Bench) -> None:
    """The repair comes first; what leaves the leak in is no worse than the start."""
    prepare(bench)
    having(bench, REWARD, Idea("mended", "filter"))
    solving(bench, lambda found: 0.4 + 0.2 * len(found))
    bench.lab.leaks = lambda tree, *_: "mended" not in marks(tree)
    found = searched(bench)
    assert in_it(bench, found) == {"reward", "mended"}
    rows = outcomes(bench, "cell")
    assert len(rows) == 3 and all(cell["valid"] for cell in rows)
    leaking = [cell["members"] for cell in rows if not cell["flawless"]]
    (reward,) = [one.id for one in found.candidates if one.factor == "reward"]
    assert leaking == [[reward]]  # the cell without the repair alone


def test_a_cell_without_a_flaw_that_is_no_better_hides_no_better_one(bench: Bench) -> None:
    prepare(bench)
    having(bench, REWARD, Idea("mended", "filter"))
    bench.lab.acts = lambda tree, _: 0.5 if marks(tree) == {"reward"} else 0.0
    bench.lab.leaks = lambda tree, *_: "mended" not in marks(tree) and marks(tree) != {"reward"}
    assert in_it(bench, searched(bench)) == {"reward"}


def test_what_wins_only_beside_a_leak_is_not_gone_on_from(bench: Bench) -> None:
    prepare(bench)
    having(bench, REWARD, FILTER)
    solving(bench, table(0.4, reward_filter=0.9))
    bench.lab.leaks = lambda tree, *_: "filter" in marks(tree)
    assert not searched(bench).members


# --- bad ends ------------------------------------------------------------------------------------


def test_a_cell_that_fails_is_a_cell_and_the_others_decide(bench: Bench) -> None:
    from meta_agent.core.errors import CandidateError

    prepare(bench)
    having(bench, REWARD, DATA, FILTER)

    def script(tree: object) -> float:
        found = marks(tree)  # type: ignore[arg-type]
        if {"data", "filter"} <= found:
            raise CandidateError("order() gave nothing", reason="bad_value")
        return 0.3 + 0.1 * len(found)

    bench.lab.script = script
    found = searched(bench)
    assert in_it(bench, found) in ({"reward", "data"}, {"reward", "filter"})
    failed = [cell for cell in outcomes(bench, "cell") if cell["clean_success"] is None]
    assert failed and all("order()" in cell["words"] for cell in failed)


def test_a_cap_on_tokens_ends_a_search_with_a_budget_and_stops_any_other(bench: Bench) -> None:
    prepare(bench)
    solving(bench, lambda found: 0.3 + 0.2 * len(found))
    having(bench, REWARD)
    reached = BudgetError("max_tokens 10: 9 are spent")

    def proposes(*_: object, **__: object) -> None:
        raise reached

    bench._patch.setattr("meta_agent.core.loop.loop.propose", proposes)
    assert not searched(bench).members
    bench.run.config = bench.run.config.model_copy(update={"budget": None})
    with pytest.raises(BudgetError, match="max_tokens"):
        searched(bench)
