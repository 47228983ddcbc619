"""Extensions by name: the built-in rows of a table, then the entry points of installed packages.

A package registers an extension in its `pyproject.toml`:

    [project.entry-points."meta_agent.strategies"]
    patient = "my_package:Patient"

A built-in name wins over an entry point of the same name. An entry point is imported when it is
asked for; its code is trusted as any import is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any, Final, Generic, TypeVar

from meta_agent.core.errors import ConfigError

T = TypeVar("T")

POLICIES: Final = "meta_agent.policies"
PROPOSERS: Final = "meta_agent.proposers"
DOMAINS: Final = "meta_agent.domains"
STRATEGIES: Final = "meta_agent.strategies"
READERS: Final = "meta_agent.readers"
EXECUTORS: Final = "meta_agent.executors"
TRACKERS: Final = "meta_agent.trackers"


def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Returns the entry points that installed packages declare in a group, by name."""
    return dict(_entry_points(group, tuple(sys.path)))


@lru_cache(maxsize=64)
def _entry_points(group: str, _places: tuple[str, ...]) -> Mapping[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=group)}


def load_entry_point(group: str, name: str) -> Any:
    """Returns the object of an entry point. Raises ConfigError if it is missing or broken."""
    point = entry_points(group).get(name)
    if point is None:
        raise ConfigError(
            f"no installed package registers {name!r} in the group {group}",
            hint="install the package that does, or correct the name",
        )
    try:
        return point.load()
    except Exception as error:  # somebody else's code, while it is imported
        raise ConfigError(
            f"{name!r} of the group {group} cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {error}",
            hint="repair or uninstall the package that registers it",
        ) from error


class Registry(Mapping[str, T], Generic[T]):
    """Extensions of one kind by name, built in or from packages. Other names raise ConfigError."""

    def __init__(self, kind: str, group: str, rows: Mapping[str, T]) -> None:
        self.kind, self.group, self.rows = kind, group, dict(rows)

    def __getitem__(self, name: str) -> T:
        if name in self.rows:
            return self.rows[name]
        if name not in entry_points(self.group):
            raise ConfigError(
                f"there is no {self.kind} {name!r}", hint=f"one of {', '.join(sorted(self))}"
            )
        extension: T = load_entry_point(self.group, name)
        return extension

    def __contains__(self, name: object) -> bool:
        return name in self.rows or name in entry_points(self.group)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.rows, **dict.fromkeys(entry_points(self.group))})

    def __len__(self) -> int:
        return len(list(iter(self)))
