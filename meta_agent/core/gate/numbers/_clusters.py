"""Tasks that are not independent: the unit follows what they say of themselves.

Tasks of one repository, file or template are won and lost together. A bound over tasks
then speaks of these groups alone; one over groups speaks of others like them. So where tasks name
their group a promotion has to hold by groups as well: the squared sums of a group's deviations
(Liang and Zeger, Biometrika 73, 1986) with Student's quantile for as many groups as equal ones
would be (Carter, Schnepel and Steigerwald, Rev. Econ. Stat. 99, 2017).

With fewer than `MIN_GROUPS` nothing can be said of others: then the claim says that it is about
these.

Not covered: groups that nobody named. Tasks of equal content are one task already (`statistics`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from meta_agent.core.gate.numbers.statistics import Pairs, t_quantile

MIN_GROUPS: Final = 5


class Grouped(NamedTuple):
    """The lower bound by groups of tasks; None where they are too few for one."""

    groups: int
    worth: float
    """As many equal ones."""
    low: float | None


def by_groups(pairs: Pairs, labels: Mapping[str, str], low: float, alpha: float) -> Grouped | None:
    """None where no task shares its group; `low` is the bound that takes tasks as independent."""
    if not pairs.cells.size:
        return None
    row = pairs.cells.mean(axis=0)
    mean, tasks = float(row.mean()), row.size
    sums: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for key, value in zip(pairs.tasks, row, strict=True):
        group = labels.get(key, f"\0{key}")
        sums[group] += float(value) - mean
        sizes[group] += 1
    groups = len(sizes)
    if groups == tasks:
        return None
    worth = tasks**2 / sum(size * size for size in sizes.values())
    if groups < MIN_GROUPS or worth <= 1:
        return Grouped(groups, worth, None)
    variance = math.fsum(s * s for s in sums.values()) / tasks**2 * groups / (groups - 1)
    half = t_quantile(worth - 1, alpha) * math.sqrt(variance)
    if len(pairs.cells) > 1:  # training seeds are a source of error of their own
        half = math.hypot(half, mean - low)
    return Grouped(groups, worth, mean - half)
