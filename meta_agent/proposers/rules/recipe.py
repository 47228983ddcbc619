"""Rules on the training recipe, in TRL's names.

Most rules answer a training signal: a flat reward, collapsing entropy, dead groups. `usual-range`
answers settings outside the range in which group-relative training is known to work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule
from meta_agent.readers.evidence import reference_of

_REWARD = "signal.train.reward_mean.change"
# Policies that did not learn at all moved by up to 0.06 from the first to the last third of 30
# steps of 16 groups, since other tasks come up.
_NOISE = 0.1
_ENTROPY = "signal.train.entropy.change"
_DEAD = "signal.train.dead_group_ratio.last"
# Adam moves a weight by about the rate a step, so a run reaches about steps x rate. Working recipes
# come to this: 5e-6 over a thousand steps of a large model, 2e-4 over 25 of a small one.
_USUAL_REACH = 5e-3


def _settings(
    case: Case, values: Mapping[str, Any], *, strength: float, effect: str, because: str,
    delta: float, risk: str, metric: str = _REWARD, direction: Literal["up", "down"] | None = None,
    metrics: tuple[str, ...] = (_REWARD, _ENTROPY),
) -> Diagnosis:  # fmt: skip
    """Returns a diagnosis that gives keys of the recipe the values in `values`."""
    changes = (f"{key} is {_short(v)} instead of {_short(case.recipe.get(key))}"
               for key, v in values.items())  # fmt: skip
    return Diagnosis(
        strength=clamp(strength), change="; ".join(changes), effect=effect, because=because,
        metric=metric, direction=direction, delta=delta, edits=case.set_recipe(values),
        evidence=case.lines(*metrics), risk=risk,
    )  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)


# The range of rates in which reinforcement learning is known to work, and where to begin. Adapters
# take about ten times the rate of full weights.
_RATES = {"nano": (0.0, 3e-3, 3e-4), "full": (2e-7, 2e-5, 2e-6), "lora": (1e-5, 5e-4, 1e-4)}


def _rates(case: Case) -> tuple[float, float, float]:
    """Returns the lowest, the highest and the usual rate for this policy's weights."""
    return _RATES.get(case.situation.weights, _RATES["nano"])


@rule("raise-learning-rate", "recipe")
def raise_learning_rate(case: Case) -> Diagnosis | None:
    """Suggests a higher learning rate if training hardly changed the policy and its reward."""
    rate, gain = case.number("learning_rate"), case.value(_REWARD, default=-1.0)
    steps = case.value("signal.train.steps")
    if rate is None or not -_NOISE <= gain <= 0.15 or _collapsing(case):
        return None
    still = _still(case)
    grad = case.value("signal.train.grad_norm.last", default=1.0)
    highest, nano = _rates(case)[1], case.situation.weights == "nano"
    if rate >= highest or (nano and rate * steps >= _USUAL_REACH / 2) or not (still or grad < 0.02):
        return None
    new = rate * (4.0 if gain < 0.02 else 2.0)
    new = max(new, _USUAL_REACH / steps) if nano and steps and still else new
    new = new if nano else min(new, highest)
    return _settings(
        case, {"learning_rate": float(f"{new:.2g}")},
        strength=0.65 - 2 * max(0.0, gain),
        effect="the same steps move the policy further",
        because=f"the reward changed by {gain:+.3f} over the whole training",
        delta=0.05, risk="entropy collapse, and a larger spread between training seeds",
    )  # fmt: skip


@rule("generate-easier-tasks", "recipe")
def generate_easier_tasks(case: Case) -> Diagnosis | None:
    """Suggests further, easier training tasks if most groups have equal rewards and few succeed."""
    easier, solved = case.situation.easier, case.value("score.clean_success", default=1.0)
    if not easier or case.recipe.get("generate") or case.dead < 0.6 or solved > 0.2:
        return None
    return _settings(
        case, {"generate": easier},
        strength=0.3 + 0.4 * case.dead,
        effect="some attempts succeed from the first steps on, and what they teach carries over",
        because=f"{case.dead:.1%} of groups are dead, and the domain can make easier tasks",
        metric=_DEAD, delta=-case.dead / 4,
        metrics=("signal.dead_group_ratio", "score.clean_success"),
        risk="steps go to tasks that the policy is not measured on",
    )  # fmt: skip


@rule("lower-learning-rate", "recipe")
def lower_learning_rate(case: Case) -> Diagnosis | None:
    """Suggests a lower learning rate if training lowers reward, entropy or clean success."""
    rate, gain, lost = case.number("learning_rate"), case.value(_REWARD), _lost(case)
    falling, clipped = gain < -_NOISE, case.value("signal.train.clip_share.last") > 0.2
    if rate is None or not (falling or _collapsing(case) or clipped or lost > 0.05):
        return None
    return _settings(
        case, {"learning_rate": float(f"{rate / (5 if falling or lost > 0.05 else 2):.6g}")},
        strength=min(0.6, 0.4 + max(lost, -gain, 0.0)),
        effect="training keeps what the policy could do and adds to it",
        because="the reward fell in training" if falling else "entropy or clipping ran away",
        delta=0.05, risk="slower learning",
    )  # fmt: skip


@rule("explore-more", "recipe")
def explore_more(case: Case) -> Diagnosis | None:
    """Suggests a higher sampling temperature for `nano` if it is low or attempts hardly differ."""
    heat, dead = case.number("temperature"), case.dead
    if case.situation.weights != "nano":
        return None  # noise ruins the format of a pretrained model before it helps it explore
    certain = case.value("behaviour.mean_logprob", default=-1.0) > -0.05 or _collapsing(case)
    if heat is None or heat >= 1.2 or not (certain or dead > 0.4 or heat < 0.8):
        return None
    strength = 0.1 + 0.4 * dead * (heat < 1.0) + 0.8 * max(0.0, 1.0 - heat)
    return _settings(
        case, {"temperature": 1.0 if heat < 1.0 else 1.2},
        strength=clamp(strength + (0.2 if certain else 0.0)),
        effect="attempts at one task differ, and more groups carry a gradient",
        because=f"{dead:.1%} of groups are dead",
        metric=_DEAD, direction="down", delta=-dead / 5,
        metrics=("signal.dead_group_ratio", "behaviour.mean_logprob"),
        risk="the policy is trained at another temperature than it is measured at",
    )  # fmt: skip


@rule("larger-groups", "recipe")
def larger_groups(case: Case) -> Diagnosis | None:
    """Suggests more rollouts of fewer tasks per step if many groups have equal rewards."""
    tries, groups = case.number("num_generations"), case.number("groups_per_step")
    if tries is None or tries >= 16 or groups is None or groups < 4 or groups % 2:
        return None
    if case.dead < 0.3:
        return None
    return _settings(
        case, {"num_generations": int(tries * 2), "groups_per_step": int(groups // 2)},
        strength=case.dead * (0.6 if tries < 8 else 0.25),
        effect="fewer groups are all equal",
        because=f"{case.dead:.1%} of groups of {tries:g} are dead",
        metric=_DEAD, delta=-case.dead / 4, metrics=("signal.dead_group_ratio",),
        risk="fewer different tasks in a step",
    )  # fmt: skip


class Usual(NamedTuple):
    """The range in which a training setting is known to work, and the value to use outside it."""

    low: float
    high: float
    value: Any
    because: str


_USUAL = {
    "top_p": Usual(0.95, 1.0, 1.0, "tokens that are cut off get no gradient"),
    "max_grad_norm": Usual(0.2, 10.0, 1.0, "almost every step is scaled down, or none ever is"),
    "epsilon": Usual(0.1, 0.4, 0.2, "the clip range stops learning at once, or stops nothing"),
    "beta": Usual(0.0, 0.02, 0.0, "the pull to the reference policy outweighs the reward"),
    "num_iterations": Usual(1, 2, 1, "old rollouts are reused until the ratios are clipped"),
    "num_generations": Usual(4, 64, 8, "so few tries of one task are mostly all equal"),
    "weight_decay": Usual(0.0, 0.1, 0.0, "weights shrink faster than so few steps move them"),
    "temperature": Usual(0.6, 1.4, 1.0, "training samples what will not be measured"),
    "learning_rate": Usual(0.0, 3e-3, 3e-4, "one step destroys what the policy could do"),
    "groups_per_step": Usual(4, 512, 16, "so few tasks a step pull each step elsewhere"),
    "adam_beta1": Usual(0.5, 0.95, 0.9, "steps follow single batches, or those of long ago"),
    "epsilon_high": Usual(0.1, 1.0, 0.28, "the clip range stops nothing"),
    "adam_beta2": Usual(0.9, 0.9999, 0.999, "the step size follows single batches"),
    "top_entropy_quantile": Usual(0.15, 1.0, 1.0, "too few tokens are trained on"),
}


@rule("usual-range", "recipe")
def usual_range(case: Case) -> Diagnosis | None:
    """Suggests usual values for settings of the training recipe that are far out of range."""
    low, high, rate = _rates(case)
    usual_of = {**_USUAL, "learning_rate": _USUAL["learning_rate"]._replace(
        low=low, high=high, value=rate)}  # fmt: skip
    odd = {
        key: usual
        for key, usual in usual_of.items()
        if (value := case.number(key)) is not None and not usual.low <= value <= usual.high
    }
    if not odd:
        return None
    return _settings(
        case, {key: usual.value for key, usual in odd.items()},
        strength=0.45,
        effect="training learns more from the same rollouts",
        because="; ".join(usual.because for usual in odd.values()),
        metric="clean_success", delta=0.03, risk="the unusual setting had a reason",
    )  # fmt: skip


@rule("constant-schedule", "recipe")
def constant_schedule(case: Case) -> Diagnosis | None:
    """Suggests a constant learning rate if the recipe has a schedule that decays, or a warmup."""
    warmup, recipe = case.number("warmup_steps") or 0.0, case.recipe
    if recipe.get("lr_scheduler_type") in (None, "constant") and warmup < 1:
        return None
    values = {"lr_scheduler_type": "constant", "warmup_steps": 0.0}
    return _settings(
        case, {key: value for key, value in values.items() if key in recipe},
        strength=0.12 + (0.3 if warmup >= 10 or 0.3 <= warmup < 1 else 0.0),
        effect="every step trains at the full rate",
        because="short runs spend much of a schedule below the rate that was asked for",
        delta=0.02, metrics=(_REWARD,), risk="noise in the last steps",
    )  # fmt: skip


def _lost(case: Case) -> float:
    """Returns how much less the trained policy solves than untrained with a fault-free harness."""
    if not case.trained:
        return 0.0
    untrained = reference_of(case.evidence.domain, trained=False)
    return untrained.below("score.clean_success", case.value("score.clean_success"), 0.0)


def _still(case: Case) -> bool:
    """Returns whether neither the reward nor the policy's certainty changed in training."""
    first, change = case.value("signal.train.entropy.first"), case.find(_ENTROPY)
    return (
        change is not None
        and abs(change[1]) < 0.1 * first
        and abs(case.value(_REWARD)) < _NOISE
        and case.value("signal.train.clip_share.last") == 0
    )


def _collapsing(case: Case) -> bool:
    """Returns whether entropy fell to less than half in training."""
    first, change = case.value("signal.train.entropy.first"), case.value(_ENTROPY)
    return first > 0 and change < -0.5 * first
