"""The only file that talks to trackio: a group per run, in its own local store or on its server."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

import trackio

from meta_agent.trackers._tracker import PROJECT, Place


class _Trackio:
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
            # `init` ends the run that is current in its context: each is opened in a fresh one.
            self._runs[series] = contextvars.Context().run(
                trackio.init,
                project=PROJECT,
                name=self._place.run if series is None else f"{self._place.run}/{series}",
                group=self._place.run,
                config=dict(self._place.config),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        return self._runs[series]


def open_tracker(place: Place) -> _Trackio:
    """The project `meta-agent`."""
    return _Trackio(place)
