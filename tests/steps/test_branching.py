"""Strategies that branch: what each chooses next by its paper's rule, and what all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from meta_agent.core.errors import Interrupted
from meta_agent.core.loop.budget import search_cap, spent
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.records import HandedOver
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.protocols import FACTORS, Candidate, Factor, HarnessTree, Hypothesis
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.strategies import archive, bilevel, frontier, pareto, tree
from meta_agent.strategies.branching import Move, Node
from meta_agent.strategies.specialists import Specialists
from meta_agent.strategies.strategies import STRATEGIES
from meta_agent.studies.search_facts import search_facts
from tests.steps._again import gone_through_again
from tests.steps._bench import Bench
from tests.steps._ideas import FILES, Idea, in_it, marks, outcomes, prepare, solving

WAYS = ("frontier", "archive", "islands", "pareto", "tree", "specialists", "bilevel")
OPEN = frozenset(FACTORS)
LUCK = Random("0")


def member(name: str, factor: Factor = "reward") -> Candidate:
    idea = Hypothesis(factor, name, "clean_success", "up", 0.1, rule=name)
    return Candidate(name, "r", 0, 0, name, "base", name, name, factor, idea, ())


def grown(*rows: Mapping[str, Any]) -> list[Node]:
    """A start that solves 4 tasks of 10, and a node for every row; its number is its trial + 1."""
    nodes = [node(0, solves="abcd", trial=-1)]
    nodes += [
        node(at, **{"trial": at - 1, "kind": "idea", **row}) for at, row in enumerate(rows, 1)
    ]
    return nodes


def node(
    number: int, *, solves: str = "", of: str = "", factor: Factor = "reward", **more: Any
) -> Node:
    members = tuple(member(name, factor) for name in of)
    facts = {"clean": len(solves) / 10, "solved": frozenset(solves), "open": OPEN, **more}
    return Node(number, None, members=members, **facts)  # type: ignore[arg-type]


# --- archive: the Darwin Goedel Machine ----------------------------------------------------------


def test_archive_draws_by_a_sigmoid_of_the_score_and_by_few_working_children() -> None:
    nodes = grown({"solves": "abcde"}, {"solves": "ab"}, {"failure": "run.crash", "solves": ""})
    shares = [archive.weight(nodes, node) for node in nodes[:3]]
    # sigmoid(10 (0.4 - 0.5)) / (1 + 2): two children work, the failed one does not count.
    assert shares == pytest.approx([0.26894 / 3, 0.5, 0.04743], abs=1e-4)


def test_archive_may_go_on_from_any_valid_version_and_never_from_a_failure() -> None:
    nodes = grown({"solves": "abcdef"}, {"solves": "a"}, {"failure": "conduct.leak"})
    moves = [archive.Archive().next_move(nodes, Random(seed)) for seed in range(300)]
    drawn = [move.node for move in moves if move]
    assert set(drawn) == {0, 1, 2} and drawn.count(1) > drawn.count(0) > drawn.count(2)


def test_islands_keep_to_their_own_versions_until_they_migrate() -> None:
    way = archive.Archive(islands=2)
    nodes = grown({"solves": "abcdefgh"}, {"solves": "abcde"})  # trials 0 and 1; next is 2

    def parents(nodes: Sequence[Node]) -> set[int]:
        moves = (way.next_move(nodes, Random(seed)) for seed in range(100))
        return {move.node for move in moves if move}

    assert parents(nodes) == {0, 1}
    assert parents([*nodes, node(3, trial=7, failure="x")]) == {0, 2}  # trial 8, the fourth round


# --- frontier: GEAR ------------------------------------------------------------------------------


def test_frontier_expands_who_is_productive_novel_and_little_explored() -> None:
    rows = [
        {"solves": "abcde"},
        {"solves": "abcdef", "parent": 1},
        {"solves": "ab", "parent": 2, "of": "p"},
    ]
    nodes = grown(*rows)
    assert frontier.productivity(nodes, nodes[1]) == pytest.approx(2 / 3)
    assert frontier.productivity(nodes, nodes[2]) == pytest.approx(1 / 3)
    assert frontier.distance(nodes[1], nodes[3]) == pytest.approx(3 / 5)
    assert frontier.coverage(nodes, nodes[3]) == 1 > frontier.coverage(nodes, nodes[2])
    worse, best = nodes[3], nodes[2]
    assert frontier.promise(nodes, [best, worse], worse) == pytest.approx(
        (1 / 2 + frontier.distance(best, worse) + 1) * 2 / 6
    )
    far = [*nodes[:3], node(3, solves="xyz", trial=2)]
    assert frontier.novelty(far, far[3]) == 1


def test_frontier_keeps_the_best_and_drops_the_rest_of_a_full_population() -> None:
    nodes = grown(*({"solves": "abcdefghij"[:size]} for size in (1, 2, 3, 5, 6, 7, 8, 9, 10)))
    assert [node.number for node in frontier.population(nodes)] == [9, 8, 7, 6, 5, 4, 0, 3]


def test_frontier_crosses_the_two_that_differ_most_in_every_fourth_trial() -> None:
    rows = [
        {"solves": "abc", "of": "p"},
        {"solves": "xyz", "of": "q"},
        {"solves": "abz", "of": "s"},
    ]
    way = frontier.Frontier()
    assert way.next_move(grown(*rows), LUCK) == Move(1, "cross", 2)
    crossed = {"solves": "abcxyz", "of": "pq", "kind": "cross", "parent": 1, "other": 2, "trial": 6}
    move = way.next_move(grown(*rows, crossed), LUCK)  # trial 7: the same pair is not crossed again
    assert move is not None and move.kind == "cross" and {move.node, move.other} != {1, 2}
    assert getattr(way.next_move(grown(*rows[:2]), LUCK), "kind", "") == "idea"


# --- pareto: GEPA --------------------------------------------------------------------------------


def test_pareto_counts_the_tasks_at_which_a_version_is_among_the_best() -> None:
    nodes = grown({"solves": "abcde"}, {"solves": "xy"}, {"solves": "abx"})
    # The start (abcd) is nowhere alone among the best, and neither is the last: both are dominated.
    assert pareto.wins(nodes) == {1: 5, 2: 2}
    joins = grown({"solves": "abcd"}, {"solves": "abcde"}, {"solves": "abcde", "parent": 2})
    assert [node.number for node in pareto.pool(joins)] == [0, 2], "only what beats its parent"


def test_pareto_draws_in_proportion_to_tasks_won() -> None:
    nodes = grown({"solves": "abcdefgh", "of": "p"}, {"solves": "vwxyz", "of": "p"}, {"solves": ""})
    moves = [pareto.Pareto().next_move(nodes, Random(seed)) for seed in range(400)]
    drawn = [move.node for move in moves if move]
    assert set(drawn) == {1, 2} and drawn.count(1) / len(drawn) == pytest.approx(8 / 13, abs=0.07)


def test_pareto_merges_two_of_the_front_once_a_child_has_joined() -> None:
    rows = [{"solves": "abcde", "of": "p"}, {"solves": "vwxyz", "of": "q"}]
    assert pareto.Pareto().next_move(grown(*rows), LUCK) == Move(1, "cross", 2)
    merges = [{"kind": "cross", "parent": 1, "other": 2, "failure": "merge.conflict"}] * 5
    nodes = grown(*merges, {"solves": "abcde", "of": "p"}, {"solves": "vwxyz", "of": "q"})
    assert getattr(pareto.Pareto().next_move(nodes, LUCK), "kind", "") == "idea"


# --- tree: AI Scientist-v2 -----------------------------------------------------------------------


def test_tree_drafts_first_and_then_expands_the_best() -> None:
    way, rows = tree.Tree(), [{"solves": "abcdefg"}, {"solves": "a"}, {"solves": "ab"}]
    assert [way.next_move(grown(*rows[:n]), LUCK) for n in range(3)] == [Move(0)] * 3
    assert way.next_move(grown(*rows), LUCK) == Move(1)


def test_tree_repairs_half_of_the_time_and_not_for_ever() -> None:
    rows: list[dict[str, Any]] = [{"solves": "abcde"}, {"solves": "a"}, {"failure": "run.crash"}]
    moves = [tree.Tree().next_move(grown(*rows), Random(seed)) for seed in range(400)]
    assert set(moves) == {Move(1), Move(3, "repair")}
    assert moves.count(Move(3, "repair")) / 400 == pytest.approx(0.5, abs=0.08)
    for depth in range(3):
        rows.append({"failure": "run.crash", "kind": "repair", "other": 3 + depth})
    assert not tree.repairable(grown(*rows)), "three repairs in a row are enough"


def test_tree_leaves_each_member_of_the_best_out_once() -> None:
    rows = [{"solves": "a"}] * 2 + [{"solves": "abcdef", "of": "pq"}]
    first = tree.ablation(grown(*rows))
    assert first == Move(3, "ablation", without="p") == tree.Tree().next_move(grown(*rows), LUCK)
    rows.append({"solves": "abcd", "of": "q", "kind": "ablation", "parent": 3})
    assert tree.ablation(grown(*rows)) == Move(3, "ablation", without="q")
    rows.append({"solves": "abcd", "of": "p", "kind": "ablation", "parent": 3})
    assert tree.ablation(grown(*rows)) is None


# --- specialists ---------------------------------------------------------------------------------


def test_specialists_take_turns_on_the_best_version() -> None:
    rows: list[dict[str, Any]] = []
    asked = []
    for _ in range(6):
        move = Specialists().next_move(grown(*rows), LUCK)
        assert move is not None
        asked.append((move.node, *move.factors))
        rows.append({"solves": "ab", "factor": move.factors[0], "of": "p"})
    rows[0]["solves"] = "abcdef"
    assert [factor for _, factor in asked[:5]] == [f for f in FACTORS if f != "diagnostics"]
    assert asked[5][1] == asked[0][1]
    assert getattr(Specialists().next_move(grown(*rows), LUCK), "node", 0) == 1


# --- bilevel -------------------------------------------------------------------------------------


def test_bilevel_tries_every_mechanism_and_goes_back_to_what_found_most() -> None:
    def after(trials: int, lifts: Mapping[int, int]) -> str:
        solves, rows = 4, []
        for trial in range(trials):
            solves += lifts.get(trial, 0)
            rows.append({"solves": "abcdefghij"[:solves], "attempts": 100})
        return bilevel.schedule(grown(*rows))

    assert [after(4 * n, {}) for n in range(4)] == list(bilevel.MECHANISMS)
    assert after(3, {}) == "best first"
    assert after(16, {9: 3, 2: 1}) == "frontier"
    assert after(20, {9: 3, 2: 2}) == "best first", "frontier ran dry and was left"


# --- what all of them share: a scripted lab ------------------------------------------------------


def having(bench: Bench, *ideas: Idea) -> list[tuple[frozenset[str], tuple[str, ...]]]:
    """Proposes each idea once on every version that lacks it."""
    asked: list[Any] = []

    def propose(_e: Any, base: HarnessTree, tried: Sequence[Any], *_: Any, **more: Any) -> Any:
        if more.get("repair"):
            return []
        done = marks(base) | {idea.rule for idea in tried if idea.base == base.commit}
        asked.append((marks(base), tuple(sorted(done))))
        return [_proposal(idea, base) for idea in ideas if idea.mark not in done]

    bench.run.extensions.proposer = RulesAgent(propose)
    bench._patch.setattr(propose_step, "_situation", lambda _: None)
    return asked


def _proposal(idea: Idea, base: HarnessTree) -> Proposal:
    hypothesis = Hypothesis(
        idea.factor, f"if {idea.mark}", "clean_success", "up", 0.1, rule=idea.mark
    )
    return Proposal(hypothesis, idea.mark, idea.edits(base), idea.strength)


IDEAS = (
    Idea("bad", "filter", strength=0.9),
    Idea("one", "reward"),
    Idea("two", "data", strength=0.4),
)


def climb(found: frozenset[str]) -> float:
    return 0.3 + 0.2 * len(found - {"bad"}) - 0.2 * ("bad" in found)


def carried_out(bench: Bench, name: str) -> HandedOver:
    return STRATEGIES[name]().carry_out(bench.run, first_version(bench.run))


def ready(bench: Bench, name: str, *ideas: Idea, generations: int = 8) -> None:
    prepare(bench, trainings=60, generations=generations, candidates=1, strategy=name)
    solving(bench, climb)
    having(bench, *(ideas or IDEAS))


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_each_finds_what_helps_and_hands_it_over_under_the_gate(bench: Bench, name: str) -> None:
    ready(bench, name)
    handed = carried_out(bench, name)
    ideas = in_it(bench, handed)
    # Eight trials on three islands may find one of the two alone.
    assert ideas == {"one", "two"} or (name == "islands" and ideas and "bad" not in ideas)
    assert handed.standing == "proven" and bench.repo.head() == handed.version.commit
    judged = {row["candidate"] for row in outcomes(bench, "verdict")}
    assert judged >= {row["id"] for row in outcomes(bench, "candidate")}, "all get a verdict"


@pytest.mark.slow
def test_a_walk_through_the_record_finds_the_same(bench: Bench) -> None:
    ready(bench, "pareto", generations=4)
    carried_out(bench, "pareto")
    walk = gone_through_again(bench, lambda again: carried_out(again, "pareto"))
    assert walk.differences == []


def test_the_search_stays_within_its_share_and_goes_on_after_a_stop(bench: Bench) -> None:
    ready(bench, "frontier")
    bench.run.config = bench.run.config.model_copy(update={"budget": 14 * 456})
    train = bench.lab._train

    def stopping(*args: Any) -> Any:
        bench.stop = bench.lab.trainings == 3
        return train(*args)

    bench._patch.setattr(bench.lab, "_train", stopping)
    with pytest.raises(Interrupted):
        carried_out(bench, "frontier")
    bench.stop = False
    bench.forget()
    bench._patch.setattr(bench.lab, "_train", train)
    carried_out(bench, "frontier")
    lead = bench.run.ledger.steps("r", kind="lead")[0]
    cap = search_cap(bench.run, later=True)
    assert spent(bench.run.ledger, "r", before=lead) <= cap
    assert len(set(bench.lab.made)) == len(bench.lab.made), "nothing is trained twice"


def test_what_leaks_is_no_parent_and_its_failure_is_typed(bench: Bench) -> None:
    ready(bench, "archive", generations=4)
    solving(bench, lambda found: 0.9 if "bad" in found else climb(found))
    bench.lab.leaks = lambda base, _policy, _split: "bad" in marks(base)
    nodes: list[Node] = []

    class Watching(archive.Archive):
        def next_move(self, seen: Sequence[Node], luck: Random) -> Move | None:
            nodes[:] = seen
            return super().next_move(seen, luck)

    handed = Watching().carry_out(bench.run, first_version(bench.run))
    assert "bad" not in in_it(bench, handed)
    failed = [node for node in nodes if not node.valid]
    assert failed and {node.failure.split(".")[0] for node in failed} == {"conduct"}
    assert not any(node.parent in {f.number for f in failed} for node in nodes)
    facts = search_facts(bench.run.ledger, "r", bench.lab.store, spent=2000)
    assert facts["raw_winner_leaks"] and facts["invalid"] == len(failed)
    assert facts["kinds"]["filter"] >= 1 and facts["never_ran"] == facts["failed"] == 0


@pytest.mark.slow
def test_a_specialist_proposes_within_his_factor_alone(bench: Bench) -> None:
    ready(bench, "specialists", generations=6)
    carried_out(bench, "specialists")
    factors = [row["factor"] for row in outcomes(bench, "candidate")]
    assert factors[0] == "reward", "the strongest idea is about the filter, whose turn comes later"
    assert set(factors) == {"filter", "reward", "data"}


@pytest.mark.slow
def test_a_repair_sends_the_failure_to_the_author(bench: Bench) -> None:
    told: list[str] = []

    class Mender(RulesAgent):
        author = "a model"

        def revise(self, brief: Any, index: int, hypothesis: Any, edits: Any, feedback: str) -> Any:
            told.append(feedback)
            return super().revise(brief, index, hypothesis, edits, feedback)

    class Broken(Idea):
        def edits(self, base: HarnessTree) -> dict[str, str]:
            return {FILES[self.factor]: "def reward(:\n"}

    ready(bench, "tree", Broken("bad", "reward", strength=0.9), *IDEAS[1:])
    bench.run.extensions.proposer.__class__ = Mender
    carried_out(bench, "tree")
    assert told and told[0].startswith("it failed: ") and "Repair the cause" in told[0]
