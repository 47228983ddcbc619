"""A frozen policy in the loop: looks by samples, what cannot count, a whole run without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.backtest.live import ArmRef
from meta_agent.config import RunConfig
from meta_agent.protocols import HarnessTree, VerdictKind
from meta_agent.steps._headline import cautions
from meta_agent.steps.confirm import confirm
from meta_agent.steps.plan import plan_for
from meta_agent.steps.run import Tested as Checked
from meta_agent.steps.test import screen
from meta_agent.steps.test import test as check
from tests.loopback import Call, openai_server
from tests.steps._bench import PLAN, TASKS, Bench, Tasks
from tests.steps._kit import policy, write_tasks

FROZEN = RunConfig(policy="openai/m", samples=2)


@pytest.fixture
def frozen(bench: Bench) -> Bench:
    bench.run.config = FROZEN
    bench.run.plan = replace(PLAN, steps=0, looks=(2, 4), frozen=True)
    return bench


def edited(bench: Bench, path: str = "swe/agent.py", mark: str = "# better") -> dict[str, str]:
    return {path: f"{bench.text(path)}\n{mark}\n"}


def solves(share: float) -> Any:
    def script(tree: HarnessTree) -> float:
        return share if any(b"# better" in data for data in tree.files.values()) else 0.5

    return script


def evaluations(bench: Bench) -> list[str]:
    return [step.key for step in bench.run.ledger.steps(kind="eval") if "confirm" in step.key]


def test_a_look_buys_samples_of_each_task_and_the_task_is_the_unit(frozen: Bench) -> None:
    collected = frozen.collected()
    (candidate,) = frozen.candidates(collected, ("scaffold", edited(frozen)))
    frozen.lab.script, before = solves(0.8), frozen.lab.trainings
    judged = confirm(frozen.run, collected, Checked(candidate, ()))
    assert judged.verdict.kind is VerdictKind.PROMOTE
    effect = judged.verdict.effect
    assert effect is not None
    assert (effect.training_seeds, effect.pairs) == (1, 2 * TASKS)
    assert judged.verdict.evidence["numbers"]["tasks"] == TASKS
    assert frozen.lab.trainings == before


def test_the_second_look_adds_samples_and_reads_the_first_ones_again(frozen: Bench) -> None:
    collected = frozen.collected()
    (candidate,) = frozen.candidates(collected, ("scaffold", edited(frozen)))
    frozen.lab.script = solves(0.52)  # too little to tell
    judged = confirm(frozen.run, collected, Checked(candidate, ()))
    assert judged.arms is not None
    shards = judged.arms[1].shards[0]
    assert [part["name"].rpartition("-k")[2] for part in shards] == ["0-2", "2-4"]
    assert judged.arms[1].planned == 4 * TASKS
    assert len(evaluations(frozen)) == 4  # two arms, two blocks
    looks = [step.outcome for step in frozen.run.ledger.steps(kind="live")]
    assert [look["samples"] for look in looks] == [2, 4]
    again = ArmRef.from_json(json.loads(json.dumps(judged.arms[1].to_json())))
    assert frozen.lab.rows(again).digest == frozen.lab.rows(judged.arms[1]).digest


def test_the_baseline_is_measured_once_for_all_finalists(frozen: Bench) -> None:
    collected = frozen.collected()
    first, second = frozen.candidates(
        collected,
        ("scaffold", edited(frozen)),
        ("scaffold", edited(frozen, mark="# better, too")),
    )
    frozen.lab.script = solves(0.8)
    for candidate in (first, second):
        confirm(frozen.run, collected, Checked(candidate, ()))
    assert len(evaluations(frozen)) == 3


@pytest.mark.parametrize(
    ("factor", "path"),
    [("reward", "swe/reward.py"), ("filter", "swe/filter.py"), ("data", "swe/curriculum.py")],
)
def test_what_acts_through_training_is_stopped_before_anything_is_spent(
    frozen: Bench, factor: str, path: str
) -> None:
    collected = frozen.collected()
    before = len(frozen.run.ledger.steps(kind="eval"))
    frozen.run.config = RunConfig(profile="tiny")  # as if it had been admitted
    (candidate,) = frozen.candidates(collected, (factor, edited(frozen, path)))
    frozen.run.config = FROZEN
    tested = check(frozen.run, collected, candidate)
    assert [finding.code for finding in tested.findings] == ["factor.untrained"]
    screened = screen(frozen.run, collected, [tested])
    assert screened.judged[candidate.id].verdict.kind is VerdictKind.INVALID
    assert len(frozen.run.ledger.steps(kind="eval")) == before


def test_what_acts_through_training_is_not_even_admitted(frozen: Bench) -> None:
    collected = frozen.collected()
    assert frozen.candidates(collected, ("reward", edited(frozen, "swe/reward.py"))) == []
    assert frozen.run.factors == ("scaffold", "diagnostics")


def test_sizes_are_those_of_the_task_set_where_it_is_small() -> None:
    class Few(Tasks):
        def tasks(self, split: Any) -> Any:
            return super().tasks(split)[:9]

    plan = plan_for(FROZEN, Few())  # type: ignore[arg-type]
    assert (plan.search, plan.confirm, plan.vault) == (9, 9, 9)
    assert (plan.looks, plan.steps, plan.unit) == ((2, 4), 0, "samples a task")
    assert plan.blocks(0) == [range(2)] and plan.blocks(1) == [range(2), range(2, 4)]
    assert plan_for(FROZEN).confirm > plan.confirm
    assert plan_for(RunConfig(), Few()).confirm == 512  # type: ignore[arg-type]


def test_a_set_that_can_prove_nothing_is_said_to() -> None:
    class Four(Tasks):
        def tasks(self, split: Any) -> Any:
            return super().tasks(split)[:4]

    plan = plan_for(FROZEN, Four())  # type: ignore[arg-type]
    (told,) = cautions(plan, Four())  # type: ignore[arg-type]
    assert "4 confirm tasks cannot prove any effect" in told
    assert cautions(plan_for(RunConfig()), Four()) == []  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_run_killed_in_an_evaluation_resumes_and_pays_no_recorded_call_twice(
    tmp_path: Path,
) -> None:
    tasks, running = write_tasks(tmp_path / "tasks"), list[subprocess.Popen[str]]()

    def kill_once(call: Call) -> None:
        if call.number == 40:  # in the middle of the first look
            running[0].kill()

    with openai_server(policy(kill_once), serial=False) as url:
        argv = [sys.executable, "-m", "tests.steps._frozen_program"]
        argv += [str(tmp_path / "w"), str(tasks), str(url)]
        running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        running[0].communicate(timeout=200)
        assert running[0].returncode == -9
        done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        asked = Counter(json.dumps(dict(call.raw), sort_keys=True) for call in url.calls)
    assert told["heavy"] == []
    assert told["candidates"]["c0"][:2] == ["scaffold", "PROMOTE"]
    assert told["candidates"]["c1"][:2] == ["scaffold", "INCONCLUSIVE"]
    assert len(told["candidates"]) == 2
    twice = [key for key, count in asked.items() if count > 1]
    assert len(twice) <= 2  # what was in flight at the kill: `concurrency` calls, never recorded
    assert sum(asked.values()) - len(asked) == len(twice)
