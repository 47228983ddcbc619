"""The only file that talks to trackio: a group per run, in its own local store or on its server."""

from __future__ import annotations

import contextvars
from typing import Any

import trackio

from meta_agent.trackers._tracker import PROJECT, PerSeries, Place


class _Trackio(PerSeries):
    def _begun(self, series: str | None, name: str) -> Any:
        # `init` ends the run that is current in its context: each is opened in a fresh one.
        return contextvars.Context().run(
            trackio.init,
            project=PROJECT,
            name=name,
            group=self._place.run,
            config=dict(self._place.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )


def open_tracker(place: Place) -> _Trackio:
    """Returns a tracker that writes to the trackio project `meta-agent`."""
    return _Trackio(place)
