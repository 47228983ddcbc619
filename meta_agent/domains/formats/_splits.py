"""Splits that a file does not state: by hash of what makes a task this task, so they never move."""

from __future__ import annotations

from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.formats._fields import Fields

# Share of hash space for each split, in percent; the order is part of the evaluator's identity.
BUCKETS: tuple[tuple[Split, int], ...] = (
    ("train", 40),
    ("search", 20),
    ("confirm", 20),
    ("vault", 20),
)


def hashed_split(key: str) -> Split:
    """The split of a semantic key (hexadecimal)."""
    point = int(key[:8], 16) % 100
    for split, share in BUCKETS:
        point -= share
        if point < 0:
            return split
    raise AssertionError("the shares add up to 100")


def explicit_split(fields: Fields) -> Split | None:
    """The split that a row states, None where it states none of ours."""
    value = fields.row.get("split")
    for split in SPLITS:
        if value == split:
            return split
    if value is None:
        return None
    raise fields.error("split", f"one of {', '.join(SPLITS)}")


def stated_split(fields: Fields) -> Split | None:
    """Public sets say `test` or `validation` of their own; only our four names state a split."""
    return explicit_split(fields) if fields.row.get("split") in SPLITS else None
