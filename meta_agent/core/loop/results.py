"""The vault results of a run over all training seeds that exist for both versions.

The headline uses the pre-registered seed, whose policy is handed over. But one training is one
draw. If the claim trained both versions on more seeds, those policies are measured in the same
reading of the vault. Reported are mean, interquartile mean and probability of improvement, with
intervals over runs and tasks. Nothing is chosen by them.

Not covered: the run-to-run luck of a frozen policy, which has one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.gate import Arm, OutcomeRow
from meta_agent.core.gate.numbers import results
from meta_agent.core.gate.numbers.results import Matrix
from meta_agent.core.lab.live import Job
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON


def vault_results(run: Run, first: Version, last: Version) -> None:
    """Measures and records two versions on the vault, by shared training seed; needs two tasks."""
    if run.plan.vault < 2:
        return  # one task has no interval
    versions = (first, last) if first.commit != last.commit else (first,)
    trained = [seed for seed in run.plan.seeds if _trained(run, versions, seed)]
    seeds = [seed for seed in trained if seed] or trained  # those of the claim, if it trained any
    if not seeds:
        return
    run.lab.prepare([_job(run, version, seed) for version in versions for seed in seeds])
    run.once(
        "vault/results",
        "results",
        {"seeds": seeds, "commits": [version.commit for version in versions]},
        partial(_outcome, run, versions, seeds),
    )


def _trained(run: Run, versions: Sequence[Version], seed: int) -> bool:
    return all(run.lab.trained(_job(run, version, seed)) for version in versions)


def _job(run: Run, version: Version, seed: int) -> Job:
    plan = run.plan
    return Job(run.repo.tree(version.commit), seed, plan.steps, "vault", plan.vault)


def _outcome(run: Run, versions: Sequence[Version], seeds: Sequence[int]) -> JSON:
    tables = [_table(run, version, seeds) for version in versions]
    outcome: dict[str, JSON] = {"split": "vault", "seeds": list(seeds), "before": _arm(tables[0])}
    if len(tables) == 1:
        return outcome
    before, after = _on_common_tasks(*tables)
    return {
        **outcome,
        "after": _arm(tables[1]),
        "difference": results.difference(after, before).to_json(),
        "iqm_difference": results.difference(after, before, "iqm").to_json(),
        "improvement": results.improvement(after, before).to_json(),
    }


def _table(run: Run, version: Version, seeds: Sequence[int]) -> Table:
    measured = {seed: run.lab.measure(_job(run, version, seed)) for seed in seeds}
    arm = run.lab.arm_of(version.id, run.repo.tree(version.commit), measured)
    return by_seed(run.lab.rows(arm), seeds)


def _arm(table: Table) -> JSON:
    return {
        "runs": [float(share) for share in table.clean.mean(axis=1)],
        "tasks": len(table.tasks),
        "mean": results.interval(table.clean, "mean").to_json(),
        "iqm": results.interval(table.clean, "iqm").to_json(),
    }


def _on_common_tasks(first: Table, second: Table) -> list[Matrix]:
    common = set(first.tasks) & set(second.tasks)
    return [
        side.clean[:, [at for at, task in enumerate(side.tasks) if task in common]]
        for side in (first, second)
    ]


class Table(NamedTuple):
    """Clean success (1 or 0) by run and task. `lost` counts tasks left out, lost in some run."""

    clean: Matrix  # [run or sample, task]
    tasks: tuple[str, ...]
    lost: int


def by_seed(arm: Arm, seeds: Sequence[int]) -> Table:
    """Returns the clean success of `arm`, a side of a comparison, with a row per training seed."""
    return table_of([arm.seeds[seed] for seed in seeds])


def table_of(runs: Sequence[Sequence[OutcomeRow]]) -> Table:
    """Returns the table of clean success with one row for each run's outcome rows.

    Raises InfrastructureError if fewer than two tasks have an outcome in every run.
    """
    outcomes = [{row.task_key: row.clean for row in run} for run in runs]
    tasks = sorted(set().union(*outcomes))
    whole = tuple(task for task in tasks if all(run.get(task) is not None for run in outcomes))
    if len(whole) < 2:
        raise InfrastructureError(
            f"only {len(whole)} of {len(tasks)} tasks have an outcome in every run, and two must",
            hint="run the same command again: it repeats the lost attempts",
        )
    clean = np.array([[bool(by_task[task]) for task in whole] for by_task in outcomes], dtype=float)
    return Table(clean, whole, len(tasks) - len(whole))
