"""Faults to plant in toolz 1.0.0, each with the report that a user might have filed.

A fault is one small edit of the kind that slips through a review. A report says what goes wrong,
never where or why. Which tests fail because of it is measured by `make_tasks.py`, not written down
here. The splits are sized for a frozen policy: 4 tasks to train on, 10 that the search reads, 16
that decide, 8 that are read once at the end.
"""

from __future__ import annotations

import bugs_dicttoolz
import bugs_functoolz
import bugs_itertoolz
from bug import Bug

BUGS: tuple[Bug, ...] = (*bugs_itertoolz.BUGS, *bugs_dicttoolz.BUGS, *bugs_functoolz.BUGS)
