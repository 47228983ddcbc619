"""What a tracker is, which there are, and the names of what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from meta_agent.protocols import JSON
from meta_agent.training import TRL_NAMES

PROJECT: Final = "meta-agent"


_SAID: Final = ("domain", "policy", "meta_model", "strategy", "seed", "train_steps", "generations")


class Place(NamedTuple):
    """A run: its name, the folder for what stays local, and what is said of its settings."""

    run: str
    folder: Path
    config: Mapping[str, JSON]

    @classmethod
    def of(cls, run: str, folder: Path, config: Mapping[str, JSON]) -> Self:
        """No path, address or file of the machine leaves it."""
        return cls(run, folder, {name: config[name] for name in _SAID})


class Tracker(Protocol):
    """One tracker of one run. Called from one thread."""

    def log(self, series: str | None, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one training (`series`), or of the search (None)."""
        ...

    def close(self) -> None:
        """Ends all its runs."""
        ...


def open_tracker(name: str, place: Place) -> Tracker:
    """Imports `_<name>.py`, which needs the package of that name, and begins the parent run."""
    opened: Callable[[Place], Tracker] = import_module(f"{__package__}._{name}").open_tracker
    return opened(place)


def by_trl(values: Mapping[str, float]) -> dict[str, float]:
    """A training's numbers as TRL's own trackers have them."""
    return {f"train/{TRL_NAMES.get(name, name)}": value for name, value in values.items()}
