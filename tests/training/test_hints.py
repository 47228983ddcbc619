"""Hints in training: who gets one, what the policy sees of it, and where it must not be."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.core.capabilities import gives_hints
from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.training import of_steps
from meta_agent.core.lab.units import Apparatus
from meta_agent.core.protocols import PlannedRollout, Rollout, Task
from meta_agent.core.rollouts import Runner
from meta_agent.core.rollouts.record import from_json, to_json
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.engines.nano_tokenizer import decode
from meta_agent.policies.training import PolicyChild, RolloutEvent
from meta_agent.policies.training.events.hints import Hints
from meta_agent.policies.training.run import _Loop
from meta_agent.policies.training.seals import Sealed
from tests.training import test_run, test_seals
from tests.training.test_run import FakeDomain, FakeHarness, FakeRunner


class Solved(NanoSwe):
    """nano-swe with a reference solution of each task, in words of its policy's alphabet."""

    def reference(self, task_key: str) -> str | None:
        return "xyxyxyxy"


class KnowsAll(FakeDomain):
    def reference(self, task_key: str) -> str | None:
        return {"b": "0123456789", "d": None}.get(task_key, "abcd")


class Plays(FakeRunner):
    """Attempts at tasks of `solves` succeed, and at all tasks if there is a hint."""

    def __init__(self, *solves: str) -> None:
        super().__init__()
        self.solves = set(solves)

    def _play(self, index: int, planned: PlannedRollout) -> Rollout:
        made = super()._play(index, planned)
        made.outcome, made.hinted = planned.task.key in self.solves, planned.hinted
        return made


def loop(runner: FakeRunner, order: str, **options: Any) -> _Loop:
    recipe = {"temperature": 0.8, "hint_fraction": 0.5}
    return _Loop(runner, FakeHarness([*order]), KnowsAll(), recipe, 3, 1, None, **options)  # type: ignore[arg-type]


def hints(made: _Loop, runner: FakeRunner, step: int, groups: int = 2) -> dict[str, str]:
    made.provide(RolloutEvent(step, groups, 2))
    return {planned.task.key: planned.hint for planned in runner.plan}


def test_tasks_whose_last_group_was_dead_get_hints_until_one_is_solved() -> None:
    runner = Plays()
    made = loop(runner, "bd")
    assert hints(made, runner, 0) == {"b": "", "d": ""}, "the first groups are unaided"
    runner.solves = {"b"}
    assert hints(made, runner, 1) == {"b": "01234", "d": ""}, "both were dead; d has no solution"
    assert (made._host_values["hinted_ratio"], made._host_values["clean_success"]) == (0.5, 0.0)
    assert hints(made, runner, 2) == {"b": "", "d": ""}, "b was solved"


@pytest.mark.parametrize(("dead", "low", "high"), [(0, 0, 0), (30, 0.4, 0.6), (60, 0.9, 0.999)])
def test_tasks_that_were_never_drawn_get_hints_as_often_as_unaided_groups_were_dead(
    dead: int, low: float, high: float
) -> None:
    last = {f"old-{n}": {"solved": n >= dead, "hinted": False} for n in range(60)}
    last |= {f"aided-{n}": {"solved": False, "hinted": True} for n in range(60)}
    given = Hints(KnowsAll(), 0.5)  # type: ignore[arg-type]
    keys = [f"new-{n}" for n in range(4000)]
    keys.sort(key=lambda key: sha256(key.encode()).hexdigest())  # as curricula mix tasks
    share = sum(given.of_task(key, last).share > 0 for key in keys[:2000]) / 2000
    assert low <= share <= high


def test_successes_with_a_hint_are_not_the_policys_own() -> None:
    runner = Plays()
    made = loop(runner, "ab")
    made.provide(RolloutEvent(0, 2, 2))
    runner.solves = {"a", "b"}
    made.provide(RolloutEvent(1, 2, 2))
    assert made._host_values["hinted_ratio"] == 1.0
    assert not {"success", "clean_success"} & made._host_values.keys()
    first, last = (of_steps(made.remembered(), first=first, count=1) for first in (True, False))
    assert len(first) == 4 and last == []


def test_a_recipe_without_the_key_asks_for_no_solution_and_has_no_new_metric() -> None:
    runner = FakeRunner()
    made = test_run.loop(runner, FakeHarness(["b"]))
    made.provide(RolloutEvent(0, 1, 2))
    assert not any(planned.hint for planned in runner.plan)
    assert "hinted_ratio" not in made._host_values and made.state()[0]["_last_groups"] == {}


def test_which_tasks_were_last_groups_is_sealed_and_older_seals_still_open() -> None:
    runner = Plays("a")
    made = loop(runner, "ba")
    made.provide(RolloutEvent(0, 2, 2))
    state, rollouts = made.state()
    older = {name: value for name, value in state.items() if name != "_last_groups"}
    for facts, expected in ((state, "01234"), (older, "")):
        other = Plays()
        resumed = loop(other, "ba")
        resumed.restore(Sealed(1, json.loads(json.dumps(facts)), rollouts))
        assert hints(resumed, other, 1)["b"] == expected


def test_a_candidate_with_hints_is_refused_if_no_task_has_a_solution() -> None:
    lab = SimpleNamespace(domain=NanoSwe())
    Apparatus._require_hints(lab, {"hint_fraction": 0.0})  # type: ignore[arg-type]
    with pytest.raises(CandidateError, match=r"hint_fraction is 0\.5.*nano-swe") as caught:
        Apparatus._require_hints(lab, {"hint_fraction": 0.5})  # type: ignore[arg-type]
    assert caught.value.reason == "no_hints"


def test_the_mark_is_stored_and_records_without_it_stay_as_they_are() -> None:
    rollout = _attempt()
    assert "hinted" not in to_json(rollout)
    rollout.hinted = 0.25
    assert from_json(json.loads(json.dumps(to_json(rollout)))) == rollout


def _attempt() -> Rollout:
    task = FakeDomain().tasks("train")[0]
    return FakeRunner()._play(0, PlannedRollout(task, 0, 0, "train/0000/000"))


def plan(domain: NanoSwe, hint: str) -> list[PlannedRollout]:
    task: Task = domain.tasks("train")[0]
    hinted = 0.5 if hint else 0.0
    return [PlannedRollout(task, n, 1, "train/0000/000", hint, hinted) for n in range(2)]


@pytest.mark.train
def test_a_hint_is_prompt_and_outside_the_loss_and_no_message_holds_it(
    child: PolicyChild, session: HarnessSession
) -> None:
    domain = Solved()
    runner = Runner(domain, session, child, test_run.STAMP)
    for hint in ("", "xyxy"):
        for rollout in runner.run(plan(domain, hint)):
            tokens = rollout.tokens
            assert tokens is not None
            assert ("xyxy" in decode(tokens.prompt_ids)) == bool(hint)
            assert "correct solution" not in decode(tokens.completion_ids) and tokens.exact
            first = next(m for m in rollout.messages if m["role"] == "user")
            assert "xyxy" not in first["content"]
            assert rollout.hinted == (0.5 if hint else 0.0)


@pytest.mark.train
def test_a_killed_or_stopped_training_with_hints_ends_on_the_same_bits(
    child: PolicyChild,
    session: HarnessSession,
    nano_policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(test_run, "NanoSwe", Solved)
    assert gives_hints(Solved()) and not gives_hints(NanoSwe())
    recipe = test_run.TINY | {"hint_fraction": 0.5}
    whole = test_seals.train(
        child, session, nano_policy, tmp_path / "whole", seal_every=0, recipe=recipe
    )
    assert whole.metrics[-1]["hinted_ratio"] > 0
    test_seals.ends_alike_if_killed_or_stopped(
        whole, child, session, nano_policy, tmp_path, recipe=recipe
    )
