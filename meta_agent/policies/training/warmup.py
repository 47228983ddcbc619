"""The host's half of a warm-up: whether it is due, done already, or has to stop.

A killed warm-up begins again and ends on the same bits. Not covered: how the child trains
(`_imitation`), and which rows are clean successes (`core.lab.warmup`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from meta_agent.core.errors import CandidateError, ConfigError, IntegrityError, Interrupted
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.policies.training._wire import StepMetrics, TrainJob
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.policies.training.policy import PolicyChild


def warmed_up(
    child: PolicyChild,
    base_policy: str | Path,
    job: TrainJob,
    rows: Sequence[Rollout],
    steps: int,
    stopping: Callable[[], bool],
) -> Path:
    """Trains the policy to imitate the rollouts `rows`, and returns the new checkpoint's folder.

    A checkpoint of an earlier, killed call is used again. Raises CandidateError if no `steps` are
    left for GRPO, and Interrupted between two steps once `stopping` returns True.
    """
    if steps < 1:
        raise CandidateError(
            f"sft_steps is {job.steps} of {job.steps + steps} steps and leaves none for GRPO",
            reason="recipe_refused",
            hint=f"set sft_steps to at most {job.steps + steps - 1} in the recipe",
        )
    with suppress(ConfigError, IntegrityError):
        return open_checkpoint(job.output).path
    shutil.rmtree(job.output, ignore_errors=True)
    return imitated(child, base_policy, job, rows, lambda _: None, stopping).checkpoint.path


def imitated(
    child: PolicyChild,
    base_policy: str | Path,
    job: TrainJob,
    rows: Sequence[Rollout],
    on_metrics: Callable[[dict[str, JSON]], None],
    stopping: Callable[[], bool],
) -> TrainResult:
    """Trains the policy to imitate the rollouts `rows` for the steps of the job.

    `on_metrics` receives the loss of each step. Raises Interrupted between two steps once
    `stopping` returns True.
    """
    metrics: list[dict[str, JSON]] = []

    def heed(measured: StepMetrics) -> None:
        metrics.append({"step": measured.step, **measured.values})
        on_metrics(metrics[-1])
        if stopping():
            raise Interrupted("stopped as requested; the same command begins the warm-up again")

    child.load(base_policy)
    return TrainResult(child.warm_up(job, rows, heed), metrics, [], 0)
