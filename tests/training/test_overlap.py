"""Rollouts of the next event, made while the trainer trains on this one's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from meta_agent.core.errors import InfrastructureError, Interrupted
from meta_agent.core.lab.training import step_of
from meta_agent.core.protocols import PlannedRollout, Rollout, RolloutFailure, TokenRecord
from meta_agent.policies.training import RolloutEvent, Row
from meta_agent.policies.training.events.overlap import Overlap
from meta_agent.policies.training.run import _Loop
from meta_agent.policies.training.seals import Sealed
from tests.training._loop import Drops, FakeHarness, FakeRunner, loop

STEPS = 3


class Served:
    """Serves what it is given, but at the steps of which it `fails`; keeps what it is told to."""

    def __init__(self, *fails: int, kept: int | None = None) -> None:
        self._fails, self._kept = fails, kept
        self.log: list[str] = []
        self.name = ""

    def publish(self, step: int) -> str:
        self.log.append(f"publish {step}")
        if step not in self._fails:
            self.name = f"p+{step}"
        return self.name

    def publish_again(self, step: int) -> str | None:
        self.log.append(f"again {step}")
        if step != self._kept:
            return None
        self.name = f"p+{step}"
        return self.name


class Rolls(FakeRunner):
    """Rolls out under what is served when it begins; `act` may do what else can happen."""

    def __init__(self, served: Served, act: Callable[[int, Callable[[], bool]], None]) -> None:
        super().__init__()
        self._served, self._act = served, act

    def run(
        self,
        plan: Sequence[PlannedRollout],
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        stopping: Callable[[], bool],
    ) -> list[Rollout]:
        step = int(plan[0].group_id.split("/")[1])
        self._act(step, stopping)
        name = self._served.name
        self._served.log.append(f"roll {step} under {name}")
        made = super().run(plan, temperature=temperature, top_p=top_p, stopping=stopping)
        for rollout in made:
            rollout.policy, rollout.tokens = name, TokenRecord([1], [2], [1], [-0.5])
        return made


def nothing(step: int, stopping: Callable[[], bool]) -> None:
    """Goes well."""


def overlapping(
    served: Served,
    act: Callable[[int, Callable[[], bool]], None] = nothing,
    *,
    most: int = 1,
    each: int = 1,
    **options: Any,
) -> tuple[_Loop, Overlap, FakeHarness]:
    overlap, harness = Overlap(served, most, each, STEPS * each), FakeHarness(["b", "d"])
    return loop(Rolls(served, act), harness, overlap=overlap, **options), overlap, harness


def event(step: int) -> RolloutEvent:
    return RolloutEvent(step, 2, 2)


def trained(made: _Loop, overlap: Overlap, each: int = 1) -> list[list[Row]]:
    try:
        return [made.provide(event(each * step)) for step in range(STEPS)]
    finally:
        overlap.end()


def test_the_next_event_runs_under_what_was_published_before_this_one_is_trained_on() -> None:
    served = Served()
    made, overlap, _ = overlapping(served)
    trained(made, overlap)
    assert served.log == [
        *("publish 0", "roll 0 under p+0", "roll 1 under p+0"),
        *("publish 1", "roll 2 under p+1"),  # and the last event begins nothing
    ]
    assert made.rollouts_made == STEPS * 4
    assert [step_of(one) for one in made.remembered()[::4]] == [1, 3]


def test_without_staleness_every_event_runs_under_its_own_version() -> None:
    served = Served()
    made, overlap, _ = overlapping(served, most=0)
    trained(made, overlap)
    assert served.log == [
        f"{what}" for s in range(STEPS) for what in (f"publish {s}", f"roll {s} under p+{s}")
    ]


def test_rows_that_are_trained_on_twice_are_one_event_old() -> None:
    served = Served()
    made, overlap, _ = overlapping(served, each=2)
    rows = trained(made, overlap, each=2)
    assert served.log[-1] == "roll 4 under p+2"
    assert all(row.tokens for event_rows in rows for row in event_rows)


def test_a_curriculum_is_asked_what_it_would_be_asked_without_overlap() -> None:
    asked = []
    for most in (0, 1):
        made, overlap, harness = overlapping(Served(), most=most)
        trained(made, overlap)
        asked.append(harness.histories)
    assert asked[0] == asked[1] and len(asked[0]) == STEPS


def test_groups_are_refilled_under_the_version_of_their_event() -> None:
    served = Served()
    overlap, harness = Overlap(served, 1, 1, STEPS), Drops(["b", "d", "a"], "b")
    made = loop(Rolls(served, nothing), harness, 2, overlap=overlap)
    rows = trained(made, overlap)
    assert served.log == [
        *("publish 0", *["roll 0 under p+0"] * 2, *["roll 1 under p+0"] * 2),
        *("publish 1", *["roll 2 under p+1"] * 2),
    ]
    assert all(row.weight == 1.0 for event_rows in rows for row in event_rows)
    assert made.rollouts_made == STEPS * 6 and made.state()[0]["_filter_state"] == STEPS * 3


def test_it_runs_beside_the_trainer_and_an_error_surfaces_at_its_event() -> None:
    threads, trains = [], threading.Event()

    def act(step: int, stopping: Callable[[], bool]) -> None:
        threads.append(threading.current_thread())
        if step == 1:
            assert trains.wait(60)
            raise KeyError("the judge broke")

    made, overlap, _ = overlapping(Served(), act)
    made.provide(event(0))
    trains.set()  # the rows of event 0 are out, and those of event 1 are not made yet
    with pytest.raises(KeyError, match="the judge broke"):
        made.provide(event(1))
    overlap.end()
    assert threads[0] is threading.current_thread() is not threads[1]


def test_a_training_that_ends_early_ends_what_is_under_way() -> None:
    def act(step: int, stopping: Callable[[], bool]) -> None:
        if step == 1:
            for _ in range(6000):
                if stopping():
                    ended.append(step)
                    raise Interrupted
                time.sleep(0.01)

    ended: list[int] = []
    made, overlap, _ = overlapping(Served(), act)
    made.provide(event(0))
    overlap.end()
    assert ended == [1] and made.rollouts_made == 4


def test_where_publishing_fails_the_old_version_serves_on_and_nothing_is_begun_too_old() -> None:
    served = Served(1)
    made, overlap, _ = overlapping(served)
    rows = trained(made, overlap)
    assert served.log == [
        *("publish 0", "roll 0 under p+0", "roll 1 under p+0"),
        *("publish 1", "publish 2", "roll 2 under p+2"),  # not ahead: it would be two events old
    ]
    assert all(row.tokens for event_rows in rows for row in event_rows)


def test_attempts_are_not_spent_on_a_version_that_is_too_old() -> None:
    served = Served(1, 2)
    made, overlap, _ = overlapping(served)
    with pytest.raises(InfrastructureError, match="weights after step 2 did not reach the engine"):
        trained(made, overlap)
    assert served.log[-1] == "publish 2"


def test_rows_of_an_engine_that_was_behind_are_dropped_and_counted() -> None:
    def act(step: int, stopping: Callable[[], bool]) -> None:
        if step == 2:
            served.name = "p+0"  # one that was restarted with what it had

    served = Served()
    made, overlap, _ = overlapping(served, act)
    rows = trained(made, overlap)
    assert [row.tokens is None for row in rows[1]] == [False] * 4
    assert rows[2] == [Row(None, None, 1.0)] * 4
    assert made._host_values["stale_ratio"] == 1.0 and made._host_values["staleness"] == 2.0
    assert made.rollouts_made == STEPS * 4, "each was an attempt"


def test_an_engine_that_answers_nothing_is_no_event_to_train_on() -> None:
    class Unheard(Rolls):
        def _play(self, index: int, planned: PlannedRollout) -> Rollout:
            made = super()._play(index, planned)
            if index % 2:  # the others had ended
                made.outcome, made.error = None, RolloutFailure("infra", "model: it died")
            return made

        def run(self, *args: Any, **options: Any) -> list[Rollout]:
            made = super().run(*args, **options)
            for rollout in made:
                rollout.turns, rollout.tokens = 1, None
            return made

    overlap = Overlap(Served(), 1, 1, STEPS)
    made = loop(Unheard(Served(), nothing), FakeHarness(["b"]), overlap=overlap)
    with pytest.raises(InfrastructureError, match="answered none of 4 attempts: model: it died"):
        made.provide(event(0))
    overlap.end()


class Seal:
    """What a training knew when it was sealed."""

    def __init__(self, made: _Loop) -> None:
        self._made = made
        self.kept: Sealed | None = None

    def __call__(self, asked: bool) -> None:
        state, rollouts = self._made.state()
        self.kept = Sealed(1, {**state, "metrics": []}, rollouts)


def gone_on(served: Served, sealed: Sealed | None) -> list[list[Row]]:
    assert sealed is not None
    made, overlap, _ = overlapping(served)
    made.restore(sealed)
    rows = [made.provide(event(step)) for step in (1, 2)]
    overlap.end()
    assert made.rollouts_made == STEPS * 4
    return rows


def test_rollouts_that_are_complete_are_sealed_and_not_made_again() -> None:
    made, overlap, _ = overlapping(Served())
    seal = Seal(made)
    made.provide(event(0))
    rows = [made.provide(event(1), seal), made.provide(event(2))]
    overlap.end()
    served = Served()
    assert gone_on(served, seal.kept) == rows
    assert served.log == ["publish 1", "roll 2 under p+1"]


@pytest.mark.parametrize("kept", [0, None])
def test_rollouts_that_were_under_way_are_made_again_under_their_version_where_it_is(
    kept: int | None,
) -> None:
    stop = threading.Event()
    made, overlap, _ = overlapping(Served(), stopping=stop.is_set)
    seal = Seal(made)
    made.provide(event(0))
    stop.set()
    with pytest.raises(Interrupted):
        made.provide(event(1), seal)
    overlap.end()
    served = Served(kept=kept)
    gone_on(served, seal.kept)
    under = ["again 0", "roll 1 under p+0", "publish 1"]
    newer = ["again 0", "publish 1", "roll 1 under p+1"]
    assert served.log == [*(newer if kept is None else under), "roll 2 under p+1"]
