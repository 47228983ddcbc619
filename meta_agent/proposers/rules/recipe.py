"""Rules on the training recipe, in TRL's names.

Two kinds: reactions to a training signal (flat reward, collapsing entropy, dead groups), and
settings outside the range in which group-relative training is known to work, each with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.readers.evidence import reference_of

_REWARD = "signal.train.reward_mean.change"
# Policies that did not learn at all moved by up to 0.06 from the first to the last third of 30
# steps of 16 groups: other tasks come up.
_NOISE = 0.1
_ENTROPY = "signal.train.entropy.change"
# Adam moves a weight by about the rate a step, so a run reaches about steps x rate. Working recipes
# come to this: 5e-6 over a thousand steps of a large model, 2e-4 over 25 of a small one.
_USUAL_REACH = 5e-3
_GRAD = "signal.train.grad_norm.last"
_UNSURE = 0.05
_MOST = 0.6  # of a rule that many a fault elsewhere calls up


@rule("raise-learning-rate", "recipe")
def raise_learning_rate(case: Case) -> Diagnosis | None:
    """Training barely moves the policy: learn faster."""
    rate, gain = _number(case, "learning_rate"), case.find(_REWARD)
    if rate is None or gain is None or gain[1] > 0.15 or _collapsing(case) or gain[1] < -_NOISE:
        return None
    new = _raised(case, rate, gain[1])
    # Where training did move the policy, a higher rate was harmful four times in five.
    slow = rate * case.value("signal.train.steps") < _USUAL_REACH / 2
    still = slow and (case.value(_GRAD, default=1.0) < 0.02 or _still(case))
    return Diagnosis(
        strength=clamp(0.65 - 2 * max(0.0, gain[1])) if still else _UNSURE,
        subject=f"learning rate {new:.2g} instead of {rate:.2g}",
        change=f"learning_rate grows from {rate:.2g} to {new:.2g}",
        effect="the same steps move the policy further",
        because=f"the reward changed by {gain[1]:+.3f} over the whole training",
        metric=_REWARD,
        expected_delta=0.05,
        edits=case.set_recipe({"learning_rate": new}),
        evidence=(line(case, _REWARD), line(case, _ENTROPY), line(case, _GRAD)),
        risks=("entropy collapse", "a larger spread between training seeds"),
    )


@rule("lower-learning-rate", "recipe")
def lower_learning_rate(case: Case) -> Diagnosis | None:
    """Training loses what the policy could do: learn more slowly."""
    rate, gain = _number(case, "learning_rate"), case.value(_REWARD)
    falling, clipped = gain < -_NOISE, case.value("signal.train.clip_share.last") > 0.2
    lost = _lost(case)
    if rate is None or not (falling or _collapsing(case) or clipped or lost > 0.05):
        return None
    new = float(f"{rate / (5 if falling or lost > 0.05 else 2):.6g}")
    return Diagnosis(
        strength=clamp(min(_MOST, 0.4 + max(lost, -gain, 0.0))),
        subject=f"learning rate {new:.2g} instead of {rate:.2g}",
        change=f"learning_rate falls from {rate:.2g} to {new:.2g}",
        effect="training keeps what the policy could do and adds to it",
        because="the reward fell in training" if falling else "entropy or clipping ran away",
        metric=_REWARD,
        expected_delta=0.05,
        edits=case.set_recipe({"learning_rate": new}),
        evidence=(line(case, _REWARD), line(case, _ENTROPY)),
        risks=("slower learning",),
    )


@rule("explore-more", "recipe")
def explore_more(case: Case) -> Diagnosis | None:
    """The policy is nearly certain of what it does: sample with more variety while training."""
    temperature = _number(case, "temperature")
    dead = case.value("signal.train.dead_group_ratio.last", "signal.dead_group_ratio")
    certain = case.value("behaviour.mean_logprob", default=-1.0) > -0.05 or _collapsing(case)
    if (
        temperature is None
        or temperature >= 1.2
        or not (certain or dead > 0.4 or temperature < 0.8)
    ):
        return None
    new = 1.0 if temperature < 1.0 else 1.2
    strength = 0.1 + 0.4 * dead * (temperature < 1.0) + 0.8 * max(0.0, 1.0 - temperature)
    return Diagnosis(
        strength=clamp(strength + (0.2 if certain else 0.0)),
        subject=f"sample at temperature {new:g} while training",
        change=f"temperature grows from {temperature:g} to {new:g}",
        effect="attempts at one task differ, and more groups carry a gradient",
        because=f"{dead:.1%} of groups are dead",
        metric="signal.train.dead_group_ratio.last",
        direction="down",
        expected_delta=-dead / 5,
        edits=case.set_recipe({"temperature": new}),
        evidence=(line(case, "signal.dead_group_ratio"), line(case, "behaviour.mean_logprob")),
        risks=("trained at another temperature than measured",),
    )


@rule("larger-groups", "recipe")
def larger_groups(case: Case) -> Diagnosis | None:
    """Small groups are often all equal: more tries of fewer tasks, for the same rollouts."""
    tries, groups = _number(case, "num_generations"), _number(case, "groups_per_step")
    dead = case.value("signal.train.dead_group_ratio.last", "signal.dead_group_ratio")
    if tries is None or tries >= 16 or groups is None or groups < 4 or dead < 0.3 or groups % 2:
        return None
    new = {"num_generations": int(tries * 2), "groups_per_step": int(groups // 2)}
    return Diagnosis(
        strength=clamp(dead * (0.6 if tries < 8 else 0.25)),
        subject=f"groups of {new['num_generations']} instead of {tries:g}",
        change=f"num_generations doubles to {new['num_generations']}, rollouts a step stay",
        effect="fewer groups are all equal",
        because=f"{dead:.1%} of groups of {tries:g} are dead",
        metric="signal.train.dead_group_ratio.last",
        expected_delta=-dead / 4,
        edits=case.set_recipe(new),
        evidence=(line(case, "signal.dead_group_ratio"),),
        risks=("fewer different tasks in a step",),
    )


class Usual(NamedTuple):
    """A recipe key, the range in which it is known to work, and where to go from outside it."""

    key: str
    low: float
    high: float
    value: Any
    because: str


_USUAL = (
    Usual("top_p", 0.95, 1.0, 1.0, "cut-off tokens get no gradient and exploration narrows"),
    Usual("max_grad_norm", 0.2, 10.0, 1.0, "almost every step is scaled down, or none ever is"),
    Usual("epsilon", 0.1, 0.4, 0.2, "the clip range stops learning at once, or stops nothing"),
    Usual("beta", 0.0, 0.02, 0.0, "the pull to the reference policy outweighs the reward"),
    Usual("num_iterations", 1, 2, 1, "old rollouts are reused until the ratios are clipped"),
    Usual("num_generations", 4, 64, 8, "so few tries of one task are mostly all equal"),
    Usual("weight_decay", 0.0, 0.1, 0.0, "weights shrink faster than so few steps can move them"),
    Usual("temperature", 0.6, 1.4, 1.0, "what is sampled is not what will be measured"),
    Usual("learning_rate", 0.0, 3e-3, 3e-4, "a step leaves nothing of what the policy could do"),
    Usual("groups_per_step", 4, 512, 16, "so few tasks a step pull each step elsewhere"),
    Usual("adam_beta1", 0.5, 0.95, 0.9, "steps follow single batches, or those of long ago"),
    Usual("epsilon_high", 0.1, 1.0, 0.28, "the clip range stops nothing"),
    Usual("adam_beta2", 0.9, 0.9999, 0.999, "the step size follows single batches"),
    Usual("top_entropy_quantile", 0.15, 1.0, 1.0, "too few tokens are trained on"),
)


@rule("usual-range", "recipe")
def usual_range(case: Case) -> Diagnosis | None:
    """A setting lies far outside the range in which it is known to work: bring it back."""
    odd = [
        u for u in _USUAL if (v := _number(case, u.key)) is not None and not u.low <= v <= u.high
    ]
    if not odd:
        return None
    now = {u.key: _number(case, u.key) for u in odd}
    told = "; ".join(f"{u.key} {u.value:g} instead of {now[u.key]:g}" for u in odd)
    return Diagnosis(
        strength=0.45,
        subject=told[:70],
        change=f"what lies outside its usual range returns to it: {told}",
        effect="training learns more from the same rollouts",
        because="; ".join(u.because for u in odd),
        expected_delta=0.03,
        edits=case.set_recipe({u.key: u.value for u in odd}),
        evidence=tuple(f"{u.key} = {now[u.key]:g}, usually {u.low:g} to {u.high:g}" for u in odd),
    )


@rule("constant-schedule", "recipe")
def no_warmup_decay(case: Case) -> Diagnosis | None:
    """A schedule that decays within few steps leaves the last ones idle: keep the rate."""
    found = case.recipe()
    recipe: Mapping[str, Any] = found[1] if found else {}
    warmup, schedule = _number(case, "warmup_steps") or 0.0, recipe.get("lr_scheduler_type")
    if schedule in (None, "constant") and warmup < 1:
        return None
    edits = {
        k: v for k, v in (("lr_scheduler_type", "constant"), ("warmup_steps", 0.0)) if k in recipe
    }
    return Diagnosis(
        strength=clamp(0.12 + (0.3 if warmup >= 10 or 0.3 <= warmup < 1 else 0.0)),
        subject="keep the learning rate constant",
        change=f"the schedule {schedule} with warmup {warmup:g} becomes constant",
        effect="every step trains at the full rate",
        because="short runs spend much of a schedule below the rate that was asked for",
        metric=_REWARD,
        expected_delta=0.02,
        edits=case.set_recipe(edits),
        evidence=(
            f"lr_scheduler_type = {schedule}, warmup_steps = {warmup:g}",
            line(case, _REWARD),
        ),
        risks=("noise in the last steps",),
    )


def _number(case: Case, key: str) -> float | None:
    found = case.recipe()
    value = found[1].get(key) if found else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _raised(case: Case, rate: float, gain: float) -> float:
    """A higher rate: a small factor where training moved, a whole run's usual reach where not."""
    new = rate * (4.0 if gain < 0.02 else 2.0)
    steps = case.value("signal.train.steps")
    if steps and _still(case):
        new = max(new, _USUAL_REACH / steps)
    return float(f"{new:.2g}")


def _lost(case: Case) -> float:
    """How much less the trained policy solves than a clean harness has the untrained one solve."""
    evidence = case.evidence
    if not getattr(evidence, "trained", False):
        return 0.0
    before = reference_of(getattr(evidence, "domain", ""), trained=False)
    return before.below("score.clean_success", case.value("score.clean_success"), 0.0)


def _still(case: Case) -> bool:
    """Training left no trace: neither what is earned nor how sure the policy is has changed."""
    first, change = case.value("signal.train.entropy.first"), case.find(_ENTROPY)
    return (
        change is not None
        and abs(change[1]) < 0.1 * first
        and abs(case.value(_REWARD)) < _NOISE
        and case.value("signal.train.clip_share.last") == 0
    )


def _collapsing(case: Case) -> bool:
    """Entropy fell to less than half in training."""
    first, change = case.value("signal.train.entropy.first"), case.value(_ENTROPY)
    return first > 0 and change < -0.5 * first
