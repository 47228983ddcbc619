"""The search of `full` with a frozen policy: edits are screened, and the tip is examined once.

`_race_rule` decides which blocks of attempts to buy and what follows from them. This module makes
the attempts through the lab and the journal. A killed run therefore repeats at most the block in
flight and decides the same. An accepted edit joins the branch `lead` if it keeps its place after
fresh attempts and earns no veto that the version below it lacks. The proposer then reads that tip
and writes the next edits for it. An edit that conflicts with the tip races as an alternative to it:
if it is accepted, it replaces the edits that it conflicts with.

One claim is made at the end. It compares the tip with the start at the run's whole alpha, on fresh
attempts at tasks that no edit was read from or screened on. If the claim is proven, every member
reaches `main` by its own `--no-ff` merge. If it is not proven but estimates a gain, the tip is
handed over as `lead` and called unproven. Otherwise the start is handed over. Each member's verdict
is that of the claim and names the other members.

Not covered: what a single member adds. An admitted diagnostic changes no attempt; it joins the lead
and reaches `main` with it. No diagnostic is retired during a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import Arm, Finding, effect, pair
from meta_agent.core.lab.live import ArmRef, Evaluated, Trained
from meta_agent.core.lab.measured import Part
from meta_agent.core.ledger import crash_point
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.drift import ModelNames, repeat_start
from meta_agent.core.loop.records import (
    Collected,
    Judged,
    Read,
    Reading,
    SearchResult,
    Tested,
    Version,
    failure,
    must_work,
    stopped,
    undecided,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import note_half
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.cells import mixed
from meta_agent.core.loop.verbs.collect import read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.test import keeps_contract, test
from meta_agent.core.protocols import JSON, Candidate, VerdictKind
from meta_agent.strategies._race_rule import TERMS, Buy, Race, RaceTerms

SEARCH: Final = "search"
Shows = Callable[[Reading], Reading]


class Member(NamedTuple):
    """A candidate after its checks, with the version and evidence for which it was written."""

    tested: Tested
    collected: Collected
    reading: Reading


class Stand(NamedTuple):
    """The best harness version of a search so far, and the candidates merged into it in order."""

    version: Version
    members: tuple[Member, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(member.tested.candidate for member in self.members)


def race(run: Run, first: Version, shows: Shows) -> SearchResult:
    """Searches with a frozen policy: tests each edit of the best version by few attempts.

    `shows` returns what a proposer may see of the evidence. The version found is not proven.
    """
    if run.plan.halved:
        note_half(run)
    course = raced(run, first, shows)
    course.repeat_start()
    tip = course.tip
    return SearchResult(tip.version, tip.candidates, course.read)


def raced(run: Run, first: Version, shows: Shows) -> Course:
    """Returns a race after its last generation: no idea, generation or attempt is left."""
    edits = run.config.generations * run.config.candidates
    course = Course(run, Stand(first), shows, attempts=run.plan.racing, edits=edits)
    course.buy_until_decided(0)
    for generation in range(run.config.generations):
        if (generation and course.race.over) or not course.generation(generation):
            break
    course.race.finish()
    course.conclude_replaced()
    return course


class Course:
    """A race, its versions by number, and the attempts bought for each."""

    def __init__(
        self,
        run: Run,
        stand: Stand,
        shows: Shows,
        *,
        attempts: int,
        edits: int,
        terms: RaceTerms = TERMS,
        weights: Trained | None = None,
        name: str = "",
        main: str = "",
    ) -> None:
        """`weights` act in all attempts (None: the base policy). `name` keeps its records apart.

        `main` is the commit that the run started from, if `stand` is another.
        """
        tasks = min(run.plan.search, len(run.lab.domain.tasks(SEARCH)))
        self.race = Race(tasks, attempts, terms, edits=edits, block=run.plan.block)
        first = stand.version
        self._run, self._first, self._tasks = run, first, tasks
        self._main = main or first.commit
        self._weights, self._name = weights or run.lab.untrained(), name
        self._stands = {0: stand}
        self._bought: dict[int, list[tuple[Buy, Evaluated]]] = {0: []}
        self._numbers: dict[tuple[int, str], int] = {}  # by the version below and the tree's hash
        self._gains: dict[int, float] = {}  # over its parent when it joined, by the race's model
        self.joined: list[Member] = []
        """All members that were on the tip at some time, in the order of joining."""
        self._shows, self._model = shows, ModelNames()
        self._names = {0: f"{first.id}{name}" if name else "the start"}
        self.read: dict[int, Read] = {}
        run.lab.label(run.repo.tree(first.commit), first.id)
        run.lab.require(run.repo.tree(first.commit))

    @property
    def tip(self) -> Stand:
        return self._stands[self.race.tip]

    def generation(self, generation: int) -> bool:
        """Reads the best version's evidence, asks for edits of it, and screens them.

        Returns True if any edit was proposed.
        """
        run, collected = self._run, self.collected(self.race.tip)
        earlier = self.read[max(self.read)].reading.evidence if self.read else None
        reading = read(run, collected, generation, earlier)
        self.read[generation] = Read(collected, reading)
        visible = self._shows(reading)
        proposed = propose(run, collected, visible, generation)
        again = partial(revise, run, collected, visible)
        for candidate in to_test(run, collected, reading, proposed, again):
            member = Member(test(run, collected, candidate), collected, reading)
            if judged := self.decide(member):
                conclude(run, collected, candidate, judged, reading)
        return bool(proposed)

    def collected(self, number: int) -> Collected:
        """Returns all attempts made with one version of the search, in the form of `collect`."""
        run, version = self._run, self._stands[number].version
        tree = run.repo.tree(version.commit)
        whole = _together([evaluation for _, evaluation in self._bought[number]])
        return Collected(version, tree, self._weights, whole)

    def buy_until_decided(self, number: int) -> JSON:
        """Makes blocks of attempts with a version until the search decides about that version.

        Returns the record of the deciding block, or None if the attempts ran out. If the served
        model changes meanwhile, the best version so far gets fresh attempts.
        """
        while (buy := self.race.next()) is not None:
            record, evaluation = self._block(buy)
            self.race.apply(buy, record["word"])
            if self._model.changed(evaluation.served):
                self._run.note(self._model.words)
                self.race.model_changed()
            elif buy.version != number and record["word"] == "taken back":
                self.race.give_up()  # the version being screened builds on it
                return record
            elif buy.version == number and record["word"] in ("dropped", "taken back", "kept"):
                return record
        return None

    def conclude_replaced(self) -> None:
        """Records the verdicts of edits that were in the best version once, and no longer are."""
        members = {member.tested.candidate.id for member in self.tip.members}
        for member in self.joined:
            candidate = member.tested.candidate
            if candidate.id not in members:
                judged = undecided("another edit took its place on the tip, or it was taken back")
                conclude(self._run, member.collected, candidate, judged, member.reading)

    def repeat_start(self) -> None:
        """Repeats the first version's earliest attempts, to see whether the model has changed."""
        first = [evaluation for buy, evaluation in self._bought[0] if buy.sample == 0]
        if first:
            repeat_start(self._run, self._first, self._rows(0, first))

    # --- one edit --------------------------------------------------------------------------------

    def decide(self, member: Member, *, unscreened: bool = False) -> Judged | None:
        """Screens an edit. Returns its verdict, or None if it joins the tip.

        An edit that changes no attempt joins `unscreened`.
        """
        tested = member.tested
        if tested.vetoed:
            return stopped(tested.findings)
        if self.race.over and not (unscreened or tested.watches):
            return undecided("the race's attempts are used up")
        try:
            stand = self._on_tip(member)
        except CandidateError as error:
            return undecided(f"does not fit what is on the tip: {error}")
        if tested.watches:
            return self._admit_diagnostic(member, stand)
        if broken := self._contract_vetoes(member, stand):
            return stopped(tuple(broken))
        if not unscreened:
            return self._screen(member, stand)
        self._admit(member, stand)
        return None

    def _screen(self, member: Member, stand: Stand) -> Judged | None:
        run, name, below = self._run, member.tested.candidate.id, self.race.tip
        edit = below, run.repo.tree(stand.version.commit).tree_hash
        number = self._numbers[edit] = self.race.enter(self._numbers.get(edit))
        self._stands[number], self._names[number] = stand, name
        self._bought.setdefault(number, [])
        run.phase("test", f"{name} against {self._stands[below].version.id}, in blocks")
        try:
            record = self.buy_until_decided(number)
        except CandidateError as error:
            self.race.give_up()
            return stopped((failure(error), *member.tested.findings))
        if record is None:
            self.race.finish()
        objections = self._objections(below, number)
        if objections:
            if self.race.tip == number:
                self.race.give_up()
            self.race.field.forget(number)
            return stopped((*objections, *member.tested.findings))
        if self.race.tip != number:
            return undecided(_words(record, self.race.attempts(number)))
        self._gains[number] = record.get("gain", 0.0) if record else 0.0
        self._join(member, stand, number)
        return None

    def _on_tip(self, member: Member) -> Stand:
        """Merges the edit into the tip with `--no-ff`.

        If the two conflict, it merges the edit into the newest version below, down to the one that
        the edit was written for. Raises CandidateError if the edit fits none of them.
        """
        candidate = member.tested.candidate
        conflict: CandidateError | None = None
        for below in (self._stands[number] for number in reversed(self.race.trail)):
            try:
                commit = mixed(self._run, below.version.commit, "", [candidate]).commit
            except CandidateError as error:
                conflict = conflict or error
            else:
                members = (*below.members, member)
                start = self._first.id.partition("+")[0]
                name = f"{start}+{max(len(members), len(self.race.trail))}"
                return Stand(Version(name, commit), members)
            if below.version.commit == candidate.base:
                break
        assert conflict is not None  # the trail holds at least the start
        raise conflict

    def _contract_vetoes(self, member: Member, stand: Stand) -> Sequence[Finding]:
        """Returns the vetoes of the contract tests on a merge that is not the tested candidate."""
        candidate, commit = member.tested.candidate, stand.version.commit
        if self._run.repo.tree(commit).tree_hash == candidate.tree_hash:
            return ()
        ahead = replace(candidate, id=f"{candidate.id}/ahead", commit=commit)
        findings = keeps_contract(self._run, member.collected, ahead)
        return [finding for finding in findings if finding.severity == "veto"]

    def _admit_diagnostic(self, member: Member, stand: Stand) -> Judged | None:
        judged = discriminate(self._run, member.tested)
        if judged.verdict.kind is not VerdictKind.PROMOTE:
            return judged
        self._admit(member, stand)
        return None

    def _admit(self, member: Member, stand: Stand) -> None:
        self._stands[self.race.tip] = stand  # it changes no attempt, so those at the tip stay valid
        self._join(member, stand, self.race.tip)

    def _join(self, member: Member, stand: Stand, number: int) -> None:
        run, candidate = self._run, member.tested.candidate
        self.joined.append(member)
        record = {
            "candidate": candidate.id,
            "generation": candidate.generation,
            "commit": stand.version.commit,
            "main": self._main,
            "members": [joined.tested.candidate.id for joined in stand.members],
        }
        stored = run.once(
            f"{candidate.id}/lead",
            "lead",
            {"commit": candidate.commit, "main": self._main},
            lambda: {**record, "effect": self._gain(number), "likelier": self._likelier()},
        )
        crash_point("before_lead_moves")
        run.repo.set_lead(stored["commit"])
        run.lab.label(run.repo.tree(stand.version.commit), stand.version.id)
        run.note(f"{candidate.id} joins lead, unproven: {len(stand.members)} on it")

    # --- attempts --------------------------------------------------------------------------------

    def _block(self, buy: Buy) -> tuple[JSON, Evaluated]:
        """Makes a block's attempts, and journals what the race decides. Returns both."""
        run, version = self._run, self._stands[buy.version].version
        tree, name = run.repo.tree(version.commit), self._names[buy.version]

        def evaluate() -> Evaluated:
            samples, limit = range(buy.sample, buy.sample + 1), run.plan.search
            whole = run.plan.trains and len(buy.tasks) == self._tasks  # shared with legs and 2x2
            part = None if whole else Part(run.plan.order, buy.tasks)
            return run.lab.evaluate(
                tree, self._weights, split=SEARCH, limit=limit, samples=samples, part=part
            )

        if buy.version:
            evaluation = evaluate()
        else:
            with must_work(version):
                evaluation = evaluate()
        self._bought[buy.version].append((buy, evaluation))
        rows = self._rows(buy.version, [evaluation]).seeds[0]
        by_task = {row.task_key: row.clean for row in rows}
        order = run.lab.order_of(SEARCH, run.plan.search, run.plan.order)
        word, chance = self.race.record(buy, (by_task.get(order[at]) for at in buy.tasks))
        record = {"of": name, "kind": buy.kind, "word": word, "clean": evaluation.clean}
        record |= {"attempts": evaluation.planned, "made": self.race.attempts(buy.version)}
        record |= chance._asdict() if chance else {}
        about = name.removeprefix(f"{run.id}/") + self._name * bool(buy.version)
        key = f"race/{about}/{len(self._bought[buy.version])}"
        return run.once(key, "race", {"commit": version.commit}, lambda: record), evaluation

    def _rows(self, number: int, evaluations: Iterable[Evaluated]) -> Arm:
        return self._run.lab.rows(self._ref(number, list(evaluations)))

    def _ref(self, number: int, evaluations: list[Evaluated]) -> ArmRef:
        run, version = self._run, self._stands[number].version
        tree, whole = run.repo.tree(version.commit), _together(evaluations)
        return run.lab.arm_of(version.id, tree, {0: whole})

    def _common(self, below: int, above: int) -> tuple[ArmRef, ArmRef] | None:
        """Returns two versions on the attempts that both have: whole passes over the search tasks.

        Returns None if there is no whole pass yet.
        """
        passes = min(self.race.attempts(number) // self._tasks for number in (below, above))
        if not passes:
            return None
        sides = (
            self._ref(
                number,
                [evaluation for buy, evaluation in self._bought[number] if buy.sample < passes],
            )
            for number in (below, above)
        )
        before, after = sides
        return before, after

    def _objections(self, below: int, number: int) -> tuple[Finding, ...]:
        """Returns the vetoes that an edit earns and the version below it does not."""
        inspector = self._run.lab.inspector
        refs = [
            self._ref(at, [evaluation for _, evaluation in self._bought[at]])
            for at in (below, number)
        ]
        before, after = (inspector.within(ref) for ref in refs)
        inherited = {finding.code for finding in before if finding.severity == "veto"}
        vetoes = [
            finding
            for finding in after
            if finding.severity == "veto" and finding.code not in inherited
        ]
        if both := self._common(below, number):
            between = inspector.between(both)
            vetoes += [
                finding
                for finding in between
                if finding.severity == "veto" and finding.side != "baseline"
            ]
        return tuple(vetoes)

    def _gain(self, number: int) -> JSON:
        """Returns the gain over the start on the search tasks, which also chose the version.

        The figure describes the version and proves nothing. Returns None without common attempts.
        """
        refs = self._common(0, number)
        if refs is None:
            return None
        before, after = (self._run.lab.rows(ref) for ref in refs)
        gain = effect(pair(before, after), alpha=0.05)
        return [gain.delta, gain.ci_low, gain.ci_high]

    def _likelier(self) -> float:
        """Returns the tip's gain over the start by the race's model, which shrinks small gains."""
        return sum(self._gains.get(at, 0.0) for at in self.race.trail)


def _together(evaluations: Sequence[Evaluated]) -> Evaluated:
    """Returns several evaluations of one version as one."""
    shards = [evaluation.shard for evaluation in evaluations]
    names = ("planned", "solved", "clean")
    planned, solved, clean = (sum(getattr(e, name) for e in evaluations) for name in names)
    return Evaluated(shards, planned, solved, clean, 0, planned)


def _words(record: JSON, attempts: int) -> str:
    if record is None:
        return f"undecided after {attempts} attempts, when the race's attempts were used up"
    chance = f"a gain above 2 points has a chance of {record['worth']:.2f}"
    return f"{record['word']} after {attempts} attempts: {chance}"
