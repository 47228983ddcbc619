"""Trainings that are killed or stopped, and the comparison of two results."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import Interrupted, TrainingError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.lab.training import TrainResult
from meta_agent.core.protocols import JSON
from meta_agent.policies.training import PolicyChild, TrainSettings
from tests.training import _loop

STEPS = 3  # of `_loop.run`


def train(
    child: PolicyChild, session: HarnessSession, base: str | Path, out: Path, **options: Any
) -> TrainResult:
    settings = {"seed": 1, "keep_steps": 1, "keep_every": 1, "seal_every": 1, **options}
    return _loop.run(child, session, base, out, **settings)  # type: ignore[arg-type]


def killed(
    session: HarnessSession,
    base: str | Path,
    out: Path,
    at: int,
    settings: TrainSettings | None = None,
    **options: Any,
) -> list[JSON]:
    """Trains until the metrics of step `at` come, and kills the child there and then."""
    rows: list[JSON] = []
    with PolicyChild(threads=1, settings=settings) as victim:

        def on_metrics(row: JSON) -> None:
            rows.append(row)
            if row["step"] == at:
                os.kill(victim.pid, signal.SIGKILL)

        with pytest.raises(TrainingError, match="SIGKILL"):
            train(victim, session, base, out, on_metrics=on_metrics, **options)
    return rows


class Stop:
    """Asks a training to stop: in the rollouts after step `at`, where it has been asked `more`."""

    def __init__(self, at: int, more: int = 0) -> None:
        self._at, self._more, self._step = at, more, 0

    def on_metrics(self, row: JSON) -> None:
        self._step = int(row["step"])

    def __call__(self) -> bool:
        self._more -= self._step >= self._at
        return self._step >= self._at and self._more < 0


def stopped(
    child: PolicyChild,
    session: HarnessSession,
    base: str | Path,
    out: Path,
    stop: Stop,
    **options: Any,
) -> None:
    """Trains until `stop`; the child lives on."""
    with pytest.raises(Interrupted, match=f"saved as of step {stop._at} of {STEPS}"):
        train(child, session, base, out, on_metrics=stop.on_metrics, stopping=stop, **options)


def same(one: TrainResult, other: TrainResult) -> None:
    """But for times, and for where it lies."""
    assert other.checkpoint.policy == one.checkpoint.policy
    assert [made.policy for made in other.checkpoints] == [made.policy for made in one.checkpoints]
    assert other.rollouts_made == one.rollouts_made

    def plain(result: TrainResult) -> list[JSON]:
        return [
            {name: value for name, value in row.items() if not name.endswith("_sec")}
            for row in result.metrics
        ]

    assert plain(other) == plain(one)
    assert [replace(r, timings={}) for r in other.rollouts] == [
        replace(r, timings={}) for r in one.rollouts
    ]


def ends_alike_if_killed_or_stopped(
    whole: TrainResult,
    child: PolicyChild,
    session: HarnessSession,
    base: str | Path,
    folder: Path,
    **options: Any,
) -> None:
    """Checks that a training which is killed, and one which is stopped, end as `whole` did."""
    killed(session, base, folder / "killed", 2, **options)
    same(whole, train(child, session, base, folder / "killed", **options))
    stop, out = Stop(2, 1), folder / "stopped"
    with pytest.raises(Interrupted):
        train(child, session, base, out, on_metrics=stop.on_metrics, stopping=stop, **options)
    same(whole, train(child, session, base, out, **options))
