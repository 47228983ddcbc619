"""The interface of a tracker, the table of all trackers, and the names of what they receive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

from meta_agent.core import registry
from meta_agent.core.config import TRACKER_NAMES
from meta_agent.core.protocols import JSON
from meta_agent.core.registry import Registry
from meta_agent.policies.training import TRL_NAMES

PROJECT: Final = "meta-agent"
_SAID: Final = ("domain", "policy", "meta_model", "strategy", "seed", "train_steps", "generations")


class Place(NamedTuple):
    """A run as a tracker sees it: its name, a folder for local files, and a few settings."""

    run: str
    folder: Path
    config: Mapping[str, JSON]

    @classmethod
    def of(cls, run: str, folder: Path, config: Mapping[str, JSON]) -> Self:
        """Returns the `Place` of a run, with only a few settings of `config` and no paths."""
        return cls(run, folder, {name: config[name] for name in _SAID})


class Tracker(Protocol):
    """An experiment tracker (such as MLflow) of one run's numbers, used by one thread only."""

    def log(self, series: str | None, step: int, values: Mapping[str, float]) -> None:
        """Records numbers by name at a step of the training `series`, or of the search (None)."""
        ...

    def close(self) -> None:
        """Ends every experiment run that was opened at the tracker."""
        ...


class PerSeries(ABC):
    """Base class of trackers that open one run for the search and one for each training."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._runs: dict[str | None, Any] = {}
        self._opened(None)

    def log(self, series: str | None, step: int, values: Mapping[str, float]) -> None:
        self._opened(series).log(dict(values), step=step)

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()

    def _opened(self, series: str | None) -> Any:
        if series not in self._runs:
            run = self._place.run
            self._runs[series] = self._begun(series, f"{run}/{series}" if series else run)
        return self._runs[series]

    @abstractmethod
    def _begun(self, series: str | None, name: str) -> Any:
        """Opens the tracker's run `name`, or continues it if an earlier process opened it."""


def _built_in(name: str, place: Place) -> Tracker:
    """Opens the tracker of the module `_<name>.py`, which needs the package of that name."""
    opened: Callable[[Place], Tracker] = import_module(f"{__package__}._{name}").open_tracker
    return opened(place)


TRACKERS: Final = Registry[Callable[[Place], Tracker]](
    "tracker", registry.TRACKERS, {name: partial(_built_in, name) for name in TRACKER_NAMES}
)


def open_tracker(name: str, place: Place) -> Tracker:
    """Opens a tracker for a run. Raises ConfigError if there is no tracker of that name."""
    return TRACKERS[name](place)


def by_trl(values: Mapping[str, float]) -> dict[str, float]:
    """Returns a training's numbers under TRL's names for them, each with the prefix `train/`."""
    return {f"train/{TRL_NAMES.get(name, name)}": value for name, value in values.items()}
