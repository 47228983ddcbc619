"""Turns the rows of one side of a comparison into a table of clean success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.gate import Arm, OutcomeRow
from meta_agent.core.gate.numbers.results import Matrix


class Table(NamedTuple):
    """Clean success (1 or 0) by run and task. `lost` counts tasks without an outcome in a run."""

    clean: Matrix  # [run or sample, task]
    tasks: tuple[str, ...]
    lost: int  # tasks without an outcome in some run


def by_seed(arm: Arm, seeds: Sequence[int]) -> Table:
    """Returns the table of clean success with one row for each training seed."""
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
            f"only {len(whole)} of {len(tasks)} tasks have an outcome in every run",
            hint="run the same command again: it repeats the lost attempts",
        )
    clean = np.array([[bool(by_task[task]) for task in whole] for by_task in outcomes], dtype=float)
    return Table(clean, whole, len(tasks) - len(whole))
