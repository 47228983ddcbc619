"""`compare A B --by task`: two result files of any known format, paired by task.

The attempts at one task are a cluster: each file counts with its mean there, and the task is the
unit. An attempt scores 1 or 0 where the file says whether it succeeded, and else its reward. Tasks
that only one file has are left out and counted, and so are attempts without a score. The interval
is Student's over tasks, at 95 %. The smallest difference is what these pairs would have shown with
80 % power, at the spread that was observed.

Not covered: whether both files ran the same tasks beyond their names, and groups of related tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from meta_agent.core.errors import ConfigError
from meta_agent.core.gate import Pairs, row_of
from meta_agent.core.gate.numbers.statistics import standard_error, t_quantile
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.formats import read_rollouts

BY: Final = ("task",)
_ALPHA: Final = 0.025
_MISS: Final = 0.2


class _Side(NamedTuple):
    """One file: the outcomes by task, and how many attempts have none."""

    outcomes: Mapping[str, list[float]]
    lost: int

    def to_json(self, path: Path) -> dict[str, JSON]:
        scores = [outcome for outcomes in self.outcomes.values() for outcome in outcomes]
        return {
            "path": str(path),
            "tasks": len(self.outcomes),
            "attempts": len(scores) + self.lost,
            "lost": self.lost,
            "score": fmean(scores) if scores else None,
        }


def compare_files(paths: tuple[Path, Path], by: str = "task") -> dict[str, JSON]:
    """Returns the second file's mean score by task minus the first's, with its 95 % interval.

    Raises ConfigError if `by` is not "task", a file cannot be read, or under 2 tasks are common.
    """
    if by not in BY:
        raise ConfigError(f"--by {by}: expected {' or '.join(BY)}", hint="for example: --by task")
    first, second = map(_read, paths)
    common = sorted(set(first.outcomes) & set(second.outcomes))
    if len(common) < 2:
        raise ConfigError(
            f"{paths[0]} and {paths[1]} share {len(common)} tasks, but 2 are needed",
            hint="tasks are paired by name; meta-agent report --rollouts FILE shows the names "
            "of a file",
        )
    gaps = np.array([[fmean(s.outcomes[task]) for task in common] for s in (second, first)])
    row = gaps[0] - gaps[1]
    counts = [min(len(side.outcomes[task]) for side in (first, second)) for task in common]
    lost = first.lost + second.lost
    pairs = Pairs(row[None, :], sum(counts), lost, max(counts), tasks=tuple(common))
    gain, error = float(row.mean()), standard_error(pairs)
    half, power = (error * t_quantile(len(common) - 1, share) for share in (_ALPHA, _MISS))
    return {
        "schema_version": 1,
        "by": by,
        "files": [side.to_json(path) for side, path in zip((first, second), paths, strict=True)],
        "tasks": len(common),
        "only_in_one": len(set(first.outcomes) ^ set(second.outcomes)),
        "difference": {"value": gain, "low": gain - half, "high": gain + half},
        "smallest_shown": half + power,
        "better_tasks": int((row > 0).sum()),
        "worse_tasks": int((row < 0).sum()),
    }


def _read(path: Path) -> _Side:
    outcomes, lost = defaultdict[str, list[float]](list), 0
    for rollout in read_rollouts(path):
        score = _score(rollout)
        if score is None:
            lost += 1
        else:
            outcomes[rollout.task_key].append(score)
    return _Side(outcomes, lost)


def _score(rollout: Rollout) -> float | None:
    """Returns an attempt's score, or None if the file holds neither its outcome nor a reward."""
    if rollout.outcome is None and rollout.error is None:
        return rollout.total_reward if rollout.rewards else None
    success = row_of(rollout).success
    return None if success is None else float(success)
