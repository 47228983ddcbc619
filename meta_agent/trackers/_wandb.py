"""The only file that talks to Weights & Biases. A run is a group, local if `WANDB_MODE=offline`."""

from __future__ import annotations

import re
from typing import Any

import wandb

from meta_agent.trackers._tracker import PROJECT, PerSeries, Place


class _Wandb(PerSeries):
    def _begun(self, series: str | None, name: str) -> Any:
        return wandb.init(
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


def open_tracker(place: Place) -> _Wandb:
    """Returns a tracker for the W&B project `meta-agent`, set up by the variables `WANDB_*`."""
    return _Wandb(place)
