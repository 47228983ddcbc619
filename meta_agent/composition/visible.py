"""Estimates the smallest gain that a budget finds with 80 % power, before it is spent.

The figure is estimated from A/A runs of nano-swe. For other tasks nothing is known about their
trainings, so the figure counts only the noise of single attempts. A run records the figure at its
start. Summary and report repeat it, and claim nothing about smaller gains.

Not covered: a measurement on the user's own tasks. A single run may prove a smaller gain by luck;
the figure is about many such runs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from meta_agent.core.config import RunConfig
from meta_agent.core.gate.simulate import POWER, Modelled, power
from meta_agent.core.loop.budget import held_claim
from meta_agent.core.loop.plan import Plan
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON

_STORED_SPREAD: Final = 0.035
"""Standard deviation between training seeds of nano-swe's competent harness (32 A/A runs)."""
_STORED_SEED: Final = 0.0316
"""The part of that spread due to the training seed; the rest is the noise of single attempts."""
_STORED_TASKS: Final = 512
"""The tasks of those runs."""
_STORED_LEVEL: Final = 0.67
"""Success rate of those runs, which is what a collapsed training loses."""
_HALF: Final = 0.5
"""The assumed success rate of a user's tasks, at which attempts differ most."""
_RATES: Final = (0.20, 0.38)
"""Beta distribution of tasks' success rates: a third is solved, many never or always."""
_SWAPPED: Final = 0.1
"""Share of tasks whose rate moves by a neutral edit: the 16 % of differences not due to luck."""
_MODELLED: Final = 4096
_DRAWS: Final = 100


@dataclass(frozen=True, slots=True)
class Visible:
    """The smallest gain that a run detects with 80 % probability, and the basis of the estimate."""

    effect: float | None
    """A share from 0 to 1; None if no gain can be detected."""
    basis: str

    @property
    def words(self) -> str:
        """Returns the sentence on the smallest gain that a run prints at its start and its end."""
        if self.effect is None:
            text = "this budget cannot see any gain, so none will be claimed"
        else:
            size = f"about {100 * self.effect:.1f} points"
            text = f"this budget cannot see gains below {size}; no claim is made about them"
        return f"{text} ({self.basis})"

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "words": self.words}


def declare(run: Run) -> None:
    """Shows and records the smallest gain that a run would detect with 80 % probability."""

    def figure() -> JSON:
        return visible(run.config, held_claim(run) or run.plan).to_json()

    run.note(run.once("visible", "visible", {}, figure)["words"])


def visible(config: RunConfig, plan: Plan) -> Visible:
    """Returns the smallest gain that a run of the given plan detects with 80 % power."""
    source, known_by = _assumptions(config, plan)
    effect = plan.gate().least(source) if plan.provable else None
    return Visible(effect, f"80 % power{known_by}")


def _assumptions(config: RunConfig, plan: Plan) -> tuple[Modelled, str]:
    """Returns the assumed distribution of attempts and trainings, and its source in words."""
    if not plan.pairs:
        more = f" and one more at {plan.extra}" if plan.extra else ""
        return _agents(), (
            f", simulated with this run's own rule at alpha {plan.alpha:.4g} on "
            f"{plan.confirm} confirm tasks with {plan.looks[-1]} samples a task{more}; assumed, as "
            "nine settings of agents on 215 issues of real repositories showed: two attempts "
            "differ on a fifth of tasks, 84 % of that by luck"
        )
    pairs = f" with at most {plan.looks[-1]} pairs of training runs, "
    if config.own_tasks:
        return Modelled(np.array([_HALF])), (
            f"{pairs}by the luck of single attempts on {plan.confirm} confirm tasks alone, half of "
            "them solved; how far training runs on these tasks lie apart is not known and comes on "
            "top"
        )
    return _nano_swe(), (
        f"{pairs}going by the {100 * _STORED_SPREAD:.1f} points between training seeds that 32 A/A "
        "runs of nano-swe showed"
    )


def _nano_swe() -> Modelled:
    """Returns two kinds of tasks, with the mean and the noise of the stored runs."""
    luck = (_STORED_SPREAD**2 - _STORED_SEED**2) * _STORED_TASKS
    apart = math.sqrt(_STORED_LEVEL * (1 - _STORED_LEVEL) - luck)
    return Modelled(np.array([_STORED_LEVEL - apart, _STORED_LEVEL + apart]), _STORED_SEED)


@cache
def _agents() -> Modelled:
    from scipy.stats import beta

    rates = beta.ppf((np.arange(_MODELLED) + 0.5) / _MODELLED, *_RATES)
    return Modelled(np.clip(rates, 1e-6, 1 - 1e-6), swapped=_SWAPPED)


def tasks_to_detect(plan: Plan, effect: float) -> int | None:
    """Returns how many confirm tasks suffice to detect a gain of `effect`, a share from 0 to 1.

    Tries only sizes above the plan's own. Returns None if none suffices or the policy is trained.
    """
    for tasks, more in plan.more().get("confirm tasks", ()):
        wider = replace(more, extra=0)
        if tasks > plan.confirm and wider.provable and _shows(wider, effect):
            return tasks
    return None


def _shows(plan: Plan, effect: float) -> bool:
    return power(plan.gate(), _agents(), effect, draws=_DRAWS).share >= POWER
