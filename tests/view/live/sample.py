"""A workspace with a recorded run and stored attempts, hostile texts among them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meta_agent.core.ledger import Ledger
from meta_agent.core.protocols import Rollout, RolloutFailure, TokenRecord, ToolEvent, ViewChange
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import Workspace, init_workspace

from ..sample import HOSTILE, write_sample

RUN = "r1"
START = "c" * 40
TOKENS = TokenRecord([5], [7, 8, 9], [1, 0, 1], [-0.1, 0.0, -3.0])


def attempt(task: int, **changes: Any) -> Rollout:
    """One attempt: the harness drops the first question before the second call."""
    fields: dict[str, Any] = {
        **{"run": RUN, "version": "v", "domain": "lab", "split": "search", "policy": "nano@1"},
        **{"task_key": f"lab/{task:04}", "task_hash": "h", "group_id": "g", "sample_idx": 0},
        **{"seed": 0, "harness_commit": START, "evaluator_hash": "e", "outcome": True, "turns": 2},
        "messages": [
            {"role": "user", "content": "in short"},
            {"role": "assistant", "content": "done"},
        ],
        "views": [
            ViewChange(
                1,
                0,
                2,
                [
                    {"role": "user", "content": f"the question {HOSTILE}"},
                    {"role": "assistant", "content": "let me look"},
                ],
            )
        ],
        "tool_events": [ToolEvent(0, "view", {"path": "a.py"}, HOSTILE, ok=True)],
        "rewards": {"solved": 1.0, "tidy": 0.5},
        "weights": {"solved": 1.0, "tidy": 0.2},
        "stop_reason": "submitted",
    }
    return Rollout(**{**fields, **changes})


def lost(task: int) -> Rollout:
    """A machine failed."""
    return attempt(task, outcome=None, error=RolloutFailure("infra", f"gone {HOSTILE}"))


def mixed(count: int, seed: int, commit: str = START) -> Iterator[Rollout]:
    """Clean, flagged and failed ones, by chance."""
    chance = random.Random(seed)
    for task in range(count):
        solved, leak = chance.random() < 0.6, chance.random() < 0.2
        flags = ["leak:log"] if leak else []
        yield attempt(task, outcome=solved, flags=flags, harness_commit=commit)


def workspace(root: Path, *, recorded: bool = True, **how: Any) -> Workspace:
    """A workspace whose run `how` was recorded by `write_sample`; without one, an empty one."""
    place = init_workspace(root, domain="swe", create_repo=lambda path: path.mkdir())
    if recorded:
        write_sample(place.ledger_file, **how)
    return place


def measured(place: Workspace, **shards: Iterator[Rollout] | list[Rollout]) -> None:
    """Stores evaluations and records them, as a lab does."""
    store = RolloutStore(place.rollouts)
    with Ledger.open(place.ledger_file) as ledger:
        (before,) = ledger.runs()
        ledger.start_run(RUN, before.config, config_hash="h")
        for name, rows in shards.items():
            shard = f"{RUN}/eval-{name}-s0-x-search"
            store.write(shard, rows)
            outcome = {"shard": {"name": shard}}
            ledger.once(f"{RUN}/eval/{name}", "eval", {}, lambda told=outcome: told)
        if before.exit_reason:
            ledger.finish_run(RUN, before.exit_reason)
