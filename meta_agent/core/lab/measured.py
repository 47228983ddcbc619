"""What is measured and what came of it: the records that pass through the ledger.

Not covered: how (`live`), and arms, which are made of them (`arms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, HarnessTree, Split

LOST_SHARE: Final = 0.05
"""More rollouts than this without an outcome, and than one, void an evaluation (as in the gate)."""


class Trained(NamedTuple):
    """A policy and how it came to be. `steps` 0 means the base policy itself."""

    path: str
    policy: str
    seed: int
    steps: int
    shard: JSON  # rollouts of the first and last training steps, None for the base policy
    metrics: list[JSON]  # one row per training step
    train_steps: int = 0  # what this step used, for the run's accounts
    rollouts: int = 0
    kept: Sequence[JSON] = ()  # checkpoints made on the way: {"steps", "policy", "path"}

    def on_the_way(self) -> list[Trained]:
        """The checkpoints of this training by steps, its own last; they cost nothing more."""
        own = [
            Trained(one["path"], one["policy"], self.seed, one["steps"], None, [])
            for one in self.kept
        ]
        return [*own, self]


class Evaluated(NamedTuple):
    """One policy on one split: where its rollouts are stored, and the counts."""

    shard: JSON
    planned: int
    solved: int
    clean: int
    seed: int
    rollouts: int = 0
    served: Sequence[str] = ()
    """What a server called the model behind these attempts, with its fingerprint."""


class Part(NamedTuple):
    """Some tasks of a split: those at these places of an order that `gate.task_order` gives."""

    order: str
    at: range


@dataclass(frozen=True, slots=True)
class Job:
    """One train-and-evaluate unit: what `Lab.prepare` runs side by side."""

    tree: HarnessTree
    seed: int
    steps: int
    split: Split
    limit: int


@dataclass(slots=True)
class LabSettings:
    """What a lab needs to know of the run."""

    run: str
    base_policy: str
    workers: int
    checkpoints: Path
    seed: int
    concurrency: int = 16
    """Rollouts under way at once where the policy is behind a server."""
    checkpoint_every: int = 0
    """Steps between the seals from which a killed training goes on; 0: it begins again."""
    min_exact: float = 0.0
    """Share of the sampled tokens that has to be in rows, or a training stops."""
