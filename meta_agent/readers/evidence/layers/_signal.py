"""The signal layer: is there anything to learn from in the rewards, and does it point at the truth?

Groups are rollouts of one `group_id` (in training: samples of one prompt). A group is *dead* when
its total rewards have a standard deviation below 1e-3: it carries no gradient. What each metric is
stands in `metrics.toml`. `reward_follows`, `misordered` and `tied` are taken inside groups, and
over all attempts where no group can tell; `rv_std_over_mean` is the spread of the groups' reward
variances over their mean (RAGEN-2).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.evidence import Mean
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.evidence._running import Correlation, Follows, Within, share

DEAD_STD = 1e-3
TRENDS = (
    *("reward_mean", "dead_group_ratio", "entropy", "grad_norm", "clip_share", "kl"),
    *("missing_reward_ratio", "dropped_group_ratio", "inexact_ratio"),
    *("refilled_ratio", "words_by_task"),
)
_ALIKE = 1e-9
_DISTINCT_VALUES = 10_000  # of one component; beyond it nothing is constant anyway


@dataclass(slots=True)
class _RewardGroup:
    rewards: Mean = field(default_factory=Mean)
    task: str = ""
    solved: int = 0
    clean: list[float] = field(default_factory=list)
    unclean: list[float] = field(default_factory=list)

    def pairs(self) -> tuple[int, int, int]:
        """Returns counts of clean-unclean pairs: paid in the wrong order, paid alike, and all."""
        clean = sorted(self.clean)
        wrong = sum(bisect_left(clean, reward - _ALIKE) for reward in self.unclean)
        to_alike = sum(bisect_right(clean, reward + _ALIKE) for reward in self.unclean)
        return wrong, to_alike - wrong, len(self.unclean) * len(clean)


@dataclass(slots=True)
class _Component:
    values: Counter[float] = field(default_factory=Counter)
    weighted: Mean = field(default_factory=Mean)
    raw: Mean = field(default_factory=Mean)
    success: Correlation = field(default_factory=Correlation)
    clean: Correlation = field(default_factory=Correlation)
    turns: Within = field(default_factory=Within)
    follows: Follows = field(default_factory=Follows)
    rest: Follows = field(default_factory=Follows)
    flagged: Correlation = field(default_factory=Correlation)

    def add(self, value: float, weight: float, rollout: Rollout, whole: float) -> None:
        self.raw.add(value)
        self.weighted.add(value * weight)
        self.success.add(value, float(bool(rollout.outcome)))
        self.clean.add(value, float(rollout.clean))
        self.turns.add(_ending(rollout), value, float(rollout.turns))
        self.follows.add(rollout.group_id, value * weight, float(rollout.clean))
        self.rest.add(rollout.group_id, whole - value * weight, float(rollout.clean))
        self.flagged.add(value, float(bool(rollout.flags)))
        if math.isfinite(value) and len(self.values) < _DISTINCT_VALUES:
            self.values[round(value, 6)] += 1

    @property
    def constancy(self) -> float:
        """Returns the share of rollouts with the commonest value."""
        return share(max(self.values.values(), default=0), self.raw.n)


@dataclass(slots=True)
class SignalLayer:
    """Accumulates the rewards of rollouts, by group and by reward component."""

    groups: dict[str, _RewardGroup] = field(default_factory=lambda: defaultdict(_RewardGroup))
    components: dict[str, _Component] = field(default_factory=lambda: defaultdict(_Component))
    success: Correlation = field(default_factory=Correlation)
    clean: Correlation = field(default_factory=Correlation)
    turns: Correlation = field(default_factory=Correlation)
    turns_within: Within = field(default_factory=Within)
    follows: Follows = field(default_factory=Follows)
    everyone: _RewardGroup = field(default_factory=_RewardGroup)
    total: Mean = field(default_factory=Mean)
    flagged: Mean = field(default_factory=Mean)
    unflagged: Mean = field(default_factory=Mean)
    missing: int = 0
    n: int = 0
    has_reward: bool = False  # whether the harness declares one; a frozen agent has none to miss

    def add(self, rollout: Rollout) -> None:
        if rollout.error is not None and rollout.error.kind != "policy":
            return
        self.n += 1
        self.has_reward |= bool(rollout.rewards or rollout.weights)
        reward = rollout.total_reward if rollout.rewards else math.nan
        if not math.isfinite(reward):
            self.missing += 1
            return
        self._add_reward(rollout, reward)
        for name, value in rollout.rewards.items():
            self.components[name].add(value, rollout.weights.get(name, 1.0), rollout, reward)

    def _add_reward(self, rollout: Rollout, reward: float) -> None:
        group = self.groups[rollout.group_id]
        group.rewards.add(reward)
        group.task = rollout.task_key
        group.solved += bool(rollout.outcome)
        for pool in (group, self.everyone):
            (pool.clean if rollout.clean else pool.unclean).append(reward)
        self.follows.add(rollout.group_id, reward, float(rollout.clean))
        self.total.add(reward)
        self.success.add(reward, float(bool(rollout.outcome)))
        self.clean.add(reward, float(rollout.clean))
        self.turns.add(reward, float(rollout.turns))
        self.turns_within.add(_ending(rollout), reward, float(rollout.turns))
        (self.flagged if rollout.flags else self.unflagged).add(reward)

    def metrics(self) -> dict[str, float]:
        if not self.has_reward:
            return {}
        metrics = {"reward_mean": self.total.mean, "reward_missing": share(self.missing, self.n)}
        metrics |= _if_any("reward_corr_success", self.success.r)
        metrics |= _if_any("reward_corr_clean", self.clean.r)
        metrics |= _if_any("reward_follows", self.follows.r)
        metrics |= _pairs(list(self.groups.values()), self.everyone)
        metrics |= _if_any("reward_turns_corr", self.turns.r)
        metrics |= _if_any("reward_turns_corr_within", self.turns_within.r)
        if self.flagged.n and self.unflagged.n:
            metrics["flagged_reward_gap"] = self.flagged.mean - self.unflagged.mean
        return metrics | self._by_group() | self._by_component()

    def dead_groups(self) -> Iterator[str]:
        """Yields the names of groups of two or more rollouts whose rewards hardly differ."""
        for name, group in self.groups.items():
            if group.rewards.n >= 2 and group.rewards.std < DEAD_STD:
                yield name

    def _by_group(self) -> dict[str, float]:
        groups = [g for g in self.groups.values() if g.rewards.n >= 2]
        if not groups:
            return {"groups": 0.0}
        dead = [g for g in groups if g.rewards.std < DEAD_STD]
        spread, variance = Mean(), Mean()
        for group in groups:
            spread.add(group.rewards.std)
            variance.add(group.rewards.variance)
        return {
            "groups": float(len(groups)),
            "dead_group_ratio": share(len(dead), len(groups)),
            "dead_solved_ratio": share(sum(g.solved == g.rewards.n for g in dead), len(groups)),
            "dead_unsolved_ratio": share(sum(g.solved == 0 for g in dead), len(groups)),
            "task_repeats": 1 - share(len({g.task for g in groups}), len(groups)),
            "reward_spread": spread.mean,
            "rv_std_over_mean": share(variance.std, variance.mean),
        }

    def _by_component(self) -> dict[str, float]:
        whole = sum(c.weighted.std for c in self.components.values())
        metrics: dict[str, float] = {}
        for name, component in sorted(self.components.items()):
            prefix = f"component.{name}"
            metrics[f"{prefix}.mean"] = component.raw.mean
            metrics[f"{prefix}.constancy"] = component.constancy
            metrics[f"{prefix}.spread_share"] = share(component.weighted.std, whole)
            metrics |= _if_any(f"{prefix}.corr_success", component.success.r)
            metrics |= _if_any(f"{prefix}.corr_clean", component.clean.r)
            metrics |= _if_any(f"{prefix}.turns_corr_within", component.turns.r)
            metrics |= _if_any(f"{prefix}.follows", component.follows.r)
            metrics |= _if_any(f"{prefix}.rest_follows", component.rest.r)
            metrics |= _if_any(f"{prefix}.corr_flagged", component.flagged.r)
        return metrics


def _ending(rollout: Rollout) -> tuple[bool, bool, str]:
    """Returns how an attempt ended, by which rewards may rightly differ, but not its length."""
    return bool(rollout.outcome), bool(rollout.flags), rollout.stop_reason


def _pairs(groups: Sequence[_RewardGroup], everyone: _RewardGroup) -> dict[str, float]:
    """Returns how pairs of a clean and an unclean attempt are paid, in groups if any has both."""
    mixed = [group for group in groups if group.clean and group.unclean]
    pairs = [group.pairs() for group in mixed or [everyone]]
    wrong, alike, total = (sum(pair[at] for pair in pairs) for at in range(3))
    return {"misordered": share(wrong, total), "tied": share(alike, total)} if total else {}


def _if_any(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}


def trends(rows: Sequence[Mapping[str, JSON]]) -> dict[str, float]:
    """Returns the means of the first and last third of each training series, and the difference."""
    metrics: dict[str, float] = {"train.steps": float(len(rows))} if rows else {}
    for name in TRENDS:
        values: list[Any] = [row.get(name) for row in rows]
        series = [float(v) for v in values if type(v) in (int, float) and math.isfinite(v)]
        if not series:
            continue
        third = max(1, len(series) // 3)
        first, last = sum(series[:third]) / third, sum(series[-third:]) / third
        metrics |= {f"train.{name}.first": first, f"train.{name}.last": last}
        metrics[f"train.{name}.change"] = last - first
    return metrics
