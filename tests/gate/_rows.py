"""Builders of arms for the gate's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meta_agent.core.gate import Arm, OutcomeRow


def row(task: int = 0, sample: int = 0, seed: int = 0, **changes: Any) -> OutcomeRow:
    fields: dict[str, Any] = {
        "task_key": f"t{task:04d}",
        "task_hash": f"hash-{task:04d}",
        "sample_idx": sample,
        "training_seed": seed,
        "success": True,
        "flags": (),
        "reward": 1.0,
        "error_kind": None,
        "stop_reason": "submitted",
        "turns": 4,
        "evaluator_hash": "ev1",
    }
    return OutcomeRow(**{**fields, **changes})


Change = Callable[[int, int], dict[str, Any]]


def arm(
    name: str = "arm",
    *,
    tasks: int = 100,
    seeds: Sequence[int] = (0,),
    change: Change | None = None,
) -> Arm:
    """One sample per task; `change(seed, task)` overrides fields of that row."""
    rows = {
        s: tuple(row(t, seed=s, **(change(s, t) if change else {})) for t in range(tasks))
        for s in seeds
    }
    return Arm(name, rows, tasks)


def drawn_arm(name: str, shares: np.ndarray, rng: np.random.Generator, **changes: Any) -> Arm:
    """`shares[s, t]` is the chance that seed s solves task t."""
    seeds, tasks = shares.shape
    solved = rng.random(shares.shape) < shares
    rows = {
        s: tuple(
            row(t, seed=s, success=bool(solved[s, t]), reward=float(solved[s, t]), **changes)
            for t in range(tasks)
        )
        for s in range(seeds)
    }
    return Arm(name, rows, tasks)
