"""A harness against itself: measured once and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import calibrate as calibration
import numpy as np
import pytest
from calibrate import calibrate
from calibrate import calibration_facts as lines

from meta_agent.composition.inputs import load_run_domain
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.lab.units import EvalUnit
from meta_agent.core.loop import plan as sizes
from meta_agent.core.loop.plan import Plan, plan_for
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.core.task_splits import Halves
from meta_agent.reports import open_display
from tests.steps._bench import TASKS, Bench, ScriptedLab, as_frozen, rollout
from tests.steps._kit import write_tasks

CONFIG = RunConfig(profile="tiny", generations=1)
RATES = np.linspace(0.3, 0.9, TASKS)


@pytest.fixture
def lucky(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Each training run solves tasks at their rate, shifted by the luck of its seed."""
    for name, value in {"_RUNS": 20, "_DRAWS": 16, "_STEP": 0.05}.items():
        monkeypatch.setattr(calibration, name, value)
    monkeypatch.setattr(sizes, "_SEEDS_TRIED", (2, 8))

    @contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Any]:
        yield bench.run

    monkeypatch.setattr(calibration, "open_run", opened)
    monkeypatch.setattr(calibration, "plan_for", lambda *_: PLAN)
    bench.lab = bench.run.lab = _lab_like(bench.lab)
    return bench


class LuckyLab(ScriptedLab):
    """What a run solves depends on its training seed alone."""

    def _evaluate(self, unit: EvalUnit, tree: HarnessTree) -> JSON:
        name, limit, sample = unit.name, unit.limit, unit.samples.start
        won = solves(0.02)(unit.seed + 1000 * sample, limit)
        tasks = self.domain.tasks(unit.split)[:limit]
        rows = [
            rollout(task, name=name, solved=solved, sample_idx=sample)
            for task, solved in zip(tasks, won, strict=True)
        ]
        shard = self.store.write(f"eval-{name}", rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        return Evaluated(kept, limit, sum(won), sum(won), unit.seed, limit)._asdict()


def _lab_like(lab: ScriptedLab) -> LuckyLab:
    made = LuckyLab(
        lab.settings,
        ledger=lab.ledger,
        store=lab.store,
        domain=lab.domain,
        on_step=lambda *_: None,
        stopping=lambda: False,
        policies=lab.apparatus.policies,
        open_sandbox=lab.open_sandbox,
    )
    made.script = lambda _: 0.5
    return made


def solves(sd: float) -> Callable[[int, int], list[bool]]:
    def drawn(seed: int, limit: int) -> list[bool]:
        rng = np.random.default_rng(seed)
        shares = RATES[:limit] + rng.normal(0, sd)
        return [bool(won) for won in rng.random(limit) < shares]

    return drawn


PLAN: Plan = replace(plan_for(CONFIG), looks=(4,), confirm=TASKS, steps=2)


def calibrated(seeds: int = 6, effect: float | None = None) -> Any:
    return calibrate(CONFIG, open_display(), seeds=seeds, effect=effect)


def test_a_calibration_says_how_far_runs_lie_apart_and_what_can_be_seen(lucky: Bench) -> None:
    told = calibrated()
    shares = [np.mean(solves(0.02)(seed, TASKS)) for seed in range(1, 7)]
    assert told["spread"]["total"] == pytest.approx(np.std(shares, ddof=1))
    assert told["spread"]["low"] < told["spread"]["total"] < told["spread"]["high"]
    assert told["false_promotions"]["cases"] == 20
    assert told["false_promotions"]["low"] <= 0.05
    smallest = told["smallest_effect"]
    assert 0.02 < smallest["effect"] < 0.6
    assert smallest["low"] <= smallest["effect"]
    assert told["harness_commit"] == lucky.repo.head()
    assert told["simulated_from"].startswith("a model")


def test_the_same_command_measures_nothing_twice_and_more_seeds_the_rest(lucky: Bench) -> None:
    first = calibrated(4)
    assert lucky.lab.trainings == 4
    assert calibrated(4) == first
    assert lucky.lab.trainings == 4
    calibrated(6)
    assert lucky.lab.trainings == 6
    row = lucky.run.ledger.run("r")
    assert row is not None
    assert row.exit_reason == "calibrated"  # not done: more seeds may be added


def test_a_frozen_policy_is_calibrated_by_fresh_samples(
    lucky: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = as_frozen(PLAN, looks=(2,), generations=1, confirm=TASKS)
    monkeypatch.setattr(calibration, "plan_for", lambda *_: plan)
    told = calibrated(8, effect=0.3)
    assert lucky.lab.trainings == 0
    assert (told["unit"], told["runs"]) == ("samples of each task", "8")
    assert told["simulated_from"] == "the stored runs"
    assert told["spread"]["between"] == "samples"
    assert set(told["wanted"]["needs"]) == {"confirm tasks", "samples a task"}


@pytest.mark.parametrize(("seeds", "effect"), [(1, None), (4, 0.0), (4, 1.5)])
def test_senseless_requests_are_refused_before_anything_starts(
    seeds: int, effect: float | None, tmp_path: Path
) -> None:
    config = RunConfig(workspace=tmp_path / "none")
    with pytest.raises(ConfigError):
        calibrate(config, open_display(), seeds=seeds, effect=effect)
    assert not (tmp_path / "none").exists()


def test_the_drawing_says_every_figure_with_its_interval(lucky: Bench) -> None:
    said = dict(lines(calibrated(4, effect=0.3)))
    assert said["measured"].startswith("4 training runs of ")
    assert "between training seeds" in said["spread"]
    assert "declared: at most 5.0 %" in said["false promotions"]
    assert "80 % probability" in said["detectable effect"]
    assert "for 80 %:" in said["wanted"]


@pytest.mark.parametrize("changes", [{}, {"strategy": "score-only"}, {"generations": 500}], ids=str)
def test_a_small_set_is_measured_on_the_tasks_that_evolve_confirms_on(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    sizes = {"train": 1, "search": 12, "confirm": 10, "vault": 2}
    config = RunConfig(
        tasks=write_tasks(tmp_path, sizes), policy="openai/m", sandbox="process",
        allow_unsafe_process=True, **changes,
    )  # fmt: skip
    asked, measured = (_confirmed(one) for one in (config, calibration._measuring(config)))
    assert measured == asked
    halved = "strategy" not in changes
    assert len(asked) == (12 if halved else 10), "a race uses the whole set, in halves"


def _confirmed(config: RunConfig) -> list[str]:
    """Names of the confirm tasks as `open_run` would have them."""
    domain = load_run_domain(config, sandbox="process")
    seen = Halves(domain) if plan_for(config, domain).halved else domain
    return [task.key for task in seen.tasks("confirm")]


def test_settings_that_measure_nothing_share_their_runs() -> None:
    one, two = (
        calibration._measuring(RunConfig(generations=n, candidates=n, sandbox="process"))
        for n in (1, 5)
    )
    assert one.config_hash == two.config_hash
    other = calibration._measuring(RunConfig(train_steps=7, sandbox="process"))
    assert other.config_hash != one.config_hash
