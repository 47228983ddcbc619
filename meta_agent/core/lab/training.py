"""Protocols for the policies that a lab measures and trains.

A lab measures through `Policies` and does not know what implements it: a child process that holds
weights, engines that serve them, or a model behind somebody's server.

Not covered: how a policy is trained (an extension, see `meta_agent.policies`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import Teaches
from meta_agent.core.protocols import JSON, Checkpoint, Domain, Gateway, PlannedRollout, Rollout

TRAIN_STEP_SEC: Final = 1800.0
"""The most seconds that one optimiser step may take."""


class RollsOut(Protocol):
    """Makes the rollouts (attempts at tasks) that a training learns from."""

    def run(
        self,
        plan: Sequence[PlannedRollout],
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        stopping: Callable[[], bool] = ...,
    ) -> list[Rollout]: ...


@dataclass(frozen=True, slots=True)
class TrainResult:
    """The result of a training: the last checkpoint, metrics by step, and some of its rollouts."""

    checkpoint: Checkpoint
    metrics: list[dict[str, JSON]]  # one row per optimiser step: {"step": n, name: value, ...}
    rollouts: list[Rollout]  # those of the first and last events that were asked for
    rollouts_made: int
    checkpoints: tuple[Checkpoint, ...] = ()  # made on the way, by steps
    history: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Tries and solutions of training tasks so far, those before this training included."""


class TrainingRequest(NamedTuple):
    """How long a training is, and which of its rollouts and weights are stored."""

    seed: int
    steps: int
    output: Path
    """The folder of the trained weights."""
    keep_steps: int = 0
    """The rollouts of so many of the first and of the last steps are stored."""
    keep_every: int = 0
    """Steps between the checkpoints that are stored on the way. 0 means none."""
    seal_every: int = 0
    """Steps between the saved states from which a killed training resumes. 0 means none."""
    min_exact: float = 0.0
    """The least share of the sampled tokens that needs a token record."""
    warmup: Sequence[Rollout] = ()
    """Clean successes that the recipe's first `sft_steps` steps imitate. Empty: no warm-up."""
    history: Mapping[str, Mapping[str, int]] = {}
    """Tries and solutions of training tasks before this training, for the curriculum."""


class Trainer(Protocol):
    """Trains one policy, whose weights nothing else uses in the meantime."""

    gateway: Gateway
    """The model gateway of the policy in training, for its rollouts."""

    def accept(self, recipe: Mapping[str, JSON]) -> dict[str, JSON]:
        """Returns the recipe as the training will use it, or raises ConfigError."""
        ...

    def train(
        self,
        runner: RollsOut,
        session: Teaches,
        domain: Domain,
        recipe: Mapping[str, JSON],
        request: TrainingRequest,
        *,
        on_metrics: Callable[[dict[str, JSON]], None],
        stopping: Callable[[], bool],
    ) -> TrainResult:
        """Trains the policy by a `recipe` from `accept`, writes the checkpoint, returns the result.

        `on_metrics` receives each step's metrics. Raises CandidateError if the harness fails. Once
        `stopping` returns True, a training that saves its state saves it and raises Interrupted.
        """
        ...

    def imitate(
        self,
        rows: Sequence[Rollout],
        recipe: Mapping[str, JSON],
        request: TrainingRequest,
        *,
        on_metrics: Callable[[dict[str, JSON]], None],
        stopping: Callable[[], bool],
    ) -> TrainResult:
        """Trains the policy to imitate the rollouts `rows` for the steps of the request.

        Makes no rollouts. Raises Interrupted between two steps once `stopping` returns True.
        """
        ...


class Policies(Protocol):
    """Opens policies (weights or servers) for evaluations and trainings, for any thread."""

    lock_step: bool
    """True if the rollouts of a plan are answered together, so that a part may give other rows."""

    def acting(self, path: str, label: str) -> AbstractContextManager[Gateway]:
        """Opens the policy at `path` to act in one evaluation, which is named `label`."""
        ...

    def training(self, path: str, output: Path) -> AbstractContextManager[Trainer]:
        """Opens the policy at `path` to train it into `output`, or raises ConfigError if frozen."""
        ...

    def close(self) -> None: ...


def kept_folder(output: Path) -> Path:
    """Returns the folder of the intermediate checkpoints of a training that ends in `output`."""
    return output.with_name(f"{output.name}.kept")


def of_steps(rollouts: Sequence[Rollout], *, first: bool, count: int) -> list[Rollout]:
    """Returns the rollouts of a training's first `count` steps (with `first`), or of its last ones.

    Hinted rollouts are left out: they say little about the policy alone, and may quote a solution.
    """
    steps = sorted({step_of(rollout) for rollout in rollouts})
    chosen = set(steps[:count] if first else steps[-count:])
    return [r for r in rollouts if step_of(r) in chosen]


def step_of(rollout: Rollout) -> int:
    """Returns the optimiser step, counted from 1, that a training rollout belongs to."""
    return int(rollout.group_id.split("/")[1]) + 1


def require_begun(rollouts: Sequence[Rollout]) -> None:
    """Raises CandidateError if the harness failed in every rollout before its first model call."""
    begun = [
        rollout
        for rollout in rollouts
        if rollout.turns or not rollout.error or rollout.error.kind != "policy"
    ]
    if rollouts and not begun:
        why = str(rollouts[0].error and rollouts[0].error.detail).strip().partition("\n")[0][:200]
        raise CandidateError(
            f"in all {len(rollouts)} attempts the harness ended before the first model call: {why}",
            reason="raises_at_once",
        )


def settings_of(recipe: Any) -> dict[str, JSON]:
    """Returns a training recipe as a mapping, without the settings that are None."""
    if isinstance(recipe, Mapping):
        values = dict(recipe)
    else:
        values = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    return {name: value for name, value in values.items() if value is not None}
