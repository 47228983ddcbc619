"""A small task set of a frozen policy, used whole: one half is searched on, the other confirms.

With few tasks a fixed split leaves too few on either side, and nothing trains on the train tasks.
So all three splits are pooled and halved by a hash of their names; train tasks come to the half
that is searched on and never to the other, so that what its author set apart stays apart.

Does not cover: the vault, which is its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from meta_agent.protocols import JSON, Domain, Environment, Outcome, Split, Task


class Halves:
    """A domain whose tasks but the vault's are searched on or confirm."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.name, self.evaluator_hash = domain.name, domain.evaluator_hash
        self.ceilings, self.sampling = domain.ceilings, domain.sampling
        train, rest = list(domain.tasks("train")), list[Task]()
        for split in ("search", "confirm"):
            rest += domain.tasks(split)
        rest.sort(key=lambda task: (hashlib.sha256(task.key.encode()).digest(), task.key))
        more = max(0, (len(train) + len(rest)) // 2 - len(train))
        self._search, self._confirm = [*train, *rest[:more]], rest[more:]

    def tasks(self, split: Split) -> Sequence[Task]:
        if split == "vault":
            return self._domain.tasks(split)
        half = self._confirm if split == "confirm" else self._search
        return [replace(task, split=split) for task in half]

    def open(self, task: Task) -> Environment:
        return self._domain.open(task)

    def regrade(self, task_key: str, verifier_inputs: Mapping[str, JSON]) -> Outcome:
        return self._domain.regrade(task_key, verifier_inputs)

    def __getattr__(self, name: str) -> Any:
        """What some domains have beyond the protocol, such as `open_at_once` and `close`."""
        return getattr(self._domain, name)
