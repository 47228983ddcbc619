"""The metrics of a training step, under our own stable names.

Promises: a value is reported only where it was measured; names do not change with TRL's. Shares lie
in [0, 1], lengths are in tokens, times in seconds:

    reward_mean, reward_std   over the rows that have a reward
    dead_group_ratio          groups whose rewards are all equal (or all missing)
    dropped_group_ratio       groups that the harness's filter weighted 0
    missing_reward_ratio      rows without a reward (infrastructure errors)
    inexact_ratio             rows of which only the last exact segment is trained on
    entropy                   mean over sampled tokens, in nats (see `_trainer` on dead rows)
    sampled_nll               mean of -log p of the sampled tokens, in nats
    mismatch_mean, _max       |log p now - log p as sampled|, in nats, where rows are corrected
    truncated_share           sampled tokens whose correction was cut to its limit
    unscored_share            sampled tokens whose log p the engine did not tell: not corrected
    clip_share, kl            share of clipped ratios; divergence from the reference where beta > 0
    completion_tokens_{mean,min,max}  tokens the policy wrote per rollout
    loss, grad_norm, learning_rate, trained_row_ratio
    rollout_sec, train_sec    waiting for rollouts; forward, backward and optimiser
    staleness, stale_ratio    where an engine samples: events by which its weights were behind those
                              that are trained (mean over rows); rows dropped as too old

The host adds staleness, stop reasons (TRL's truncation metric does not say why a rollout ended) and
two metrics of the event's groups (`events/groups`):

    words_by_task             how well the words of attempts tell their tasks apart, 0: as by chance
    refilled_ratio            further groups that replaced dropped ones, per group of the recipe;
                              only where the recipe has a `refill_factor`
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from meta_agent.core.protocols import JSON
from meta_agent.policies.training._wire import Row

_FROM_TRL: Final[Mapping[str, str]] = {
    "reward": "reward_mean",
    "reward_std": "reward_std",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_share",
    "cispo_clip_ratio": "clip_share",
    "kl": "kl",
    "sampling/sampling_logp_difference/mean": "mismatch_mean",
    "sampling/sampling_logp_difference/max": "mismatch_max",
    "sampling/truncated_share": "truncated_share",
    "sampling/unscored_share": "unscored_share",
    "completions/mean_length": "completion_tokens_mean",
    "completions/min_length": "completion_tokens_min",
    "completions/max_length": "completion_tokens_max",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "step_time": "train_sec",
    "trained_row_ratio": "trained_row_ratio",
}

TRL_NAMES: Final[Mapping[str, str]] = {
    "dead_group_ratio": "frac_reward_zero_std",
    **{ours: theirs for theirs, ours in reversed(list(_FROM_TRL.items()))},
}
"""Maps our names of metrics to TRL's, for people who compare trainings."""


def from_trl(logs: Mapping[str, JSON]) -> dict[str, float]:
    """Returns TRL's logged metrics under this package's names; infinite values are left out."""
    return {
        ours: float(logs[theirs])
        for theirs, ours in _FROM_TRL.items()
        if isinstance(logs.get(theirs), int | float) and math.isfinite(logs[theirs])
    }


def of_rows(rows: Sequence[Row], group_size: int) -> dict[str, float]:
    """Returns metrics of a step's rows (rollouts), such as the share of groups with equal rewards.

    `rows` holds the groups one after another, each of `group_size` rows.
    """
    groups = [rows[start : start + group_size] for start in range(0, len(rows), group_size)]
    sampled = [
        logprob
        for row in rows
        if row.tokens is not None
        for logprob, mine in zip(row.tokens.logprobs, row.tokens.mask, strict=True)
        if mine and logprob is not None
    ]
    return {
        "dead_group_ratio": _share(_is_dead(group) for group in groups),
        "dropped_group_ratio": _share(all(row.weight == 0 for row in group) for group in groups),
        "missing_reward_ratio": _share(row.reward is None for row in rows),
        "inexact_ratio": _share(row.tokens is not None and not row.tokens.exact for row in rows),
        "sampled_nll": -sum(sampled) / max(1, len(sampled)),
    }


def _is_dead(group: Sequence[Row]) -> bool:
    rewards = [row.reward for row in group if row.reward is not None]
    return not rewards or max(rewards) - min(rewards) < 1e-8


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / max(1, len(values))
