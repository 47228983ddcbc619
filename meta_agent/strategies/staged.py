"""`staged`: one loop for a policy that is trained here and expensive to train.

    read and race    measures the start with frozen weights; edits of the scaffold race on attempts
    warm up          imitates references of training tasks under the best harness
    train in legs    trains a few steps, reads the leg's own attempts, proposes and decides edits
    claim            compares this version, harness and weights, with the start

The race takes at most `RACE_SHARE` of the budget, and less where no idea is left. Between two legs
an edit is decided by what costs least. A reward or a filter is replayed on the attempts of the leg.
A scaffold runs a short race at the present weights. A curriculum or a recipe acts only through
training, so one of them at a time is tried by the next leg. What is accepted is a commit and acts
from the next leg on. A leg that did harm (`leg`) is taken back with the edits that came with it.
The training ends if no budget is left for a leg, if every search task is solved cleanly, or if a
leg that taught nothing brings no edit.

The version with the most clean success on search tasks is claimed, once, on the confirm split. Of
two with equal success it is the one with fewer edits.
Every step is journalled, so a killed run ends on the same bits.

Not covered: proof over training seeds, which `full` makes; policies that train in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from meta_agent.core.lab.live import Evaluated
from meta_agent.core.loop.budget import attempts_left
from meta_agent.core.loop.records import (
    Collected,
    HandedOver,
    Judged,
    Read,
    SearchResult,
    Version,
    undecided,
)
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.approve import to_test
from meta_agent.core.loop.verbs.bundle import move_lead
from meta_agent.core.loop.verbs.claim import Sides, prove_version
from meta_agent.core.loop.verbs.collect import read
from meta_agent.core.loop.verbs.hand_over import hand_over_version
from meta_agent.core.loop.verbs.learn import conclude
from meta_agent.core.loop.verbs.promote import promote_diagnostics
from meta_agent.core.loop.verbs.propose import propose, revise
from meta_agent.core.loop.verbs.test import REPLAYED, about, backtest, test
from meta_agent.core.loop.verbs.train_on import Checkpoint, on_search
from meta_agent.core.protocols import Factor
from meta_agent.strategies._race_rule import TERMS
from meta_agent.strategies.full import Full
from meta_agent.strategies.leg import Leg, leg_price, teaches_nothing, train_leg
from meta_agent.strategies.race import Course, Member, Shows, Stand, raced
from meta_agent.strategies.warm_up import warm_up

RACED: Final[tuple[Factor, ...]] = ("scaffold", "diagnostics")
"""The factors that act, or are measured, without any training."""
SHORT_RACE: Final = 2
"""A race between two legs takes at most so many attempts at each search task."""
SHORT_TERMS: Final = replace(TERMS, most=0.34)
"""A short race has few edits, so one of them may take a third of its attempts."""


class Point(NamedTuple):
    """A harness with weights trained under it, and their attempts at search tasks."""

    stand: Stand
    weights: Checkpoint

    @property
    def version(self) -> Version:
        return self.stand.version


class Staged(Full):
    """Races edits with frozen weights, warms the policy up, trains in legs, and claims once."""

    def carry_out(self, run: Run, first: Version) -> HandedOver:
        if not run.plan.leg:  # the policy stays frozen
            return super().carry_out(run, first)
        course = self._race(run, first)
        start = Checkpoint(run.lab.untrained(), on_base(run, course.tip.version))
        warmed = Point(course.tip, warm_up(run, course.tip.version, start))
        training = _Training(run, first, self.shows, warmed, dict(course.read))
        best = training.in_legs()
        training.conclude_dropped(best)
        return _claim(run, first, best, training.read)

    def _race(self, run: Run, first: Version) -> Course:
        run.stage_factors = RACED
        course = raced(run, first, self.shows)
        run.stage_factors = ()
        return course


class _Training:
    """The legs of a run: the point that stays, and the edits that the next leg tries."""

    def __init__(
        self, run: Run, first: Version, shows: Shows, start: Point, reads: dict[int, Read]
    ) -> None:
        self.read = reads
        self._run, self._first, self._shows = run, first, shows
        self._stays = self._best = start
        self._tried = start.stand
        """The harness of the next leg, with edits that no leg has tried yet."""
        self._metrics: list[Mapping[str, object]] = []  # of the legs that stay
        self._joined = list(start.stand.members)

    def in_legs(self) -> Point:
        """Trains until no attempts or no ideas are left. Returns the best point on search tasks."""
        for number in range(self._run.plan.legs):
            if self._best.weights.evaluation.clean == self._best.weights.evaluation.planned:
                self._run.note("no leg could do better: every search task is solved cleanly")
                break
            if self._spare() < 0:
                break
            tried = self._tried
            leg = self._train(number)
            spare = self._spare()
            if spare < 0:
                break
            news = tried is not self._tried  # edits went back with the leg
            if leg is not None:
                news |= self._read_leg(number, leg, spare)
            if not news and taught_nothing(leg):
                self._run.note("the training ends: the leg taught nothing, and no edit joined")
                break
        return self._best

    def conclude_dropped(self, best: Point) -> None:
        """Records the verdicts of edits that were accepted once, and are not in the best point."""
        members = best.stand.candidates
        reason = "taken back with a leg, or no leg under it did better on search"
        for member in self._joined:
            candidate = member.tested.candidate
            if candidate not in members:
                verdict = undecided(reason)
                conclude(self._run, member.collected, candidate, verdict, member.reading)

    # --- one leg ---------------------------------------------------------------------------------

    def _spare(self) -> int:
        """Returns the attempts that are left beside the next leg, the claim and the 2x2."""
        run, plan = self._run, self._run.plan
        price = leg_price(run, run.repo.tree(self._tried.version.commit))
        return attempts_left(run) - price - 2 * (plan.confirm + plan.search)

    def _train(self, number: int) -> Leg | None:
        """Trains a leg, and keeps it or takes it back with the edits that came with it."""
        run, start = self._run, self._stays
        leg = train_leg(run, number, self._tried.version, start.weights, self._metrics)
        if leg is None or leg.harm:
            if self._tried is not start.stand:
                stays, last = start.stand, max(self.read)
                move_lead(run, f"leg/{number}/back", last, stays.version.commit, stays.candidates)
            self._tried = start.stand
            return leg
        self._stays = Point(self._tried, leg.end)
        self._metrics += leg.end.trained.metrics
        if self._does_better(leg):
            self._best = self._stays
        return leg

    def _does_better(self, leg: Leg) -> bool:
        """Returns True if a leg is the best so far. Of two equals, the one with fewer edits is."""
        clean, best = leg.end.evaluation.clean, self._best.weights.evaluation.clean
        is_as_small = len(self._tried.members) <= len(self._best.stand.members)
        return clean > best or (clean == best and is_as_small)

    # --- edits between two legs ------------------------------------------------------------------

    def _read_leg(self, number: int, leg: Leg, spare: int) -> bool:
        """Reads the leg's attempts, and decides what is proposed. Returns True if any joins."""
        run, version, generation = self._run, self._tried.version, 1 + max(self.read)
        tree = run.repo.tree(version.commit)
        collected = Collected(version, tree, leg.end.trained, leg.end.evaluation)
        earlier = self.read[generation - 1].reading.evidence
        reading = read(run, collected, generation, earlier)
        self.read[generation] = Read(collected, reading)
        visible = self._shows(reading)
        proposed = propose(run, collected, visible, generation)
        again = partial(revise, run, collected, visible)
        ideas = to_test(run, collected, reading, proposed, again)
        course = self._short_race(number, spare, sum("scaffold" in about(idea) for idea in ideas))
        for candidate in ideas:
            member = Member(test(run, collected, candidate), collected, reading)
            if judged := self._decide(course, member):
                conclude(run, collected, candidate, judged, reading)
        course.race.finish()
        self._joined += course.joined
        self._tried = course.tip
        return self._tried.version != version

    def _short_race(self, number: int, spare: int, edits: int) -> Course:
        run, plan = self._run, self._run.plan
        attempts = plan.search + max(0, min(spare, SHORT_RACE * plan.search))
        course = Course(
            run,
            self._tried,
            self._shows,
            attempts=attempts,
            edits=edits,
            terms=SHORT_TERMS,
            weights=self._stays.weights.trained,
            name=f"@leg{number}",
            main=self._first.commit,
        )
        course.buy_until_decided(0)  # the attempts that the leg was judged by
        return course

    def _decide(self, course: Course, member: Member) -> Judged | None:
        """Returns the verdict on an edit by what costs least, or None if it joins."""
        factors = about(member.tested.candidate)
        if member.tested.vetoed or (factors & set(RACED) and not factors - set(RACED)):
            return course.decide(member)
        if factors & REPLAYED and (refusal := backtest(self._run, member.tested)):
            return undecided(refusal)
        new = course.tip.candidates[len(self._stays.stand.members) :]
        if factors & {"data", "recipe"} and any(c.factor in ("data", "recipe") for c in new):
            return undecided("one edit of curriculum or recipe at a time is tried by a leg")
        return course.decide(member, unscreened="scaffold" not in factors)


def taught_nothing(leg: Leg | None) -> bool:
    """Returns True if a leg failed, did harm, or moved no weight."""
    return leg is None or bool(leg.harm) or teaches_nothing(leg.end.trained.metrics)


def on_base(run: Run, version: Version) -> Evaluated:
    """Returns the attempts of the base policy at search tasks under a version."""
    return on_search(run, run.repo.tree(version.commit), run.lab.untrained()).evaluation


def _claim(run: Run, first: Version, best: Point, reads: Mapping[int, Read]) -> HandedOver:
    """Tests the best point against the start, and hands over what that leads to."""
    start, weights = run.lab.untrained(), best.weights.trained
    result = SearchResult(best.version, best.stand.candidates, reads)
    if not result.acting and weights == start:
        watched = promote_diagnostics(run, first, result)
        return HandedOver(watched, start, "start", "nothing that was tried did better on search")
    version = prove_version(run, Sides(first, best.version), (start, weights))
    return hand_over_version(run, first, result, (start, weights), version)
