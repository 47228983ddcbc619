"""Which split a task is in: the row states it, or a hash of its content decides.

The hash is of what makes a task this task, so a task never moves to another split.
"""

from __future__ import annotations

from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.formats.rows import Fields

# Share of hash space for each split, in percent; the order is part of the evaluator's identity.
BUCKETS: tuple[tuple[Split, int], ...] = (
    ("train", 40),
    ("search", 20),
    ("confirm", 20),
    ("vault", 20),
)


def hashed_split(key: str) -> Split:
    """Returns the split of a semantic key (hexadecimal)."""
    point = int(key[:8], 16) % 100
    for split, share in BUCKETS:
        point -= share
        if point < 0:
            return split
    raise AssertionError("the shares add up to 100")


def split_of(fields: Fields, key: str) -> Split:
    """Returns the split that a row states by one of our four names, or that of its key.

    Public sets say `test` or `validation` of their own, which states none of ours.
    """
    return next((split for split in SPLITS if fields.row.get("split") == split), hashed_split(key))


def explicit_split(fields: Fields) -> Split | None:
    """Returns the split that a row states, or None. Raises `ConfigError` for another value."""
    value = fields.row.get("split")
    for split in SPLITS:
        if value == split:
            return split
    if value is None:
        return None
    raise fields.error("split", f"one of {', '.join(SPLITS)}")
