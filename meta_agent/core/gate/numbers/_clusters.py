"""Lower bounds for tasks that are not independent because they come in groups.

Tasks of one repository, file or template are won and lost together. A bound over tasks then speaks
only of these groups, while a bound over groups speaks of others like them. So if tasks name their
group, a promotion has to hold by groups too. The variance sums the squared deviations of groups
(Liang and Zeger, Biometrika 73, 1986). Student's quantile uses the number of equal groups that
these are worth (Carter, Schnepel and Steigerwald, Rev. Econ. Stat. 99, 2017).

With fewer than `MIN_GROUPS` nothing can be said of other groups. Then the claim says that it is
about these groups.

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
    """The lower bound `low` of a gain, with `groups` groups of tasks as the independent units.

    `low` is None if there are too few groups.
    """

    groups: int
    worth: float
    """The number of equally large groups that these groups are worth."""
    low: float | None


def by_groups(pairs: Pairs, labels: Mapping[str, str], low: float, alpha: float) -> Grouped | None:
    """Returns the lower bound of the gain that takes groups of tasks as the independent units.

    `labels` maps tasks to groups, `low` is the bound with tasks as the units, and `alpha` the
    one-sided error. Returns None without pairs, or if each task is a group of its own.
    """
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
