"""race: how `full` searches with a frozen policy. Edits are screened, the tip is examined once.

`gate.race` says which blocks of attempts are bought and what follows from them; here they are made,
through the lab and the journal, so a killed run redoes at most the block in flight and decides the
same. An edit that is accepted becomes a member of the branch `lead` once it had its fresh attempts,
kept its place, and no detector objects to it beside what it stands on. Then the next edits are read
off and written for that tip.

One claim is made, at the end: the tip against the start, on tasks that no edit was read from or
screened on, with attempts that nobody saw, at the run's whole alpha. Where it is proven every
member goes to `main` by a `--no-ff` merge of its own; where it is not, but its exam estimates a
gain, the tip is handed over as `lead`, called unproven; else the start is. Every member's verdict
is the claim's, and says with whom it was made.

Not covered: what any single member adds. Diagnostics, which act on nothing: one that is admitted
joins the lead and reaches `main` with it; none is retired on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import Arm, Finding, effect, pair
from meta_agent.core.gate.race import Buy, Chance, Race, racing
from meta_agent.core.lab.live import ArmRef, Evaluated
from meta_agent.core.lab.measured import Part
from meta_agent.core.ledger import crash_point
from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.drift import Named, note_drift
from meta_agent.core.loop.records import (
    Collected,
    Found,
    Judged,
    Read,
    Reading,
    Tested,
    Version,
    failure,
    must_work,
    stopped,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import note_half
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.cells import mixed
from meta_agent.core.loop.verbs.collect import read
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.test import keeps_contract, test
from meta_agent.core.protocols import JSON, Verdict, VerdictKind

SEARCH: Final = "search"


class Member(NamedTuple):
    """An edit on the tip, with what it was written from."""

    tested: Tested
    collected: Collected
    reading: Reading


class Stand(NamedTuple):
    """A version of the race: its commit, and the members on it, oldest first."""

    version: Version
    members: tuple[Member, ...] = ()


def race(run: Run, first: Version, shows: Callable[[Reading], Reading]) -> Found:
    """The tip of a race from `first`; nothing of it is proven yet."""
    if run.plan.halved:
        note_half(run)
    course = _Course(run, first, shows)
    course.run_down(0)
    for generation in range(run.config.generations):
        if course.race.over or not course.generation(generation):
            break
    course.race.finish()
    course.once_more()
    tip = course.tip
    candidates = tuple(member.tested.candidate for member in tip.members)
    return Found(tip.version, candidates, course.read)


class _Course:
    """The race with what its versions are and what was bought of them."""

    def __init__(self, run: Run, first: Version, shows: Callable[[Reading], Reading]) -> None:
        tasks = min(run.plan.search, len(run.lab.domain.tasks(SEARCH)))
        edits = run.config.generations * run.config.candidates
        self.race = Race(tasks, racing(run.plan.race) - run.plan.again, edits=edits)
        self._run, self._first, self._tasks = run, first, tasks
        self._stands = {0: Stand(first)}
        self._bought: dict[int, list[tuple[Buy, Evaluated]]] = {0: []}
        self._gains: dict[int, float] = {}  # over its parent, by the model, when it joined
        self._shows, self._model = shows, Named()
        self._names = {0: "the start"}
        self.read: dict[int, Read] = {}
        run.lab.label(run.repo.tree(first.commit), first.id)
        run.lab.require(run.repo.tree(first.commit))

    @property
    def tip(self) -> Stand:
        return self._stands[self.race.tip]

    def generation(self, generation: int) -> bool:
        """Reads the tip, asks for edits of it, and screens them; False: nobody has an idea left."""
        run, collected = self._run, self.collected(self.race.tip)
        earlier = self.read[max(self.read)].reading.evidence if self.read else None
        reading = read(run, collected, generation, earlier)
        self.read[generation] = Read(collected, reading)
        shown = self._shows(reading)
        proposed = propose(run, collected, shown, generation)
        again = partial(revise, run, collected, shown)
        for candidate in to_test(run, collected, reading, proposed, again):
            member = Member(test(run, collected, candidate), collected, reading)
            if judged := self._tried(member):
                conclude(run, collected, candidate, judged, reading)
        return bool(proposed)

    def collected(self, number: int) -> Collected:
        """All attempts at a version of the race, as what `collect` gives."""
        run, version = self._run, self._stands[number].version
        tree = run.repo.tree(version.commit)
        seen = [one for _, one in self._bought[number]]
        sums = (sum(getattr(one, name) for one in seen) for name in ("planned", "solved", "clean"))
        planned, solved, clean = sums
        whole = Evaluated([one.shard for one in seen], planned, solved, clean, 0, planned)
        return Collected(version, tree, run.lab.train(tree, seed=0, steps=0), whole)

    def run_down(self, number: int) -> JSON:
        """Buys a version's blocks until something follows. None: the attempts ran out.

        Where another model answers all of a sudden, the tip gets fresh attempts in between.
        """
        while (buy := self.race.next()) is not None:
            told, seen = self._block(buy)
            self.race.go(buy, told["word"])
            if self._model.changed(seen.served):
                self._run.note(self._model.words)
                self.race.changed()
            elif buy.version != number and told["word"] == "taken back":
                self.race.give_up()  # what is screened builds on it
                return told
            elif buy.version == number and told["word"] in ("dropped", "taken back", "kept"):
                return told
        return None

    def once_more(self) -> None:
        """The start's first attempts, made again: has the model changed since the race began?"""
        run, tree = self._run, self._run.repo.tree(self._first.commit)
        if not run.plan.again or not self._bought[0]:
            return
        run.phase("race", f"{run.plan.again} attempts of the start once more, for drift")
        seen = run.lab.evaluate(
            tree,
            run.lab.untrained(),
            split=SEARCH,
            limit=run.plan.search,
            part=Part(run.plan.order, range(run.plan.again)),
            again="-again",
        )
        first = [one for buy, one in self._bought[0] if buy.sample == 0]
        note_drift(run, self._rows(0, first), self._rows(0, [seen]))

    # --- one edit --------------------------------------------------------------------------------

    def _tried(self, member: Member) -> Judged | None:
        """The last word on an edit; None: it is on the tip, and its word is the claim's."""
        tested = member.tested
        if tested.vetoed:
            return stopped(tested.findings)
        if self.race.over:
            return _open("the race's attempts are used up")
        try:
            stand = self._on_tip(member)
        except CandidateError as error:
            return _open(f"does not fit what is on the tip: {error}")
        if tested.watches:
            return self._watching(member, stand)
        if broken := self._broken(member, stand):
            return stopped(tuple(broken))
        return self._screened(member, stand)

    def _screened(self, member: Member, stand: Stand) -> Judged | None:
        run, name, below = self._run, member.tested.candidate.id, self.race.tip
        number = self.race.enter()
        self._stands[number], self._bought[number] = stand, []
        self._names[number] = name
        run.phase("test", f"{name} against {self._stands[below].version.id}, in blocks")
        try:
            told = self.run_down(number)
        except CandidateError as error:
            self.race.give_up()
            return stopped((failure(error), *member.tested.findings))
        if told is None:
            self.race.finish()
        objections = self._objections(below, number)
        if objections:
            if self.race.tip == number:
                self.race.give_up()
            self.race.forget(number)
            return stopped((*objections, *member.tested.findings))
        if self.race.tip != number:
            return _open(_words(told, self.race.attempts(number)))
        self._gains[number] = told.get("gain", 0.0) if told else 0.0
        self._join(member, stand, number)
        return None

    def _on_tip(self, member: Member) -> Stand:
        """The edit on the tip, by a `--no-ff` merge."""
        tip, members = self.tip, (*self.tip.members, member)
        commit = mixed(self._run, tip.version.commit, "", [member.tested.candidate]).commit
        return Stand(Version(f"{self._first.id}+{len(members)}", commit), members)

    def _broken(self, member: Member, stand: Stand) -> Sequence[Finding]:
        """Contract tests of a merge that nobody has tested yet."""
        candidate, commit = member.tested.candidate, stand.version.commit
        if self._run.repo.tree(commit).tree_hash == candidate.tree_hash:
            return ()
        ahead = replace(candidate, id=f"{candidate.id}/ahead", commit=commit)
        found = keeps_contract(self._run, member.collected, ahead)
        return [one for one in found if one.severity == "veto"]

    def _watching(self, member: Member, stand: Stand) -> Judged | None:
        judged = discriminate(self._run, member.tested)
        if judged.verdict.kind is not VerdictKind.PROMOTE:
            return judged
        self._stands[self.race.tip] = stand  # it acts on nothing, so the attempts stay
        self._join(member, stand, self.race.tip)
        return None

    def _join(self, member: Member, stand: Stand, number: int) -> None:
        run, candidate = self._run, member.tested.candidate
        told = {
            "candidate": candidate.id,
            "generation": candidate.generation,
            "commit": stand.version.commit,
            "main": self._first.commit,
            "members": [one.tested.candidate.id for one in stand.members],
        }
        kept = run.once(
            f"{candidate.id}/lead",
            "lead",
            {"commit": candidate.commit, "main": self._first.commit},
            lambda: {**told, "effect": self._gain(number), "likelier": self._likelier()},
        )
        crash_point("before_lead_moves")
        run.repo.set_lead(kept["commit"])
        run.lab.label(run.repo.tree(stand.version.commit), stand.version.id)
        run.note(f"{candidate.id} joins lead, unproven: {len(stand.members)} on it")

    # --- attempts --------------------------------------------------------------------------------

    def _block(self, buy: Buy) -> tuple[JSON, Evaluated]:
        """Makes a block's attempts, and journals what follows from them."""
        run, version = self._run, self._stands[buy.version].version
        tree, name = run.repo.tree(version.commit), self._names[buy.version]

        def made() -> Evaluated:
            policy = run.lab.train(tree, seed=0, steps=0)
            samples, part = range(buy.sample, buy.sample + 1), Part(run.plan.order, buy.tasks)
            limit = run.plan.search
            return run.lab.evaluate(
                tree, policy, split=SEARCH, limit=limit, samples=samples, part=part
            )

        if buy.version:
            seen = made()
        else:
            with must_work(version):
                seen = made()
        self._bought[buy.version].append((buy, seen))
        rows = self._rows(buy.version, [seen]).seeds[0]
        by_task = {row.task_key: row.clean for row in rows}
        order = run.lab.order_of(SEARCH, run.plan.search, run.plan.order)
        word, chance = self.race.took(buy, (by_task.get(order[at]) for at in buy.tasks))
        told = self._told(buy, name, word, chance, seen)
        key = f"race/{name.removeprefix(f'{run.id}/')}/{len(self._bought[buy.version])}"
        return run.once(key, "race", {"commit": version.commit}, lambda: told), seen

    def _told(self, buy: Buy, name: str, word: str, chance: Chance | None, seen: Evaluated) -> JSON:
        told = {"of": name, "kind": buy.kind, "word": word, "clean": seen.clean}
        told |= {"attempts": seen.planned, "made": self.race.attempts(buy.version)}
        return told | (chance._asdict() if chance else {})

    def _rows(self, number: int, seen: Iterable[Evaluated]) -> Arm:
        return self._run.lab.rows(self._ref(number, list(seen)))

    def _ref(self, number: int, seen: list[Evaluated]) -> ArmRef:
        run, version = self._run, self._stands[number].version
        whole = Evaluated([one.shard for one in seen], sum(one.planned for one in seen), 0, 0, 0)
        return run.lab.arm_of(version.id, run.repo.tree(version.commit), {0: whole})

    def _common(self, one: int, other: int) -> tuple[ArmRef, ArmRef] | None:
        """Two versions on the attempts that both have: whole passes over the search tasks."""
        passes = min(self.race.attempts(number) // self._tasks for number in (one, other))
        if not passes:
            return None
        sides = (
            self._ref(number, [seen for buy, seen in self._bought[number] if buy.sample < passes])
            for number in (one, other)
        )
        before, after = sides
        return before, after

    def _objections(self, below: int, number: int) -> tuple[Finding, ...]:
        """Vetoes that an edit earns and what it stands on does not."""
        inspector = self._run.lab.inspector
        refs = [self._ref(at, [seen for _, seen in self._bought[at]]) for at in (below, number)]
        before, after = (inspector.within(ref) for ref in refs)
        inherited = {one.code for one in before if one.severity == "veto"}
        found = [one for one in after if one.severity == "veto" and one.code not in inherited]
        if both := self._common(below, number):
            between = inspector.between(both)
            found += [one for one in between if one.severity == "veto" and one.side != "baseline"]
        return tuple(found)

    def _gain(self, number: int) -> JSON:
        """Against the start on the search tasks: a description, made of what it was chosen by."""
        refs = self._common(0, number)
        if refs is None:
            return None
        before, after = (self._run.lab.rows(ref) for ref in refs)
        seen = effect(pair(before, after), alpha=0.05)
        return [seen.delta, seen.ci_low, seen.ci_high]

    def _likelier(self) -> float:
        """The tip over the start by the race's model, which expects most edits to do little."""
        return sum(self._gains.get(at, 0.0) for at in self.race.trail)


def _words(told: JSON, made: int) -> str:
    if told is None:
        return f"undecided after {made} attempts, when the race's attempts were used up"
    chance = f"a gain above 2 points has a chance of {told['worth']:.2f}"
    return f"{told['word']} after {made} attempts: {chance}"


def _open(reason: str) -> Judged:
    evidence: JSON = {"judge": "checks", "findings": []}
    kind = VerdictKind.INCONCLUSIVE
    return Judged(Verdict(kind, (reason,), screened_out=True, evidence=evidence))
