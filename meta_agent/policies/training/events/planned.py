"""Plans the rollouts of a training's events, by seed and step alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from meta_agent.core.protocols import Domain, PlannedRollout, Task
from meta_agent.core.task_splits import WithGenerated
from meta_agent.policies.training._wire import RolloutEvent

_STEPS_PER_SEED: Final = 100_000
"""Training seeds stay apart as long as a run has fewer steps."""


def training_tasks(domain: Domain, seed: int) -> dict[str, Task]:
    """Returns the training tasks by key, in a random order drawn from the training seed.

    Generated tasks stand at random places between the others, whose order they do not change.
    """
    generated = list(domain.generated) if isinstance(domain, WithGenerated) else []
    tasks = domain.tasks("train")
    order = list(tasks[: len(tasks) - len(generated)])
    random.Random(f"tasks/{seed}").shuffle(order)
    if generated:
        draw = random.Random(f"generated/{seed}")
        draw.shuffle(generated)
        places = set(draw.sample(range(len(tasks)), len(generated)))
        fixed, new = iter(order), iter(generated)
        order = [next(new if place in places else fixed) for place in range(len(tasks))]
    return {task.key: task for task in order}


def plan_of(tasks: Sequence[Task], event: RolloutEvent, seed: int) -> list[PlannedRollout]:
    """Returns `event.group_size` planned rollouts for each task; `seed` is the training's seed."""
    repeats: Counter[str] = Counter()
    plan = []
    for index, task in enumerate(tasks):
        first = repeats[task.key] * event.group_size
        repeats[task.key] += 1
        plan += [
            PlannedRollout(
                task=task,
                sample_idx=first + sample,
                seed=seed * _STEPS_PER_SEED + event.step + 1,
                group_id=f"train/{event.step:04d}/{index:03d}",
            )
            for sample in range(event.group_size)
        ]
    return plan
