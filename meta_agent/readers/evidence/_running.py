"""Statistics of a stream in one pass and constant memory."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Correlation:
    """Pearson's correlation `r` of two streams of numbers; None while either is constant."""

    n: int = 0
    _x: float = 0.0
    _y: float = 0.0
    _xx: float = 0.0
    _yy: float = 0.0
    _xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        if not (math.isfinite(x) and math.isfinite(y)):
            return
        self.n += 1
        dx, dy = x - self._x, y - self._y
        self._x += dx / self.n
        self._y += dy / self.n
        self._xx += dx * (x - self._x)
        self._yy += dy * (y - self._y)
        self._xy += dx * (y - self._y)

    @property
    def moments(self) -> tuple[float, float, float]:
        """Returns the centred sums of squares of x and of y, and of their products."""
        return self._xx, self._yy, self._xy

    @property
    def r(self) -> float | None:
        return _pearson(*self.moments)


@dataclass(slots=True)
class Within:
    """Pearson's correlation of two streams within classes, each class centred on its own means."""

    classes: dict[Hashable, Correlation] = field(default_factory=lambda: defaultdict(Correlation))

    def add(self, kind: Hashable, x: float, y: float) -> None:
        self.classes[kind].add(x, y)

    @property
    def r(self) -> float | None:
        parts = [part.moments for part in self.classes.values()]
        xx, yy, xy = (sum(part[i] for part in parts) for i in range(3))
        return _pearson(xx, yy, xy)


@dataclass(slots=True)
class Follows:
    """The correlation `r` of two series within groups, or over all if y varies in no group."""

    within: Within = field(default_factory=Within)
    over_all: Correlation = field(default_factory=Correlation)

    def add(self, kind: Hashable, x: float, y: float) -> None:
        self.within.add(kind, x, y)
        self.over_all.add(x, y)

    @property
    def r(self) -> float | None:
        """Returns Pearson's correlation within groups, or over all records if y varies in no group.

        Returns 0 if only y varies, and None if y does not vary.
        """
        inside = [part.moments for part in self.within.classes.values() if part.n > 1]
        if any(yy > 0 for _, yy, _ in inside):
            return self.within.r or 0.0
        return (self.over_all.r or 0.0) if self.over_all.moments[1] > 0 else None


def _pearson(xx: float, yy: float, xy: float) -> float | None:
    scale = xx * yy
    return None if scale <= 1e-18 else max(-1.0, min(1.0, xy / math.sqrt(scale)))


def share(hits: float, total: float) -> float:
    """Returns hits / total, or 0 if the total is 0."""
    return hits / total if total else 0.0
