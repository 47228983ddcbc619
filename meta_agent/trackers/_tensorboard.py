"""The only file that writes TensorBoard's event files: `<workspace>/tensorboard/<run>/<series>`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.summary import Writer

from meta_agent.trackers._tracker import Place


class _Tensorboard:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str | None, Any] = {}

    def log(self, series: str | None, step: int, values: Mapping[str, float]) -> None:
        if series not in self._writers:
            self._writers[series] = Writer(str(self._folder / (series or "search")))
        for name, value in values.items():
            self._writers[series].add_scalar(name, value, step)
        self._writers[series].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def open_tracker(place: Place) -> _Tensorboard:
    """Returns a tracker that writes TensorBoard event files to a folder of the run."""
    return _Tensorboard(place.folder / "tensorboard" / place.run)
