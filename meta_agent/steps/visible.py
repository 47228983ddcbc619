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
from typing import Final, Self

from meta_agent.config import RunConfig
from meta_agent.gate import COLLAPSE
from meta_agent.gate.numbers import sequential
from meta_agent.ledger import Step
from meta_agent.models.asking.estimate import estimate
from meta_agent.protocols import JSON
from meta_agent.steps.budget import allowed, claim_pairs, first_tree
from meta_agent.steps.plan import MIN_PAIRS, Plan
from meta_agent.steps.run import Run

KIND: Final = "calibration"
"""The ledger's word for a calibration."""
_STORED_SPREAD: Final = 0.035
"""Between training seeds of nano-swe's competent harness, 32 A/A runs on 512 tasks."""
_STORED_SEED: Final = 0.0316
"""What of it is the training seed's; the rest is the luck of single attempts."""
_STORED_TASKS: Final = 512
_STORED_LEVEL: Final = 0.67
"""Of those runs: what a training that collapses loses."""
_NORMAL_AT_POWER: Final = 0.8416
_HALF: Final = 0.5
"""Of one's own tasks: the share that is taken to be solved, at which attempts differ most."""


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
        frozen = run.plan.frozen
        pairs = None if frozen else claim_pairs(run.plan, allowed(run), first_tree(run))
        told = visible(run.config, run.plan, steps, run.lab.domain.evaluator_hash, pairs)
        return told.to_json()

    run.note(run.once("visible", "visible", {}, told)["words"])


def visible(
    config: RunConfig,
    plan: Plan,
    calibrations: Iterable[Step],
    evaluator_hash: str,
    pairs: int | None = None,
) -> Visible:
    """By the newest calibration that fits, else worked out for the pairs that the budget holds."""
    wanted = terms(config, plan, evaluator_hash)
    fitting = [step for step in calibrations if step.done and _fits(step.intent, wanted)]
    if fitting:
        return _measured(fitting[-1].outcome)
    return _assumed(config, plan if pairs is None else replace(plan, looks=(pairs,)))


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


def _fits(intent: JSON, wanted: Mapping[str, JSON]) -> bool:
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
    if plan.frozen:
        told = estimate(config, plan, {})
        return Visible(told.smallest_effect, None, None, told.effect_assumes, False)
    if config.own_tasks:
        effect = _of_training_pairs(plan, 0.0, _HALF**2, _HALF)
        basis = (
            f"80 % power with at most {plan.looks[-1]} pairs of training runs, by the luck of "
            f"single attempts on {plan.confirm} confirm tasks alone, half of them solved; how far "
            "training runs on these tasks lie apart is not known and comes on top"
        )
        return Visible(effect, None, None, basis, False)
    luck = (_STORED_SPREAD**2 - _STORED_SEED**2) * _STORED_TASKS
    effect = _of_training_pairs(plan, _STORED_SEED, luck, _STORED_LEVEL)
    basis = (
        f"80 % power with at most {plan.looks[-1]} pairs of training runs, going by the "
        f"{100 * _STORED_SPREAD:.1f} points between training seeds that 32 A/A runs of nano-swe "
        "showed; nothing here is calibrated"
    )
    return Visible(effect, None, None, basis, False)


def _of_training_pairs(plan: Plan, seed: float, luck: float, level: float) -> float | None:
    """The sequential test at its last pair, turned round; simulated figures lie within a tenth.

    Args:
        plan: how many pairs, on how many tasks.
        seed: the deviation between training seeds.
        luck: the variance of one attempt at one task.
        level: what a training that collapses loses.
    """
    pairs, alpha = plan.looks[-1], plan.budget.at(0)
    if pairs < MIN_PAIRS:
        return None
    reach = sequential.t_reach(pairs, alpha)
    deviation = math.sqrt(2 * (seed**2 + luck / plan.confirm) / pairs)
    effect = plan.min_effect + (reach + _NORMAL_AT_POWER) * deviation
    effect += COLLAPSE / (1 - COLLAPSE) * level  # what a gain has to outlast
    return effect if effect < 1 else None
