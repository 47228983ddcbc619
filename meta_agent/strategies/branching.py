"""What all strategies that branch have in common; each of them only chooses the next move.

A node is a version that was measured on the search split, or a candidate that could not be. Every
node stays. A move makes new nodes: it asks for ideas on top of a node, merges two nodes, sends a
failed candidate back to its author, or leaves one member out of a node. Which move comes next is
decided by the strategy, from the nodes and from random numbers of the run's seed and the trial.

All steps are journalled, so a killed run makes the same moves again and repeats none. The search
spends the same share of the budget as that of `full`. Its result is handed over under the same gate
(`full.hand_over`, `full.examined`): what is not proven is called so.

Not covered: choosing among moves. A frozen policy's nodes have one attempt at each search task, so
their scores are noisier than a race's. Only the exam decides what is proven.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import ClassVar, Final, Literal, NamedTuple

from meta_agent.core.errors import BudgetError, CandidateError
from meta_agent.core.lab.live import ArmRef
from meta_agent.core.loop.budget import one_cell, search_pays
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.drift import repeat_start
from meta_agent.core.loop.loop import hand_over
from meta_agent.core.loop.records import (
    HandedOver,
    Judged,
    Read,
    SearchResult,
    Tested,
    Version,
    stopped,
    undecided,
)
from meta_agent.core.loop.run import Run, SearchTerms
from meta_agent.core.loop.spending import note_half
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.bundle import move_lead, with_diagnostics
from meta_agent.core.loop.verbs.cells import ALL, WORTHWHILE, Cell, Mix, measure, mixed, short
from meta_agent.core.loop.verbs.collect import collect, measured, read
from meta_agent.core.loop.verbs.hand_over import say_what_can_be_proven
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.test import test
from meta_agent.core.protocols import Candidate, Factor, HarnessTree, VerdictKind
from meta_agent.strategies.full import Full, examined

NodeKind = Literal["start", "idea", "cross", "repair", "ablation"]
START: Final = 0
"""The number of the node that the search starts from."""


class Node(NamedTuple):
    """A node in the tree of a search: a measured harness version, or a candidate that failed."""

    number: int
    version: Version
    parent: int = START
    kind: NodeKind = "start"
    members: tuple[Candidate, ...] = ()
    """The candidates in it, in the order of their merges. The last one is its own idea."""
    other: int | None = None
    """The second parent of a cross, or the failed node of a repair."""
    clean: float = -1.0
    """Clean success on the search split, as a share; -1 if it was not measured."""
    solved: frozenset[str] = frozenset()
    """The search tasks that it solves cleanly."""
    failure: str = ""
    """Why nothing is built on it: the code of its first veto. "" if it is valid."""
    trial: int = -1
    attempts: int = 0
    """The attempts of its trial. Only the first node of a trial counts them."""
    open: frozenset[Factor] = frozenset()
    """The factors for which the proposer may have a further idea on top of it."""

    @property
    def valid(self) -> bool:
        return not self.failure

    @property
    def factor(self) -> Factor | None:
        """Returns the factor (such as scaffold) that the last merged candidate edits, or None."""
        return self.members[-1].factor if self.members else None


class Move(NamedTuple):
    """A step of a tree search: the kind of version to make, and the node that it builds on."""

    node: int
    """The node to build on; of a repair, the failed node."""
    kind: NodeKind = "idea"
    other: int | None = None
    """The second parent of a cross."""
    without: str = ""
    """The candidate that an ablation leaves out."""
    factors: tuple[Factor, ...] = ()
    """The factors that the proposer may edit. Empty: all."""


class Branching(Full, ABC):
    """Base of tree searches over harness versions; subclasses choose the next step."""

    words: ClassVar[str]
    """How a parent is chosen, in one sentence for the authors of edits."""
    one_at_a_time: ClassVar[bool] = True
    """`compare` lets such a strategy go on with single ideas until its budget is spent."""

    @abstractmethod
    def next_move(self, nodes: Sequence[Node], luck: Random) -> Move | None:
        """Returns the next step of the search, or None to end it.

        Only the nodes and the random generator `luck` may decide, so that a resumed run repeats it.
        """

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        if run.plan.halved:
            note_half(run)
        if not run.plan.race:
            say_what_can_be_proven(run)
        result = _Forest(run, first, self).grow()
        return (examined if run.plan.race else hand_over)(run, first, result)


# --- what strategies ask of nodes ----------------------------------------------------------------


def expandable(nodes: Sequence[Node]) -> list[Node]:
    """Returns the valid nodes on which the proposer may still have an idea."""
    return [node for node in nodes if node.valid and node.open]


def best_of(nodes: Sequence[Node]) -> Node:
    """Returns the node with the highest clean success, the earliest among equals."""
    return max(nodes, key=lambda node: (node.clean, -node.number))


def children(nodes: Sequence[Node], parent: Node) -> list[Node]:
    """Returns the nodes that were made on top of `parent`, failed ones included."""
    return [node for node in nodes if node.parent == parent.number and node.kind != "start"]


def drawn(luck: Random, nodes: Sequence[Node], weight: Callable[[Node], float]) -> Node | None:
    """Returns a node drawn at random in proportion to `weight`, or None if all weights are 0."""
    weights = [weight(node) for node in nodes]
    return luck.choices(nodes, weights)[0] if sum(weights) > 0 else None


def cross(nodes: Sequence[Node], first: Node, second: Node) -> Move | None:
    """Returns the step that merges the candidates of two nodes into one version.

    Returns None if one node has all candidates of the other, or if the two were merged before.
    """
    ids = [{member.id for member in node.members} for node in (first, second)]
    before = {frozenset((n.parent, n.other)) for n in nodes if n.kind == "cross"}
    pair = frozenset((first.number, second.number))
    if ids[0] <= ids[1] or ids[1] <= ids[0] or pair in before:
        return None
    return Move(first.number, "cross", second.number)


# --- the search ----------------------------------------------------------------------------------


class _Origin(NamedTuple):
    """Where a new node comes from: the node below it and the move, as `Node` stores them."""

    parent: Node
    kind: NodeKind
    trial: int
    other: int | None = None


class _Forest:
    """The nodes of a search, and what was read of each."""

    def __init__(self, run: Run, first: Version, way: Branching) -> None:
        self._run = replace(run, terms=SearchTerms(way.words))
        self._first, self._way = first, way
        self._nodes: list[Node] = []
        self._of: dict[int, Read] = {}
        """What was read of a node, by its number."""
        self._read: dict[int, Read] = {}
        """The version that a generation's candidates were written for."""
        self._flawless: set[int] = set()
        self._pending: dict[str, tuple[Candidate, str]] = {}
        """Candidates without a verdict yet, with the reason that they get if they are left out."""
        self._admitted: list[Candidate] = []

    def grow(self) -> SearchResult:
        """Takes steps until the strategy or the budget ends the search. Returns the best node."""
        run = self._run
        try:
            self._plant()
            trial = moves = 0
            while moves < run.config.generations:
                luck = Random(f"{run.config.seed}/{trial}")
                move = self._way.next_move(self._nodes, luck)
                if move is None or not self._pays(move):
                    break
                moves += self._make(move, trial)
                trial += 1
        except BudgetError as reached:
            if run.config.budget is None:
                raise
            run.note(f"the search ends: {reached}")
        return self._result()

    def _plant(self) -> None:
        """Measures and reads the start, which is the first node."""
        run, number = self._run, START
        collected = collect(run, self._first)
        self._of[number] = Read(collected, read(run, collected, 0, None))
        share = collected.evaluated.clean_success
        arm = run.lab.arm_of("start", collected.tree, {0: collected.evaluated})
        solved, factors = self._solved(arm), frozenset(run.plan.factors)
        attempts = run.lab.budget.spent
        self._nodes.append(
            Node(number, self._first, clean=share, solved=solved, open=factors, attempts=attempts)
        )

    def _pays(self, move: Move) -> bool:
        """Returns True if the budget pays for what is read first and for one new node."""
        run = self._run
        tree = run.repo.tree(self._nodes[move.node].version.commit)
        unread = move.kind == "idea" and move.node not in self._of and run.plan.trains
        price = one_cell(run.plan, tree) + (run.plan.search if unread else 0)
        pays = search_pays(run, price)
        if not pays:
            run.note("the search's share of the budget pays for no further candidate")
        return pays

    def _make(self, move: Move, trial: int) -> bool:
        """Carries a move out. Returns False if nobody had an idea, which uses no generation up."""
        node, before = self._nodes[move.node], len(self._nodes)
        words = f"trial {trial}: {move.kind} on {node.version.id}"
        self._run.phase("bundle", f"{words}, {100 * node.clean:.1f} % clean")
        spent = self._run.lab.budget.spent
        make = {"idea": self._expand, "repair": self._repair}.get(move.kind, self._remix)
        had_idea = make(node, move, trial)
        if not had_idea:
            rest = node.open - frozenset(move.factors or node.open)
            self._nodes[node.number] = node._replace(open=rest)
        used = self._run.lab.budget.spent - spent
        if len(self._nodes) > before:
            self._nodes[before] = self._nodes[before]._replace(attempts=used)
        return had_idea

    # --- the moves -------------------------------------------------------------------------------

    def _expand(self, node: Node, move: Move, trial: int) -> bool:
        """Asks for ideas on top of a node and measures each alone. Returns True if any came."""
        run = replace(self._run, terms=SearchTerms(self._way.words, move.factors))
        collected, reading = self._read[trial] = self._reading(node, trial)
        visible = self._way.shows(reading)
        proposed = propose(run, collected, visible, trial)
        again = partial(revise, run, collected, visible)
        for candidate in to_test(run, collected, reading, proposed, again):
            self._try(test(run, collected, candidate), _Origin(node, "idea", trial))
        return bool(proposed)

    def _repair(self, failed: Node, move: Move, trial: int) -> bool:
        """Sends a failed candidate back to its author, and tries what returns, if anything."""
        candidate = failed.members[-1]
        collected, reading = self._read[candidate.generation]
        feedback = f"it failed: {failed.failure}. Repair the cause and keep the idea."
        revised = revise(self._run, collected, self._way.shows(reading), candidate, feedback)
        if revised is None:
            return False
        origin = _Origin(self._nodes[failed.parent], move.kind, trial, failed.number)
        self._try(test(self._run, collected, revised), origin)
        return True

    def _remix(self, node: Node, move: Move, trial: int) -> bool:
        """Merges the members of two nodes, or a node's members without one of them."""
        origin = _Origin(node, move.kind, trial, move.other)
        try:
            if move.kind == "cross":
                assert move.other is not None
                ids = {member.id for member in node.members}
                more = [m for m in self._nodes[move.other].members if m.id not in ids]
                mix = mixed(self._run, node.version.commit, "", more)
                members, name = (*node.members, *more), f"{node.version.id} with {len(more)} more"
            else:
                members = tuple(m for m in node.members if m.id != move.without)
                mix = mixed(self._run, self._first.commit, "", members)
                name = f"{node.version.id} without {move.without.removeprefix(f'{self._run.id}/')}"
        except CandidateError as error:
            self._run.note(f"no {move.kind}: {error}")
            self._fail(origin, node.members, "merge.conflict")
        else:
            self._measure(origin, Mix(name, members, mix.commit))
        return True

    def _try(self, tested: Tested, origin: _Origin) -> None:
        """Measures a candidate on top of a node, unless a check stops it."""
        run, candidate, parent = self._run, tested.candidate, origin.parent
        members = (*parent.members, candidate)
        if tested.watches and not tested.vetoed:
            self._watch(tested)
        elif tested.vetoed:
            self._stop(candidate, stopped(tested.findings))
            veto = next(f.code for f in tested.findings if f.severity == "veto")
            self._fail(origin, members, veto)
        elif not search_pays(run, one_cell(run.plan, self._tree(parent))):
            self._pending[candidate.id] = candidate, "never tried: the search's budget was spent"
        else:
            commit = mixed(run, parent.version.commit, ALL, [candidate]).commit
            self._measure(origin, Mix(short(run, candidate), members, commit))

    def _measure(self, origin: _Origin, mix: Mix) -> None:
        parent, kind, trial, other = origin
        in_hand = self._of.get(parent.number)
        base = in_hand.collected if in_hand else measured(self._run, parent.version)
        (cell,) = measure(self._run, base, trial, [mix])
        if kind in ("idea", "repair"):
            self._settle(mix.members[-1], parent, cell)
        if not cell.valid:
            self._fail(origin, mix.members, cell.vetoes[0].code)
            return
        number = len(self._nodes)
        if cell.flawless:
            self._flawless.add(number)
        self._nodes.append(
            Node(
                number,
                Version(f"{self._first.id}+{len(mix.members)}", mix.commit),
                parent.number,
                kind,
                mix.members,
                other,
                cell.clean,
                self._solved(cell.arm),
                trial=trial,
                open=frozenset(self._run.plan.factors),
            )
        )

    def _fail(self, origin: _Origin, members: Sequence[Candidate], failure: str) -> None:
        parent, kind, trial, other = origin
        node = Node(len(self._nodes), parent.version, parent.number, kind, tuple(members), other)
        repairable = frozenset(self._run.plan.factors if kind in ("idea", "repair") else ())
        self._nodes.append(node._replace(failure=failure, trial=trial, open=repairable))

    # --- records ---------------------------------------------------------------------------------

    def _reading(self, node: Node, trial: int) -> Read:
        """Returns a node's version and evidence, which are collected and read once."""
        if node.number not in self._of:
            collected = collect(self._run, node.version)
            earlier = self._of.get(node.parent, self._of[START]).reading.evidence
            self._of[node.number] = Read(collected, read(self._run, collected, trial, earlier))
        return self._of[node.number]

    def _watch(self, tested: Tested) -> None:
        judged = discriminate(self._run, tested)
        if judged.verdict.kind is VerdictKind.PROMOTE:
            self._admitted.append(tested.candidate)
        self._stop(tested.candidate, judged)

    def _stop(self, candidate: Candidate, judged: Judged) -> None:
        collected, reading = self._read[candidate.generation]
        conclude(self._run, collected, candidate, judged, reading)

    def _settle(self, candidate: Candidate, parent: Node, cell: Cell) -> None:
        """Gives a candidate without a valid cell its verdict; the others get theirs at the end."""
        if cell.vetoes:
            self._stop(candidate, stopped(cell.vetoes))
            return
        points = f"{100 * (cell.clean - parent.clean):+.1f} points over {parent.version.id}"
        reason = f"left out of the result: {points} on the search split, training seed 0"
        self._pending[candidate.id] = candidate, reason

    def _result(self) -> SearchResult:
        """Concludes what is left out, moves the lead, and returns the best node."""
        run, start = self._run, self._nodes[START]
        best = max(
            (node for node in self._nodes if node.valid),
            key=lambda n: (n.number in self._flawless, n.clean, -len(n.members), -n.number),
        )
        if best.clean <= start.clean + WORTHWHILE:
            best = start
        ids = {member.id for member in best.members}
        for candidate, reason in self._pending.values():
            if candidate.id not in ids:
                self._stop(candidate, undecided(reason, []))
        mix = with_diagnostics(run, Mix(ALL, best.members, best.version.commit), self._admitted)
        version = best.version
        if mix.commit != self._first.commit:
            last = max(self._read, default=0)
            version = move_lead(run, "search/lead", last, mix.commit, mix.members)
        if run.plan.race:
            begun = self._of[START].collected
            arm = run.lab.arm_of("start", begun.tree, {0: begun.evaluated})
            repeat_start(run, self._first, run.lab.rows(arm))
        return SearchResult(version, mix.members, self._read or {0: self._of[START]})

    def _tree(self, node: Node) -> HarnessTree:
        return self._run.repo.tree(node.version.commit)

    def _solved(self, arm: ArmRef | None) -> frozenset[str]:
        rows = self._run.lab.rows(arm).rows() if arm else ()
        return frozenset(row.task_key for row in rows if row.clean)
