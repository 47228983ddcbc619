"""A host that rolls out plain conversations and rewards letters: enough to train on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from meta_agent.core.protocols import TokenRecord
from meta_agent.policies.training import PolicyChild, RolloutEvent, Row
from tests.models import _nano

RECIPE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "groups_per_step": 2,
    "num_generations": 4,
}


def rows_of(child: PolicyChild, event: RolloutEvent, turns: int = 2) -> list[Row]:
    """Multi-turn rollouts whose reward is the share of capital letters."""
    size = event.group_size
    keys = [f"{event.step}/{i}" for i in range(event.groups * size)]
    talks = {key: [f"issue {i // size}"] for i, key in enumerate(keys)}
    for turn in range(turns):
        asked = [
            _nano.request(
                key,
                *talks[key],
                task_key=str(i // size),
                sample_idx=i % size,
                seed=event.step,
                turn=turn,
            )
            for i, key in enumerate(keys)
        ]
        for key, reply in zip(keys, child.generate(asked), strict=True):
            talks[key] += [reply.content, "ok"]
    return [Row(reward(record), record) for record in child.finish(keys)]


def reward(record: TokenRecord | None) -> float:
    assert record is not None
    mine = [t for t, m in zip(record.completion_ids, record.mask, strict=True) if m]
    return sum(35 <= token <= 60 for token in mine) / len(mine)


def provider(child: PolicyChild) -> Callable[[RolloutEvent], list[Row]]:
    return lambda event: rows_of(child, event)
