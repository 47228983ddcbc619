"""The only file that talks to Weights & Biases: a group per run (`WANDB_MODE=offline`: here)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import wandb

from meta_agent.trackers._tracker import PROJECT, Place


class _Wandb:
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
            name = self._place.run if series is None else f"{self._place.run}/{series}"
            self._runs[series] = wandb.init(
                project=PROJECT,
                group=self._place.run,
                job_type="search" if series is None else "training",
                name=name,
                id=re.sub(r"[^A-Za-z0-9_-]", "-", name),
                resume="allow",
                config=dict(self._place.config),
                dir=str(self._place.folder),
                reinit="create_new",
                # Numbers alone: no code, no git, no console, nothing of the machine.
                settings=wandb.Settings(
                    console="off",
                    disable_git=True,
                    disable_code=True,
                    silent=True,
                    x_disable_stats=True,
                    x_disable_machine_info=True,
                    init_timeout=20,
                ),
            )
        return self._runs[series]


def open_tracker(place: Place) -> _Wandb:
    """The project `meta-agent`, where `WANDB_*` says."""
    return _Wandb(place)
