"""The harness sources that a new workspace starts from.

`seed_files` is for the workspace's first commit, and for benchmarks, which need to know what was
planted. Whoever proposes or judges sees the sources only, never the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from meta_agent.domains.nano.planted import code_faults, faults, math_faults
from meta_agent.domains.nano.planted._fault import Edit, Fault, drawn_from
from meta_agent.domains.nano.sources import Variant, sources

PLANTED: Final[Mapping[str, tuple[tuple[Fault, ...], tuple[str, ...]]]] = {
    "swe": (faults.FAULTS, faults.DEFAULT_SEED),
    "math": (math_faults.FAULTS, math_faults.DEFAULT_SEED),
    "code": (code_faults.FAULTS, code_faults.DEFAULT_SEED),
}
"""By suite: the faults, and those of seed 0."""
_TINY: Final = (
    (r"^groups_per_step = .*$", "groups_per_step = 4"),
    (r"^num_generations = .*$", "num_generations = 4"),
)


class Seed(NamedTuple):
    """A harness as files by path, and the names of the faults planted in it."""

    files: dict[str, bytes]
    faults: list[str]


def seed_files(
    suite: str, seed: int = 0, profile: str = "default", *, variant: Variant = "seed"
) -> Seed:
    """Returns a suite's harness with the faults of `seed`; the variant `competent` has none.

    The profile `tiny` trains on small batches, so that tests are quick.
    """
    files = sources(suite, variant)
    if profile == "tiny":
        for pattern, text in _TINY:
            edit = Edit(f"{suite}/recipe.toml", pattern, text)
            files[edit.path] = edit.apply(files[edit.path].decode()).encode()
    faults, default = PLANTED[suite]
    planted = drawn_from(faults, suite, seed, default) if variant == "seed" else ()
    for each in planted:
        files = each.apply(files)
    return Seed(files, [each.name for each in planted])
