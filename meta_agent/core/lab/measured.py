"""Jobs of the lab and their results, as the ledger stores them.

Does not cover how they are measured (`live`), nor arms, which are made of results (`arms`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, HarnessTree, Split

LOST_SHARE: Final = 0.05
"""An evaluation is void if more than this share, and more than one, have no outcome."""


class Trained(NamedTuple):
    """A policy and the training that made it. `steps` 0 means the base policy itself."""

    path: str
    policy: str
    seed: int
    steps: int
    shard: JSON  # rollouts of the first and last training steps, None for the base policy
    metrics: list[JSON]  # one row per training step
    train_steps: int = 0  # optimiser steps made here, for the run's accounts
    rollouts: int = 0
    checkpoints: Sequence[JSON] = ()  # made on the way: {"steps", "policy", "path"}
    history: JSON = None  # tries and solutions of training tasks so far, for the curriculum

    def on_the_way(self) -> list[Trained]:
        """Returns the stored checkpoints of a training by steps, and last its final policy."""
        trainings = [
            Trained(
                checkpoint["path"], checkpoint["policy"], self.seed, checkpoint["steps"], None, []
            )
            for checkpoint in self.checkpoints
        ]
        return [*trainings, self]

    def to_json(self) -> JSON:
        record = self._asdict()
        record["kept"] = record.pop("checkpoints")
        if not record["history"]:
            del record["history"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, JSON]) -> Trained:
        fields = dict(record)
        return cls(checkpoints=fields.pop("kept", ()), **fields)


class Evaluated(NamedTuple):
    """The result of an evaluation: a reference to the stored rollouts, and how many were solved."""

    shard: JSON
    planned: int
    solved: int
    clean: int
    seed: int
    rollouts: int = 0
    served: Sequence[str] = ()
    """The model names and fingerprints that a server reported for these attempts."""

    @property
    def clean_success(self) -> float:
        """Returns the share of attempts that solved their task without a flagged act."""
        return self.clean / self.planned


class Budget:
    """Counts the attempts of a run's measurements, as the run comes to them in this process.

    A resumed run comes to its recorded measurements again, in the same order. So it counts the same
    at each decision as it did before, and no decision needs a record. Attempts on the vault are
    free, because nothing is chosen by them.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}  # by the measurement's key in the ledger

    def __contains__(self, key: str) -> bool:
        return key in self._attempts

    @property
    def spent(self) -> int:
        """Returns the number of attempts that were counted."""
        return sum(self._attempts.values())

    @property
    def keys(self) -> frozenset[str]:
        """Returns the ledger keys of the measurements that were counted."""
        return frozenset(self._attempts)

    def count(self, key: str, split: object, outcome: Mapping[str, object]) -> None:
        """Counts a finished training or evaluation, once for each `key`."""
        self._attempts[key] = 0 if split == "vault" else attempts_of(outcome)

    def forget(self) -> None:
        """Counts from 0 again, as a process does that resumes a run."""
        self._attempts.clear()


def attempts_of(outcome: Mapping[str, object]) -> int:
    """Returns how many attempts the outcome of a training or an evaluation took."""
    attempts = outcome.get("rollouts")
    return attempts if isinstance(attempts, int) else 0


class Part(NamedTuple):
    """Some tasks of a split: those at the positions `at`, after a shuffle with the salt `order`."""

    order: str
    at: range


@dataclass(frozen=True, slots=True)
class Job:
    """A measurement of a harness: `steps` training steps, then an evaluation on `limit` tasks."""

    tree: HarnessTree
    seed: int
    steps: int
    split: Split
    limit: int
    onto: Trained | None = None
    """The weights that the training continues with. None: it begins with the base policy."""


@dataclass(slots=True)
class LabSettings:
    """The settings of a run that its lab needs to train and evaluate harness versions."""

    run: str
    base_policy: str
    workers: int
    checkpoints: Path
    seed: int
    concurrency: int = 16
    """Rollouts under way at once if a server answers for the policy."""
    checkpoint_every: int = 0
    """Steps between the seals from which a killed training resumes. 0: it begins again."""
    min_exact: float = 0.0
    """A training stops if a smaller share of the sampled tokens has a token record."""
