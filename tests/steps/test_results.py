"""The end of a run over all training seeds that it has trained anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.loop.finish import finish
from meta_agent.core.loop.records import HandedOver, Version
from meta_agent.core.protocols import HarnessTree, Rollout, RolloutFailure, Task
from tests.steps import _bench
from tests.steps._bench import Bench, rollout

LOOKS = (3,)


def measured(bench: Bench, *versions: Version) -> dict[str, object]:
    bench.run.plan = replace(bench.run.plan, looks=LOOKS)
    ended(bench, *versions)
    (step,) = bench.run.ledger.steps(kind="results")
    told: dict[str, object] = step.outcome
    return told


def ended(bench: Bench, *versions: Version) -> None:
    last = bench.lab.train(bench.repo.tree(versions[-1].commit), seed=0, steps=bench.run.plan.steps)
    finish(bench.run, versions[0], HandedOver(versions[-1], last, "proven"))


def second_version(bench: Bench) -> Version:
    """Another commit, which solves more."""
    first = bench.repo.head()
    path = "swe/reward.py"
    files = {**bench.repo.tree(first).files}
    files[path] = files[path] + b"\n# another\n"

    def better(tree: HarnessTree) -> float:
        return 0.8 if tree.files[path].endswith(b"another\n") else 0.5

    bench.lab.script = better
    (candidate,) = bench.candidates(bench.collected(), ("reward", {path: files[path].decode()}))
    return Version("v1", candidate.commit)


def train(bench: Bench, version: Version, *seeds: int) -> None:
    tree = bench.repo.tree(version.commit)
    for seed in seeds:
        bench.lab.train(tree, seed=seed, steps=bench.run.plan.steps)


def test_both_versions_are_told_over_the_seeds_that_both_have_with_intervals(bench: Bench) -> None:
    first, last = Version("v0", bench.repo.head()), second_version(bench)
    train(bench, first, 0, 1, 2, 3)
    train(bench, last, 0, 1, 3)
    before = bench.lab.trainings
    told = measured(bench, first, last)
    assert bench.lab.trainings == before
    assert told["seeds"] == [1, 3]  # seed 0 was searched on
    assert told["before"]["runs"] == pytest.approx([0.5] * 2)  # type: ignore[index]
    assert told["after"]["iqm"]["value"] == pytest.approx(0.8)  # type: ignore[index]
    difference = told["difference"]
    assert difference["value"] == pytest.approx(0.3)  # type: ignore[index]
    assert 0.15 < difference["low"] < 0.3 < difference["high"] < 0.45  # type: ignore[index]
    assert told["improvement"]["value"] == 1.0  # type: ignore[index]


def test_a_run_without_a_promotion_has_one_version_to_tell(bench: Bench) -> None:
    first = Version("v0", bench.repo.head())
    train(bench, first, 0, 1)
    told = measured(bench, first)
    assert told["seeds"] == [1]
    assert "after" not in told and "difference" not in told


def test_what_machines_lost_is_no_failure_of_the_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(task: Task, **facts: Any) -> Rollout:
        lost = {"outcome": None, "error": RolloutFailure("infra", "open: no machine")}
        return rollout(task, **facts, **(lost if task.key == "vault-000" else {}))

    monkeypatch.setattr(_bench, "rollout", made)
    bench.lab.script = lambda _: 0.5
    first = Version("v0", bench.repo.head())
    measured(bench, first)
    (told, _) = (step.outcome for step in bench.run.ledger.steps(kind="vault"))
    assert (told["n"], told["lost"]) == (199, 1)
    assert told["clean_success"] == pytest.approx(99 / 199)  # a solved one is what was lost


def test_a_vault_of_one_task_has_no_interval(bench: Bench) -> None:
    bench.run.plan = replace(bench.run.plan, vault=1)
    first = Version("v0", bench.repo.head())
    ended(bench, first)
    assert bench.run.ledger.steps(kind="results") == []
