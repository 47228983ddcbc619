"""`meta-agent calibrate`: the promoted harness against itself, and what that says about the gate.

The same files are measured many times: a trained policy with one training seed after another, a
frozen one in fresh samples of the same tasks. Nothing in those differences is a gain, so they show
what luck looks like here, and candidates simulated from them (`gate.simulate`) are put before the
very rule and budget of `evolve` with the same settings.

Promises: runs are measured once and kept (more `--seeds` later measures the rest; the same command
resumes); the answer is a step in the ledger, with what it was measured on, and `evolve` goes by the
newest that fits (`visible`).

Does not cover: the spread of harnesses that nobody has measured yet. A candidate may well be more
or less steady than the harness it came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from meta_agent.composition.opening import open_run
from meta_agent.composition.preflight import backend_of
from meta_agent.composition.visible import KIND, terms
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate.simulate import (
    Gate,
    Matrix,
    Modelled,
    Population,
    StoredRuns,
    StoredSamples,
    false_promotions,
    modelled,
    population,
    power,
    smallest_effect,
    spread,
)
from meta_agent.core.lab.live import Job
from meta_agent.core.loop.matrix import Table, by_sample, by_seed
from meta_agent.core.loop.plan import RACES, Plan, plan_for
from meta_agent.core.loop.records import Version, must_work
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import alpha_of
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.reports import Display

CALIBRATED: Final = "calibrated"
"""How such a run ends: never `done`, so that more seeds can be added."""
LEAST: Final = 2
_RUNS: Final = 1000  # simulated, for the rate of false promotions
_DRAWS: Final = 150  # simulated candidates for a point of a power curve
_STEP: Final = 0.005
# What these settings say does not change a measurement, so calibrations with others share its runs.
_NOT_MEASURED: Final = (
    "generations",
    "candidates",
    "samples",
    "meta_model",
    "models",
    "skills",
    "strategy",
    "budget",
)


def calibrate(
    config: RunConfig, display: Display, *, seeds: int | None = None, effect: float | None = None
) -> JSON:
    """Measures what is missing, and says what this budget sees.

    Args:
        config: the settings of the `evolve` that is meant.
        display: shows progress.
        seeds: how many A/A runs (samples of each task with a frozen policy).
        effect: a wanted gain as a share: how much has to be bought to see it?
    """
    if seeds and seeds < LEAST:
        raise ConfigError(f"--seeds {seeds}: two runs at least, to see how far they lie apart")
    if effect is not None and not 0 < effect < 1:
        raise ConfigError(f"--effect {100 * effect:g}: points of clean success, from 0 to 100")
    with open_run(_measuring(config), display, purpose="calibrate") as run:
        alpha = alpha_of(run.ledger, run.id)  # as the next `evolve` here would claim
        plan = replace(plan_for(config, run.lab.domain), alpha=alpha)
        document = _calibrated(run, config, plan, seeds, effect)
        run.ledger.finish_run(run.id, CALIBRATED)
    return document


def _measuring(config: RunConfig) -> RunConfig:
    """The settings of the measurement alone; where code runs is still decided by all of them."""
    fields = RunConfig.model_fields
    plain = {name: fields[name].get_default(call_default_factory=True) for name in _NOT_MEASURED}
    plain |= _split(config)
    sandbox = backend_of(config)
    policy = {role: model for role, model in config.models.items() if role == "policy"}
    return config.model_copy(update={**plain, "models": policy, "sandbox": sandbox})


def _split(config: RunConfig) -> dict[str, object]:
    """What keeps the confirm tasks those of `evolve`: a race uses a small set in halves."""
    return {} if config.trainable or config.strategy in RACES else {"strategy": "score-only"}


def _calibrated(
    run: Run, config: RunConfig, plan: Plan, seeds: int | None, effect: float | None
) -> JSON:
    runs = _RUNS_OF[plan.trains]
    commit, count = run.repo.head(), seeds or runs.usual
    tree = run.repo.tree(commit)
    run.lab.label(tree, "calibration")
    run.lab.require(tree)
    run.phase("calibrate", f"{count} {runs.unit} of {commit[:10]} on {plan.confirm} confirm tasks")
    with must_work(Version("main", commit)):
        table = runs.measured(run, tree, plan, count)
    intent = {
        **terms(config, plan, run.lab.domain.evaluator_hash),
        "harness_tree": tree.tree_hash,
        "runs": count,
        "effect": effect,
    }
    run.phase("calibrate", "candidates that change nothing, simulated")
    name = hashlib.sha256(json.dumps(intent, sort_keys=True).encode()).hexdigest()[:16]
    facts = {"run": run.id, "harness_commit": commit, "unit": runs.unit}
    work = partial(_document, runs, plan, table, effect, facts)
    return run.once(f"calibration/{name}", KIND, intent, lambda: {**intent, **work()})


# --- measuring -----------------------------------------------------------------------------------


class _Trainings:
    """A/A runs of a policy that is trained, a seed each."""

    usual = 8
    unit = "training runs"
    between = "training seeds"

    def measured(self, run: Run, tree: HarnessTree, plan: Plan, count: int) -> Table:
        seeds = range(1, count + 1)  # as in `confirm`: seed 0 is the checkpoint's
        run.lab.prepare([Job(tree, seed, plan.steps, "confirm", plan.confirm) for seed in seeds])
        ref = run.lab.arm(
            "A/A", tree, seeds=seeds, steps=plan.steps, split="confirm", limit=plan.confirm
        )
        return by_seed(run.lab.rows(ref), seeds)

    def ends(self, gate: Gate, source: Population, clean: Matrix) -> Iterator[float | None]:
        """By what so few runs can say of the spread."""
        estimate = spread(clean)
        attempts = estimate.total**2 - estimate.seed**2
        for end in (estimate.low, estimate.high):
            apart = max(0.0, end**2 - attempts) ** 0.5
            yield smallest_effect(gate, modelled(clean, apart), draws=_DRAWS, step=_STEP)

    def has(self, plan: Plan) -> dict[str, int]:
        return {"training seeds": plan.looks[-1]}


class _Samples:
    """A/A runs of a frozen policy: fresh attempts, in which there is only attempts' luck."""

    usual = 4
    unit = "samples of each task"
    between = "samples"

    def measured(self, run: Run, tree: HarnessTree, plan: Plan, count: int) -> Table:
        each = [range(at, at + 1) for at in range(count)]
        ref = run.lab.sampled_arm("A/A", tree, samples=each, split="confirm", limit=plan.confirm)
        return by_sample(run.lab.rows(ref), count)

    def ends(self, gate: Gate, source: Population, clean: Matrix) -> Iterator[float | None]:
        """The simulation's own error: so many draws do not tell 80 % from a little more or less."""
        error = 1.96 * (0.8 * 0.2 / _DRAWS) ** 0.5
        for target in (0.8 - error, 0.8 + error):
            yield smallest_effect(gate, source, target_power=target, draws=_DRAWS, step=_STEP)

    def has(self, plan: Plan) -> dict[str, int]:
        return {"confirm tasks": plan.confirm, "samples a task": plan.looks[0]}


_Runs = _Trainings | _Samples
_RUNS_OF: Final[dict[bool, _Runs]] = {True: _Trainings(), False: _Samples()}
"""By whether the policy is trained."""


# --- what it says --------------------------------------------------------------------------------


def _document(
    runs: _Runs, plan: Plan, table: Table, effect: float | None, facts: dict[str, str]
) -> JSON:
    gate = plan.gate()
    source = population(table.clean, gate)
    wrong = false_promotions(gate, source, candidates=gate.budget.candidates, runs=_RUNS)
    return {
        "schema_version": 1,
        **facts,
        "plan": plan.to_json(),
        "tasks": int(table.clean.shape[1]),
        "tasks_lost": table.lost,
        "simulated_from": _name_of(source),
        "spread": {**spread(table.clean)._asdict(), "between": runs.between},
        "false_promotions": {**wrong._asdict(), "declared": plan.alpha},
        "smallest_effect": _smallest(runs, gate, source, table.clean),
        "wanted": None if effect is None else _needed(runs, plan, table.clean, effect),
    }


def _name_of(source: Population) -> str:
    stored = isinstance(source, StoredRuns | StoredSamples)
    return "the stored runs" if stored else "a model of the stored runs: too few to draw from"


def _smallest(runs: _Runs, gate: Gate, source: Population, clean: Matrix) -> JSON:
    """With an interval."""
    effect = smallest_effect(gate, source, draws=_DRAWS, step=_STEP)
    low, high = runs.ends(gate, source, clean)
    if effect is not None:  # either end was simulated apart from the middle
        low = effect if low is None else min(low, effect)
        high = None if high is None else max(high, effect)
    return {"effect": effect, "low": low, "high": high, "power": 0.8}


def _needed(runs: _Runs, plan: Plan, clean: Matrix, effect: float) -> JSON:
    """What has to be bought for a gain of this size, the test being tuned to it."""
    source = plan.gate().model(clean)
    now = power(plan.gate(), source, effect, draws=_DRAWS)
    tuned = replace(plan, target=min(plan.target, effect))
    ways = {name: _first(plans, source, effect) for name, plans in tuned.more().items()}
    has = runs.has(plan)
    return {"effect": effect, "power_now": now._asdict(), "needs": ways, "has": has}


def _first(plans: Iterator[tuple[int, Plan]], source: Modelled, effect: float) -> int | None:
    for size, plan in plans:
        if power(plan.gate(), source, effect, draws=_DRAWS).share >= 0.8:
            return size
    return None
