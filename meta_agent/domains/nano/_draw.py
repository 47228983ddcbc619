"""Random choices that stay the same on every machine and Python version, keyed by a text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices named by its key. Hash-based: `random` may change between versions."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._count = 0

    def below(self, bound: int) -> int:
        """Returns a number in [0, bound); the modulo's bias is below 2**-50 at our bounds."""
        self._count += 1
        digest = hashlib.sha256(f"{self._key}#{self._count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % bound

    def choice(self, options: Sequence[T]) -> T:
        """Returns one of the options."""
        return options[self.below(len(options))]

    def weighted(self, weights: dict[str, int]) -> str:
        """Returns a name with a chance proportional to its weight."""
        rest = self.below(sum(weights.values()))
        for name, weight in weights.items():
            if rest < weight:
                return name
            rest -= weight
        raise AssertionError("unreachable: the rest is below the sum of the weights")

    def chance(self, percent: int) -> bool:
        """Returns True in so many of a hundred cases."""
        return self.below(100) < percent

    def distinct(self, options: Sequence[T], count: int) -> list[T]:
        """Returns that many different options, in drawn order."""
        rest = list(options)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]
