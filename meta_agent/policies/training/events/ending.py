"""Ends a training that the health rule (`core.lab.health`) finds unhealthy, with earlier weights.

Every few steps it saves the weights beside the output. Once the rule ends the training, the newest
ones that were still healthy become its checkpoint, and the policy child loads them.
Promises: the decision depends on step metrics alone, and the weights that it needs are kept as long
as a saved state (seal) may lead to it. So a killed training ends like an undisturbed one.
Not covered: attempts that were made ahead and not yet trained on when a training ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final, NamedTuple

from meta_agent.core.lab.health import Ended, Row, ended
from meta_agent.core.protocols import Checkpoint
from meta_agent.policies.training._wire import TrainJob, healthy_folder
from meta_agent.policies.training.policy import PolicyChild


class HealthRule(NamedTuple):
    """A training ends after `in_a_row` steps whose metrics are unhealthy beside those in `base`."""

    base: Sequence[Row] = ()  # of the first steps of the run's first training
    in_a_row: int = 1


ALWAYS_HEALTHY: Final = HealthRule()
"""Ends no training."""


class UnhealthyError(Exception):
    """Raised between two steps to end an unhealthy training; it never leaves the training."""

    def __init__(self, end: Ended) -> None:
        super().__init__(end.reason)
        self.end = end


class HealthWatch:
    """Saves a training's weights every few steps, and ends the training if it is unhealthy."""

    def __init__(self, child: PolicyChild, job: TrainJob, rule: HealthRule) -> None:
        """Removes weights that an earlier, killed call saved after the step it resumes from."""
        self._child, self._job, self._rule = child, job, rule
        self._folder = healthy_folder(job.output)
        for step in self._saved():
            if not job.after or step > job.after:
                shutil.rmtree(self._folder / str(step))

    def look(self, step: int, metrics: Sequence[Row], resumes_at: int) -> None:
        """Saves the weights every few steps. Raises UnhealthyError if the last steps are unhealthy.

        Older weights are removed unless a training resumed at step `resumes_at` may need them.
        """
        if not self._rule.base:
            return
        end = ended(metrics, *self._rule)
        if end and any(saved <= end.steps for saved in self._saved()):
            raise UnhealthyError(end._replace(steps=self._newest(end.steps)))
        if step % self._rule.in_a_row == 0 and step not in self._saved():
            self._child.write(self._folder / str(step))
        oldest = self._newest(max(0, resumes_at - self._rule.in_a_row - 1))
        for saved in self._saved():
            if saved < oldest:
                shutil.rmtree(self._folder / str(saved))

    def settle(self, end: Ended) -> Checkpoint:
        """Makes the last healthy weights the training's checkpoint; loads and returns it."""
        (self._folder / str(end.steps)).rename(self._job.output)
        policy = self._child.load(self._job.output)
        return Checkpoint(self._job.output, policy, end.steps, self._job.seed)

    def clear(self) -> None:
        """Removes the saved weights, because the training is over."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _newest(self, most: int) -> int:
        return max((saved for saved in self._saved() if saved <= most), default=0)

    def _saved(self) -> list[int]:
        names = [path.name for path in self._folder.glob("*")] if self._folder.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]
