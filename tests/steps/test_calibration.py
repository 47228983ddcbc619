"""A harness against itself: measured once, resumed, and what `evolve` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meta_agent.composition.inputs import load_run_domain
from meta_agent.composition.visible import KIND, declare, terms, visible
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.lab.live import Evaluated, Trained
from meta_agent.core.lab.measured import Part
from meta_agent.core.loop import plan as sizes
from meta_agent.core.loop.plan import Plan, plan_for
from meta_agent.core.protocols import JSON, HarnessTree, Split
from meta_agent.core.task_splits import Halves
from meta_agent.reports import open_display, reduce
from meta_agent.reports._facts import calibration_facts as lines
from meta_agent.reports._facts import claim_facts
from meta_agent.studies import calibration
from meta_agent.studies.calibration import calibrate
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

    def _evaluate(
        self,
        name: str,
        tree: HarnessTree,
        trained: Trained,
        split: Split,
        limit: int,
        samples: range = range(1),
        part: Part | None = None,
    ) -> JSON:
        won = solves(0.02)(trained.seed + 1000 * samples.start, limit)
        tasks = self.domain.tasks(split)[:limit]
        rows = [
            rollout(task, name=name, solved=solved, sample_idx=samples.start)
            for task, solved in zip(tasks, won, strict=True)
        ]
        shard = self.store.write(f"eval-{name}", rows)
        kept = {"name": shard.name, "sha256": shard.sha256}
        return Evaluated(kept, limit, sum(won), sum(won), trained.seed, limit)._asdict()


def _lab_like(lab: ScriptedLab) -> LuckyLab:
    made = LuckyLab(
        lab.settings,
        ledger=lab.ledger,
        store=lab.store,
        domain=lab.domain,
        on_step=lambda *_: None,
        stopping=lambda: False,
        policies=lab._apparatus.policies,
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
    return calibrate(CONFIG, open_display(live=False), seeds=seeds, effect=effect)


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
    assert told["evaluator_hash"] == "ev"
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


def test_stored_runs_are_drawn_from_where_there_are_enough(lucky: Bench) -> None:
    assert calibrated(8)["simulated_from"] == "the stored runs"


def test_what_a_wanted_gain_needs_is_worked_out(lucky: Bench) -> None:
    told = calibrated(6, effect=0.3)["wanted"]
    assert told["needs"]["training seeds"] == 8
    tiny = calibrated(6, effect=0.001)["wanted"]
    assert tiny["needs"]["training seeds"] is None
    assert tiny["power_now"]["share"] < 0.8


def test_evolve_goes_by_the_newest_calibration_that_fits(lucky: Bench) -> None:
    told = calibrated(4)
    calibrated(6)
    steps = lucky.run.ledger.steps(kind=KIND)
    seen = visible(CONFIG, PLAN, steps, "ev")
    assert seen.calibrated
    assert "calibrated on 6 A/A training runs" in seen.words
    assert visible(CONFIG, PLAN, steps[:1], "ev").effect == told["smallest_effect"]["effect"]


@pytest.mark.parametrize(
    ("config", "plan", "evaluator"),
    [
        (CONFIG, PLAN, "another grader"),
        (CONFIG, replace(PLAN, steps=3), "ev"),
        (CONFIG, replace(PLAN, looks=(6,)), "ev"),
        (CONFIG.model_copy(update={"policy": "hf:/elsewhere"}), PLAN, "ev"),
    ],
    ids=["grader", "steps", "seeds", "policy"],
)
def test_a_calibration_of_other_terms_is_not_gone_by(
    lucky: Bench, config: RunConfig, plan: Plan, evaluator: str
) -> None:
    calibrated(4)
    seen = visible(config, plan, lucky.run.ledger.steps(kind=KIND), evaluator)
    assert not seen.calibrated
    assert "nothing here is calibrated; meta-agent calibrate measures it" in seen.words


def test_more_seeds_and_more_tasks_make_smaller_gains_visible() -> None:
    def effect(**changes: Any) -> float:
        return visible(CONFIG, replace(PLAN, **changes), [], "ev").effect or 1.0

    assert effect(looks=(8,)) < effect(looks=(4,))
    assert effect(confirm=512) < effect(confirm=64)


def test_two_pairs_of_training_runs_cannot_see_anything() -> None:
    seen = visible(CONFIG, replace(PLAN, looks=(2,), generations=9), [], "ev")
    assert seen.effect is None
    assert seen.words.startswith("this budget cannot see any gain, so none will be claimed")


@pytest.mark.slow
def test_the_worked_out_figure_is_near_the_simulated_one() -> None:
    """For the spread that it assumes: see `gate.simulate`."""
    from meta_agent.core.gate.simulate import Modelled, smallest_effect

    plan = replace(PLAN, looks=(8,), confirm=512, generations=3)
    source = Modelled(np.clip(np.linspace(0.3, 1.1, 512), 0.1, 0.98), 0.0316)
    found = smallest_effect(plan.gate(), source, draws=80, step=0.01)
    assert visible(CONFIG, plan, [], "ev").effect == pytest.approx(found, abs=0.02)


def test_a_frozen_policy_is_calibrated_by_fresh_samples(
    lucky: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = as_frozen(PLAN, looks=(2,), generations=1, confirm=TASKS)
    monkeypatch.setattr(calibration, "plan_for", lambda *_: plan)
    told = calibrated(8, effect=0.3)
    assert lucky.lab.trainings == 0
    assert (told["unit"], told["runs"]) == ("samples of each task", 8)
    assert told["simulated_from"] == "the stored runs"
    assert told["spread"]["between"] == "samples"
    assert set(told["wanted"]["needs"]) == {"confirm tasks", "samples a task"}


def test_a_run_promises_once_and_a_later_calibration_changes_nothing(lucky: Bench) -> None:
    declare(lucky.run)
    calibrated(4)
    lucky.run.plan = PLAN
    declare(lucky.run)
    steps = lucky.run.ledger.steps(kind="visible")
    assert [step.outcome["calibrated"] for step in steps] == [False]
    notes = [event.payload["text"] for event in lucky.run.ledger.events(kind="note")]
    assert all("no claim is made" in text or "none will be claimed" in text for text in notes)


def test_the_terms_hold_all_that_decides(lucky: Bench) -> None:
    said = terms(CONFIG, PLAN, "ev")
    assert said["candidates"] == PLAN.budget.candidates
    assert {"evaluator_hash", "policy", "steps", "looks", "confirm", "alpha"} <= set(said)


@pytest.mark.parametrize(("seeds", "effect"), [(1, None), (4, 0.0), (4, 1.5)])
def test_senseless_requests_are_refused_before_anything_starts(
    seeds: int, effect: float | None, tmp_path: Path
) -> None:
    config = RunConfig(workspace=tmp_path / "none")
    with pytest.raises(ConfigError):
        calibrate(config, open_display(live=False), seeds=seeds, effect=effect)
    assert not (tmp_path / "none").exists()


def test_the_drawing_says_every_figure_with_its_interval(lucky: Bench) -> None:
    said = dict(lines(calibrated(4, effect=0.3)))
    assert said["measured"].startswith("4 training runs of ")
    assert "between training seeds" in said["spread"]
    assert "declared: at most 5.0 %" in said["false promotions"]
    assert "80 % probability" in said["detectable effect"]
    assert "for 80 %:" in said["wanted"]


def test_a_report_on_such_a_run_shows_the_newest_calibration(lucky: Bench) -> None:
    calibrated(4)
    told = calibrated(6)
    assert dict(claim_facts(reduce(lucky.run.ledger, "r"))) == dict(lines(told))


@pytest.mark.parametrize(
    "changes",
    [{}, {"strategy": "score-only"}, {"generations": 500}],
    ids=str,
)
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
