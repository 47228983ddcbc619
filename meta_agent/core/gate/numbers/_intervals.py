"""Interval arithmetic of the validity checks: shares, excess over a baseline, two-proportion tests.

Attempts at one task are alike, so they are worth fewer independent attempts: the sample size is
divided by its design effect (Kish 1965), the variance of a task's hits over the binomial variance.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

Z_95 = 1.959963984540054


class Interval(NamedTuple):
    """A closed interval of numbers, from `low` to `high`."""

    low: float
    high: float


class Counted(NamedTuple):
    """The number of hits among `n` attempts, which tell as much as `worth` independent ones."""

    hits: int
    n: int
    worth: float

    @property
    def share(self) -> float:
        """Returns the share of hits among the attempts, or 0 if there are none."""
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> Interval:
        """Returns the 95 % interval of the share of hits, for `worth` independent attempts."""
        return wilson(self.share * self.worth, self.worth)


def counted(marks: Iterable[tuple[str, bool]]) -> Counted:
    """Returns the count of hits, from one (task key, whether it is a hit) pair per attempt."""
    by_task: dict[str, list[bool]] = defaultdict(list)
    for task, hit in marks:
        by_task[task].append(hit)
    return clustered((sum(each), len(each)) for each in by_task.values())


def clustered(tallies: Iterable[tuple[int, int]]) -> Counted:
    """Returns the count of hits, from one (hits, attempts) pair per task; zeros without pairs."""
    counts = list(tallies)
    hits, n = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if hits in (0, n):
        return Counted(hits, n, float(n))
    share = hits / n
    between_tasks = math.fsum((task_hits - share * size) ** 2 for task_hits, size in counts)
    return Counted(hits, n, n / max(1.0, between_tasks / (n * share * (1 - share))))


def excess(after: Counted, before: Counted) -> Interval:
    """Returns the 95 % interval of the share `after` minus the share `before`, the baseline's.

    Without attempts in `before`, returns the interval of `after` (Newcombe 1998, method 10).
    """
    after_interval = after.interval
    if not before.n:
        return after_interval
    before_interval = before.interval
    gap = after.share - before.share
    down = math.hypot(after.share - after_interval.low, before_interval.high - before.share)
    up = math.hypot(after_interval.high - after.share, before.share - before_interval.low)
    return Interval(max(-1.0, gap - down), min(1.0, gap + up))


def wilson(hits: float, total: float, z: float = Z_95) -> Interval:
    """Returns the Wilson score interval of `hits` / `total`, or [0, 1] if `total` is 0."""
    if total == 0:
        return Interval(0.0, 1.0)
    share, zz = hits / total, z * z
    centre = (share + zz / (2 * total)) / (1 + zz / total)
    half = z * math.sqrt(share * (1 - share) / total + zz / (4 * total * total)) / (1 + zz / total)
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == total else min(1.0, centre + half)
    return Interval(low, high)


def two_proportion_p(hits_a: int, total_a: int, hits_b: int, total_b: int) -> float:
    """Returns the two-sided p-value of a pooled z-test for two shares; 1.0 if a total is 0."""
    if not total_a or not total_b:
        return 1.0
    pooled = (hits_a + hits_b) / (total_a + total_b)
    variance = pooled * (1 - pooled) * (1 / total_a + 1 / total_b)
    if variance <= 0:
        return 1.0
    z = (hits_a / total_a - hits_b / total_b) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
