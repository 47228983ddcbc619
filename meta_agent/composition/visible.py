"""What a budget can see, said before it is spent: the least gain that it finds four times in five.

Where `meta-agent calibrate` has measured these settings the figure is its own: same tasks and
grader, same policy, same budget. Elsewhere it is worked out from what A/A runs of nano-swe showed;
on one's own file, of whose trainings nothing is known, from the luck of its attempts alone. A run
records the figure at its start; summary and report repeat it, and claim nothing about gains below.

Does not cover: measuring (`calibration`), and a gain that was proven although it is smaller: one
run may be lucky, the figure is about runs like it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Final, Self

import numpy as np

from meta_agent.core.config import RunConfig
from meta_agent.core.gate.simulate import POWER, Modelled, power
from meta_agent.core.ledger import Step
from meta_agent.core.loop.budget import held_claim
from meta_agent.core.loop.plan import Plan
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON

KIND: Final = "calibration"
"""The ledger's word for a calibration."""
_STORED_SPREAD: Final = 0.035
"""Between training seeds of nano-swe's competent harness, 32 A/A runs on 512 tasks."""
_STORED_SEED: Final = 0.0316
"""What of it is the training seed's; the rest is the luck of single attempts."""
_STORED_TASKS: Final = 512
_STORED_LEVEL: Final = 0.67
"""Of those runs: what a training that collapses loses."""
_HALF: Final = 0.5
"""Of one's own tasks: the share that is taken to be solved, at which attempts differ most."""
_RATES: Final = (0.20, 0.38)
"""Of tasks, as a beta distribution: a third is solved, many never or always."""
_SWAPPED: Final = 0.1
"""Of tasks, at which an edit that helps no one moves the rate: the 16 % that are no luck."""
_MODELLED: Final = 4096
_DRAWS: Final = 100


@dataclass(frozen=True, slots=True)
class Visible:
    """The smallest gain that is found with 80 % probability. Shares, not points."""

    effect: float | None
    """None: no gain is."""
    low: float | None
    high: float | None
    basis: str
    calibrated: bool

    @property
    def words(self) -> str:
        """What a run says of itself at its start and its end."""
        if self.effect is None:
            said = "this budget cannot see any gain, so none will be claimed"
        else:
            size = f"{'' if self.calibrated else 'about '}{100 * self.effect:.1f} points"
            said = f"this budget cannot see gains below {size}; no claim is made about them"
        advice = "" if self.calibrated else "; meta-agent calibrate measures it"
        return f"{said} ({self.basis}{advice})"

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "words": self.words}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Self:
        return cls(*(data[name] for name in ("effect", "low", "high", "basis", "calibrated")))


def declare(run: Run) -> None:
    """Says what this run can see, once and for all: a later calibration changes no promise."""

    def told() -> JSON:
        steps = run.ledger.steps(kind=KIND)
        held = held_claim(run)
        told = visible(run.config, run.plan, steps, run.lab.domain.evaluator_hash, held)
        return told.to_json()

    run.note(run.once("visible", "visible", {}, told)["words"])


def visible(
    config: RunConfig,
    plan: Plan,
    calibrations: Iterable[Step],
    evaluator_hash: str,
    held: Plan | None = None,
) -> Visible:
    """By the newest calibration that fits, else worked out for what the budget holds."""
    wanted = terms(config, plan, evaluator_hash)
    fitting = [step for step in calibrations if step.is_done and _fits(step.intent, wanted)]
    if fitting:
        return _measured(fitting[-1].fields)
    return _assumed(config, held or plan)


def terms(config: RunConfig, plan: Plan, evaluator_hash: str) -> dict[str, JSON]:
    """What a calibration and a run must have in common. How many generations is in the budget."""
    told = plan.to_json()
    decides = ("steps", "looks", "confirm", "alpha", "min_effect", "frozen", "target")
    return {
        "evaluator_hash": evaluator_hash,
        "policy": config.policy,
        "candidates": plan.budget.candidates,
        **{name: told[name] for name in decides},
    }


def _fits(intent: Mapping[str, object], wanted: Mapping[str, JSON]) -> bool:
    return all(intent.get(name) == value for name, value in wanted.items())


def _measured(told: Mapping[str, JSON]) -> Visible:
    seen = told["smallest_effect"]
    around = ""
    if seen["low"] is not None and seen["high"] is not None:
        around = f", {100 * seen['low']:.1f} to {100 * seen['high']:.1f}"
    basis = (
        f"80 % power{around}; calibrated on {told['runs']} A/A {told['unit']} of "
        f"{told['harness_commit'][:10]}"
    )
    return Visible(seen["effect"], seen["low"], seen["high"], basis, True)


def _assumed(config: RunConfig, plan: Plan) -> Visible:
    source, known_by = _taken(config, plan)
    effect = plan.gate().least(source) if plan.provable else None
    return Visible(effect, None, None, f"80 % power{known_by}", False)


def _taken(config: RunConfig, plan: Plan) -> tuple[Modelled, str]:
    """What attempts and trainings are taken to be like where nothing was measured, and why."""
    if not plan.trains:
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
        "runs of nano-swe showed; nothing here is calibrated"
    )


def _nano_swe() -> Modelled:
    """Two kinds of tasks, with the mean and the luck of the stored runs."""
    luck = (_STORED_SPREAD**2 - _STORED_SEED**2) * _STORED_TASKS
    apart = math.sqrt(_STORED_LEVEL * (1 - _STORED_LEVEL) - luck)
    return Modelled(np.array([_STORED_LEVEL - apart, _STORED_LEVEL + apart]), _STORED_SEED)


@cache
def _agents() -> Modelled:
    from scipy.stats import beta

    rates = beta.ppf((np.arange(_MODELLED) + 0.5) / _MODELLED, *_RATES)
    return Modelled(np.clip(rates, 1e-6, 1 - 1e-6), swapped=_SWAPPED)


def tasks_that_do(plan: Plan, effect: float) -> int | None:
    """How many confirm tasks would show a gain of this size, of the sizes that are tried."""
    for tasks, more in plan.more().get("confirm tasks", ()):
        wider = replace(more, extra=0)
        if tasks > plan.confirm and wider.provable and _shows(wider, effect):
            return tasks
    return None


def _shows(plan: Plan, effect: float) -> bool:
    return power(plan.gate(), _agents(), effect, draws=_DRAWS).share >= POWER
