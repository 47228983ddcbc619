"""A set without splits of its own, for a policy that is not trained: no task lies idle.

Files that state no split are dealt by hash, two fifths to training. With a frozen policy nothing
trains, so those tasks are dealt once more, to search, confirm and vault; the others stay where they
are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from meta_agent.protocols import JSON, SPLITS, Domain, Environment, Outcome, Split, Task

_DEALT: Final[tuple[Split, ...]] = ("search", "confirm", "vault")


class Whole:
    """A domain whose training tasks are dealt to the other splits."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.name = domain.name
        self.ceilings, self.sampling = domain.ceilings, domain.sampling
        self.evaluator_hash = hashlib.sha256(f"whole {domain.evaluator_hash}".encode()).hexdigest()
        self._tasks: dict[Split, list[Task]] = {split: [] for split in SPLITS}
        for split in SPLITS:
            for task in domain.tasks(split):
                dealt = _dealt(task.key) if split == "train" else split
                self._tasks[dealt].append(replace(task, split=dealt))

    @property
    def notes(self) -> tuple[str, ...]:
        sizes = ", ".join(f"{split} {len(self._tasks[split])}" for split in _DEALT)
        told = f"no row states a split and nothing is trained: all tasks are used ({sizes})"
        return (*getattr(self._domain, "notes", ()), told)

    def tasks(self, split: Split) -> Sequence[Task]:
        return list(self._tasks[split])

    def open(self, task: Task) -> Environment:
        return self._domain.open(task)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return self._domain.regrade(task_key, verifier_inputs)

    def __getattr__(self, name: str) -> Any:
        """What some domains have beyond the protocol, such as `open_at_once` and `close`."""
        return getattr(self._domain, name)


def _dealt(key: str) -> Split:
    return _DEALT[int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % len(_DEALT)]
