"""The rows of an arm as a table of clean success: runs, or samples, by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.gate import Arm, OutcomeRow
from meta_agent.core.gate.numbers.results import Matrix


class Table(NamedTuple):
    """Clean success on the tasks that have an outcome in every run."""

    clean: Matrix  # [run or sample, task]
    tasks: tuple[str, ...]
    lost: int  # tasks without an outcome in some run


def by_seed(arm: Arm, seeds: Sequence[int]) -> Table:
    """One row a training seed."""
    return _table([arm.seeds[seed] for seed in seeds])


def by_sample(arm: Arm, samples: int) -> Table:
    """One row a sample of a policy that was not trained."""
    rows = list(arm.rows())
    return _table([[row for row in rows if row.sample_idx == at] for at in range(samples)])


def _table(runs: Sequence[Sequence[OutcomeRow]]) -> Table:
    known = [{row.task_key: row.clean for row in run} for run in runs]
    tasks = sorted(set().union(*known))
    whole = tuple(task for task in tasks if all(one.get(task) is not None for one in known))
    if len(whole) < 2:
        raise InfrastructureError(
            f"only {len(whole)} of {len(tasks)} tasks have an outcome in every run",
            hint="the same command tries again what was lost",
        )
    clean = np.array([[bool(one[task]) for task in whole] for one in known], dtype=float)
    return Table(clean, whole, len(tasks) - len(whole))
