"""The harness sources that a new workspace starts from.

`seed_files` is for the workspace's first commit, and for benchmarks, which need to know what was
planted. Whoever proposes or judges sees the sources only, never the names.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from meta_agent.domains.nano import faults
from meta_agent.domains.nano.faults import Edit
from meta_agent.errors import ConfigError
from meta_agent.resources import resource_dir

Variant = Literal["seed", "competent"]
SUITES: Final = ("swe",)
_TINY: Final = (
    Edit("swe/recipe.toml", r"^groups_per_step = .*$", "groups_per_step = 4"),
    Edit("swe/recipe.toml", r"^num_generations = .*$", "num_generations = 4"),
)


class Seed(NamedTuple):
    """A harness as files by path, and the names of the faults planted in it."""

    files: dict[str, bytes]
    faults: list[str]


def _sources(suite: str, variant: Variant) -> dict[str, bytes]:
    if suite not in SUITES:
        raise ConfigError(f"no nano suite {suite!r}", hint=f"choose one of: {', '.join(SUITES)}")
    tree = resource_dir("harness_repo") / "nano" / suite / variant
    paths = (path for path in sorted(tree.rglob("*")) if path.is_file())
    return {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for path in paths
        if "__pycache__" not in path.parts
    }


def seed_files(
    suite: str, seed: int = 0, profile: str = "default", *, variant: Variant = "seed"
) -> Seed:
    """Returns the sources for a seed number; `competent` carries no fault, whatever the number.

    The `tiny` profile trains on small batches, so that tests are quick.
    """
    files = _sources(suite, variant)
    if profile == "tiny":
        for edit in _TINY:
            files[edit.path] = edit.apply(files[edit.path].decode()).encode()
    planted = faults.drawn(suite, seed) if variant == "seed" else ()
    for each in planted:
        files = each.apply(files)
    return Seed(files, [each.name for each in planted])
