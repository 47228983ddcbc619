"""The harness sources that a new workspace starts from.

`seed_files` is for the workspace's first commit, and for benchmarks, which need to know what was
planted. Whoever proposes or judges sees the sources only, never the names.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from meta_agent.domains.nano import faults
from meta_agent.domains.nano.faults import Edit
from meta_agent.domains.nano.sources import Variant, sources

_TINY: Final = (
    Edit("swe/recipe.toml", r"^groups_per_step = .*$", "groups_per_step = 4"),
    Edit("swe/recipe.toml", r"^num_generations = .*$", "num_generations = 4"),
)


class Seed(NamedTuple):
    """A harness as files by path, and the names of the faults planted in it."""

    files: dict[str, bytes]
    faults: list[str]


def seed_files(
    suite: str, seed: int = 0, profile: str = "default", *, variant: Variant = "seed"
) -> Seed:
    """Returns the sources for a seed number; `competent` carries no fault, whatever the number.

    The `tiny` profile trains on small batches, so that tests are quick.
    """
    files = sources(suite, variant)
    if profile == "tiny":
        for edit in _TINY:
            files[edit.path] = edit.apply(files[edit.path].decode()).encode()
    planted = faults.drawn(suite, seed) if variant == "seed" else ()
    for each in planted:
        files = each.apply(files)
    return Seed(files, [each.name for each in planted])
