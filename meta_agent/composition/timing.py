"""How long a staged run would take: one step of each kind is made, timed and thrown away.

The steps are made in a workspace of their own, which is removed. They are attempts at training
tasks, one step of GRPO, and one step that imitates references. A run makes at most its budget of
attempts, `MOST_PASSES` over the references, and the attempts at vault tasks of two versions.

Not covered: runs of a policy behind a server, whose waits are its own; conversations that grow
longer when the harness changes.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.composition.opening import open_run
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.harness.recipe import SFT_ROWS
from meta_agent.core.loop.budget import attempts_a_step
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.plan import Plan
from meta_agent.core.loop.run import Run
from meta_agent.reports import open_display
from meta_agent.strategies.warm_up import MOST_PASSES

TRIED: Final = 16
"""Attempts that are timed."""


class StepTimes(NamedTuple):
    """Seconds of an attempt, of a step of GRPO with its attempts, and of a step that imitates."""

    attempt: float
    step: float
    imitation: float
    attempts_a_step: int
    references: int


def minutes_of(config: RunConfig) -> tuple[float, float]:
    """Returns the fewest and the most minutes of a run, from steps that it makes for this.

    Raises ConfigError if the policy is not trained in legs.
    """
    with tempfile.TemporaryDirectory(prefix="meta-agent-timing-") as folder:
        place = config.model_copy(update={"workspace": Path(folder) / "workspace"})
        with open_run(place, open_display(), purpose="timing") as run:
            if not run.plan.leg:
                raise ConfigError(
                    f"--measure times the training of an hf: policy in legs, and this run has "
                    f"--policy {config.policy} and --strategy {config.strategy}",
                    hint="leave --measure out; a run says what is left after its first attempts",
                )
            return range_of(run.plan, step_times(run))


def step_times(run: Run) -> StepTimes:
    """Makes and times attempts, a step of GRPO and a step that imitates, under the start."""
    tree, lab = run.repo.tree(first_version(run).commit), run.lab
    start = lab.untrained()
    lab.evaluate(tree, start, split="train", limit=1)  # the policy's process starts
    attempts = _seconds(lambda: lab.evaluate(tree, start, split="train", limit=TRIED))
    step = _seconds(lambda: lab.train(tree, seed=0, steps=1))
    references = lab.render_references(tree)["rows"]
    imitation = (
        _seconds(lambda: lab.train(tree, seed=1, steps=1, onto=start, imitates=True))
        if references
        else 0.0
    )
    return StepTimes(attempts / TRIED, step, imitation, attempts_a_step(tree), references)


def range_of(plan: Plan, times: StepTimes) -> tuple[float, float]:
    """Returns the fewest and the most minutes of a staged plan.

    At least it measures the start, warms up by one pass, trains no leg and claims. At most it
    spends its whole budget, on as many legs as it may train.
    """
    measured = 2 * (plan.confirm + plan.search + plan.vault)
    a_pass = math.ceil(times.references / SFT_ROWS) * times.imitation
    fewest = measured * times.attempt + a_pass
    steps = min(plan.leg * plan.legs, plan.race // times.attempts_a_step)
    others = max(0, plan.race - steps * times.attempts_a_step)
    most = (measured + others) * times.attempt + steps * times.step + MOST_PASSES * a_pass
    return fewest / 60, most / 60


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
