"""How many tasks may come from one place, so that a set is not forty times the same fault.

Does not cover: tasks of different functions that one test decides; the callers refuse a second task
with the same deciding tests.
"""

from __future__ import annotations

import math
from collections import Counter

from meta_agent.domains.tasks._mutations import Mutation

PER_FUNCTION = 2
_OPERATOR_SHARE = 1 / 6
_LEAST = 4


class Quota:
    """Counts what was taken. Once something is refused it stays refused."""

    def __init__(self, count: int, files: int) -> None:
        self._taken: Counter[tuple[str, str]] = Counter()
        self._limits = {
            "function": PER_FUNCTION,
            "operator": max(_LEAST, math.ceil(count * _OPERATOR_SHARE)),
            "file": max(_LEAST, math.ceil(2 * count / max(files, 1))),
        }

    def allows(self, mutation: Mutation) -> bool:
        return all(self._taken[mark] < self._limits[mark[0]] for mark in _marks(mutation))

    def take(self, mutation: Mutation) -> None:
        self._taken.update(_marks(mutation))


def _marks(mutation: Mutation) -> tuple[tuple[str, str], ...]:
    return (
        ("function", f"{mutation.path}:{mutation.function}"),
        ("operator", mutation.operator),
        ("file", mutation.path),
    )
