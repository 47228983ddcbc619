"""How many tasks may come from one place, so that a set is not forty times the same fault.

A function's split is fixed by its name (so that two sets of one package never disagree); the quota
keeps the splits in proportion as far as the package gives functions for each.

Does not cover: tasks that one test decides; the callers refuse those.
"""

from __future__ import annotations

import math
import sys
from collections import Counter

from meta_agent.domains.formats._splits import BUCKETS
from meta_agent.domains.tasks._rows import split_of
from meta_agent.domains.tasks.planting._mutations import Mutation

PER_FUNCTION = 2
_OPERATOR_SHARE = 1 / 6
_LEAST = 4
_LEAST_KIND = 2  # of one operator


class Quota:
    """Counts what was taken. What is refused stays refused until splits no longer count."""

    def __init__(self, package: str, count: int, files: int) -> None:
        self._package = package
        self._taken: Counter[tuple[str, str]] = Counter()
        self._limits = {
            "function": PER_FUNCTION,
            "operator": max(_LEAST_KIND, math.ceil(count * _OPERATOR_SHARE)),
            "file": max(_LEAST, math.ceil(2 * count / max(files, 1))),
        } | {split: max(_LEAST, math.ceil(count * share / 100)) for split, share in BUCKETS}

    def allows(self, mutation: Mutation) -> bool:
        return all(self._taken[mark] < self._limits[mark[0]] for mark in self._marks(mutation))

    def forget_splits(self) -> None:
        """Where a package gives too little for each split, a full set is worth more."""
        self._limits |= {split: sys.maxsize for split, _ in BUCKETS}

    def take(self, mutation: Mutation) -> None:
        self._taken.update(self._marks(mutation))

    def _marks(self, mutation: Mutation) -> tuple[tuple[str, str], ...]:
        return (
            ("function", mutation.topic),
            ("operator", mutation.operator),
            ("file", mutation.path),
            (split_of(self._package, mutation.topic), ""),
        )
