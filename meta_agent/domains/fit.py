"""Whether a run can be made of a task set: decided here, for `evolve` and for all that make sets.

Does not cover: whether the set can prove anything; a run says that of itself (`steps.plan`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from meta_agent.core.offers import Offered
from meta_agent.core.protocols import SPLITS, Domain
from meta_agent.domains.dealt import Whole

SMALL: Final = 100
"""Tasks below which a set needs no vault, and a frozen policy's is used whole, in halves."""


def as_used(domain: Domain, *, trainable: bool) -> Domain:
    """The set as a run deals it."""
    dealt = not trainable and not Offered.by(domain).splits_stated
    return Whole(domain) if dealt else domain


def sizes(domain: Domain) -> dict[str, int]:
    """Tasks of each split."""
    return {split: len(domain.tasks(split)) for split in SPLITS}


def lacking(counts: Mapping[str, int], *, trainable: bool) -> str:
    """What a run will not start without, behind "it has"; empty where it starts."""
    optional = {*(() if trainable else ("train",))}
    optional |= {"vault"} if sum(counts.values()) < SMALL else set()
    needed = [split for split in SPLITS if split not in optional]
    empty = [split for split in needed if not counts.get(split)]
    told = f"no task in the split {' and '.join(empty)}; a run needs one at least in each of "
    return told + ", ".join(needed) if empty else ""
