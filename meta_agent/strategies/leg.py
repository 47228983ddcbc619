"""A leg: a training of a few steps on the weights before it, and whether it did harm.

A leg that did harm is taken back: the weights before it stay. It did harm if clean success on the
same search tasks clearly fell, or if it did not rise and the steps of the leg show why:

    a number is not finite      the gradient or the loss of a step
    entropy is gone             below a quarter of the lowest before
    entropy runs away           over four times the highest before, and over one nat a token
    lengths run away            replies are over four times as long as the longest before
    all groups are dead         no group of the last step has different rewards, and groups had
    the reward rose             on average, while clean success fell

The steps before are those of the legs that stay. For the first leg they are its own first step,
whose attempts the weights before it made.

Promises: the same measurements give the same answer, so a resumed run takes back the same legs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import row_of
from meta_agent.core.loop.budget import attempts_a_step
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.train_on import Checkpoint, on_search
from meta_agent.core.protocols import JSON, HarnessTree, Rollout

FIRST_SEED: Final = 1000
"""First training seed of the legs. Searches, claims and warm-ups never use it."""
FACTOR: Final = 4.0
FLAT: Final = 1.0
"""Nats of entropy a token below which no policy is called random."""
CLEARLY: Final = 0.1
"""Clean success fell clearly if chance would give such losses and gains less often."""
PROBABLY: Final = 0.2
Row = Mapping[str, JSON]


class Leg(NamedTuple):
    """A leg's weights with their attempts at search tasks, and what harm it did."""

    end: Checkpoint
    harm: str
    """Why the leg is taken back; "" if it stays."""


def leg_price(run: Run, tree: HarnessTree) -> int:
    """Returns how many attempts a leg under a harness takes, with its attempts at search tasks."""
    return run.plan.leg * attempts_a_step(tree) + run.plan.search


def train_leg(
    run: Run, number: int, version: Version, start: Checkpoint, before: Sequence[Row]
) -> Leg | None:
    """Trains the weights of `start` for a leg, and records whether it did harm.

    `before` holds a row of metrics for each step of the legs that stay. Returns None if the harness
    fails.
    """
    tree, steps = run.repo.tree(version.commit), run.plan.leg
    run.phase("train", f"leg {number}: {steps} steps more under {version.id}")
    run.lab.label(tree, version.id)
    try:
        trained = run.lab.train(tree, seed=FIRST_SEED + number, steps=steps, onto=start.trained)
        end = on_search(run, tree, trained)
    except CandidateError as error:
        run.note(f"leg {number} is taken back: {error}")
        return None
    attempts = (run.lab.rollouts(side.evaluation.shard) for side in (start, end))
    harm = harm_of(trained.metrics, before, losses_and_gains(*attempts))
    record: JSON = {
        "leg": number,
        "version": version.id,
        "steps": trained.steps,
        "clean_success": end.evaluation.clean_success,
        "before": start.evaluation.clean_success,
        "harm": harm,
    }
    run.once(f"leg/{number}", "leg", {"policy": trained.policy}, lambda: record)
    moved = f"{start.evaluation.clean_success:.1%} to {end.evaluation.clean_success:.1%}"
    verdict = f"is taken back: {harm}" if harm else "stays"
    run.note(f"leg {number} {verdict} (clean on search {moved})")
    return Leg(end, harm)


def teaches_nothing(metrics: Sequence[Row]) -> bool:
    """Returns True if all groups of all steps had equal rewards, so that no weight moved."""
    return min(_values(metrics, "dead_group_ratio"), default=0.0) >= 1


def harm_of(leg: Sequence[Row], before: Sequence[Row], moved: tuple[int, int]) -> str:
    """Returns what harm a leg did, or "".

    `moved` counts the search tasks that its weights lost and gained.
    """
    usual = before or leg[:1]
    for name in _FINITE:  # a metric that is no finite number is left out of its row
        if all(name in row for row in usual) and not all(name in row for row in leg):
            return f"{name} of a step is not a finite number"
    losses, gains = moved
    p = sum(math.comb(losses + gains, k) for k in range(losses, losses + gains + 1))
    chance = p / 2 ** (losses + gains)
    if chance < CLEARLY:
        return f"clean success fell: {losses} search tasks lost, {gains} gained"
    if gains > losses:
        return ""
    return _sign(leg[-1:], usual) or _hacked(leg, usual, chance)


_FINITE: Final = ("grad_norm", "loss")
_SIGNS: Final[Sequence[tuple[str, str, Callable[[float, Sequence[float]], bool]]]] = (
    ("entropy", "entropy is gone", lambda now, past: now < min(past) / FACTOR),
    ("entropy", "entropy runs away", lambda now, past: now > max(FLAT, FACTOR * max(past))),
    ("completion_tokens_mean", "lengths run away", lambda now, past: now > max(past) * FACTOR > 0),
)


def _sign(last: Sequence[Row], usual: Sequence[Row]) -> str:
    for name, words, is_over in _SIGNS:
        past, now = _values(usual, name), _values(last, name)
        if past and now and is_over(now[-1], past):
            return f"{words}: {name} is {now[-1]:.3g}, and was {min(past):.3g} to {max(past):.3g}"
    dead = "dead_group_ratio"
    if min(_values(usual, dead), default=1.0) < 1 <= min(_values(last, dead), default=0.0):
        return "all groups are dead"
    return ""


def _hacked(leg: Sequence[Row], usual: Sequence[Row], chance: float) -> str:
    """Returns a sentence if the reward rose although clean success probably fell, or ""."""
    rewards, past = _values(leg[1:], "reward_mean"), _values(usual, "reward_mean")
    if not rewards or not past or chance >= PROBABLY or fmean(rewards) <= max(past):
        return ""
    return f"the reward rose from {fmean(past):.3g} to {fmean(rewards):.3g}; clean success fell"


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if name in row]


def losses_and_gains(before: Iterable[Rollout], after: Iterable[Rollout]) -> tuple[int, int]:
    """Returns how many tasks are clean in `before` only, and how many in `after` only.

    A task counts if both attempts at it have an outcome: what a machine lost is no harm of the leg.
    """
    was, now = ({row.task_key: row.clean for row in map(row_of, side)} for side in (before, after))
    pairs = [(was[key], now[key]) for key in was.keys() & now.keys()]
    return pairs.count((True, False)), pairs.count((False, True))
