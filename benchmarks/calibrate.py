"""The first harness against itself: what luck looks like on a task set, and what the gate says.

The same files are measured many times: a trained policy with one training seed after another, a
frozen one in fresh samples of the same tasks. Nothing in those differences is a gain, so they show
luck. Candidates simulated from them are put before the very rule and budget of `evolve` with the
same settings. Runs are measured once: with more `--seeds`, the same command measures the rest.

    python benchmarks/calibrate.py --seeds 8 --effect 5 [settings of meta-agent evolve]

Does not cover: the spread of harnesses that nobody has measured yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import typer
from _stored_runs import (
    StoredRuns,
    StoredSamples,
    false_promotions,
    model,
    modelled,
    population,
    spread,
)

from meta_agent.cli._flags import FLAGS, takes
from meta_agent.composition.opening import open_run
from meta_agent.composition.preflight import backend_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import row_of
from meta_agent.core.gate.simulate import Gate, Matrix, Modelled, Population, power, smallest_effect
from meta_agent.core.lab.live import Job
from meta_agent.core.loop.plan import UNPROVEN, Plan, plan_for
from meta_agent.core.loop.records import Version, must_work
from meta_agent.core.loop.results import Table, by_seed, table_of
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.spending import alpha_of
from meta_agent.core.protocols import JSON, HarnessTree
from meta_agent.reports import Display, open_display
from meta_agent.reports._format import percent

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
    return (
        {"strategy": "score-only"} if not config.trainable and config.strategy in UNPROVEN else {}
    )


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
    run.phase("calibrate", "candidates that change nothing, simulated")
    facts = {"run": run.id, "harness_commit": commit, "unit": runs.unit, "runs": str(count)}
    return _document(runs, plan, table, effect, facts)


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
        base, limit = run.lab.untrained(), plan.confirm
        samples = [range(at, at + 1) for at in range(count)]
        evaluations = [
            run.lab.evaluate(tree, base, split="confirm", limit=limit, samples=some)
            for some in samples
        ]
        attempts = [run.lab.rollouts(evaluation.shard) for evaluation in evaluations]
        return table_of([list(map(row_of, rollouts)) for rollouts in attempts])

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
        "candidates": plan.budget.candidates,
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
    source = model(clean, plan.gate())
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


# --- in words ------------------------------------------------------------------------------------


def calibration_facts(calibration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields a sentence for each thing that a calibration measured."""
    lost = calibration["tasks_lost"]
    yield (
        "measured",
        f"{calibration['runs']} {calibration['unit']} of {calibration['harness_commit'][:10]} "
        f"against each other, {calibration['tasks']} confirm tasks"
        + (f"; {lost} lost in some run" if lost else ""),
    )
    yield "spread", _spread(calibration["spread"])
    yield "false promotions", _false_promotions(calibration)
    yield "detectable effect", _smallest_words(calibration["smallest_effect"])
    if calibration["wanted"]:
        yield "wanted", _power(calibration["wanted"])
    yield "simulated from", str(calibration["simulated_from"])


def _spread(spread: Mapping[str, Any]) -> str:
    total, low, high, seed = (100 * spread[name] for name in ("total", "low", "high", "seed"))
    words = (
        f"clean success {percent(spread['mean'])}; between {spread['between']} {total:.1f} points "
        f"[{low:.1f}, {high:.1f}]"
    )
    if spread["between"] == "samples":
        return words
    return f"{words}, {seed:.1f} of them not explained by the luck of single attempts"


def _false_promotions(calibration: Mapping[str, Any]) -> str:
    rate, candidates = calibration["false_promotions"], calibration["candidates"]
    return (
        f"{percent(rate['share'])} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}] of "
        f"{rate['cases']} simulated runs of {candidates} candidate{'s' * (candidates != 1)} that "
        f"change nothing; declared: at most {percent(rate['declared'])}"
    )


def _smallest_words(smallest: Mapping[str, Any]) -> str:
    power = f"{100 * smallest['power']:.0f} % probability"
    if smallest["effect"] is None:
        return f"this budget finds no gain with {power}"
    ends = (smallest[name] for name in ("low", "high"))
    low, high = ("none" if end is None else f"{100 * end:.1f}" for end in ends)
    return (
        f"{100 * smallest['effect']:.1f} points [{low}, {high}] are found with {power}; evolve "
        "with this budget makes no claim about smaller gains"
    )


def _power(power: Mapping[str, Any]) -> str:
    now, has = power["power_now"], power.get("has") or {}
    needs = " or ".join(_need(unit, count, has.get(unit)) for unit, count in power["needs"].items())
    return (
        f"{100 * power['effect']:.1f} points are found with {percent(now['share'])} "
        f"[{100 * now['low']:.0f}, {100 * now['high']:.0f}] now; for 80 %: {needs}"
    )


def _need(unit: str, count: int | None, has: int | None) -> str:
    now = "" if has is None else f" (this budget has {has})"
    return f"more {unit} than were tried{now}" if count is None else f"{count} {unit}{now}"


# --- the command ---------------------------------------------------------------------------------

_NOT_ASKED = ("approve", "budget", "replay_match", "skills", "strategy")  # nothing is proposed


@takes(*(name for name in FLAGS if name not in _NOT_ASKED))
def main(
    config: RunConfig,
    seeds: Annotated[int | None, typer.Option(help="A/A runs. Default: 8, frozen 4.")] = None,
    effect: Annotated[float | None, typer.Option(help="A gain to buy, in points.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measures what is missing, and prints what this budget sees."""
    display = open_display()
    try:
        share = None if effect is None else effect / 100
        document = calibrate(config, display, seeds=seeds, effect=share)
    finally:
        display.close()
    if as_json:
        print(json.dumps(document, indent=2))
        return
    for name, words in calibration_facts(document):
        print(f"{name:18} {words}")


if __name__ == "__main__":
    typer.run(main)
