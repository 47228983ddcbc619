"""The health report on rollouts that somebody else made: what their fields allow, and no more.

Promises: a metric is shown only if the data holds what it rests on, and `over` says what each share
is a share of. Data tends to name an ending only if a limit ended an attempt, so shares of endings
and of missing rewards are taken over all attempts. A field that is missing is named, never shown as
0. One pass; memory by group, by task and 16 bytes a rollout (for duplicates).

Beside the layers of our own rollouts there is `shape`, which needs nothing but texts and rewards
(`_suspicions.py` says what `suspect` looks for). `metrics.toml` says what
each number is, what it is a share of, and which fields it is read from. `_behind.py` finds the
attempts behind an alert.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from meta_agent.core.evidence import Alert, Evidence
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.evidence._metrics import limit_alerts, metric_of
from meta_agent.readers.evidence._rules import rule_alerts
from meta_agent.readers.evidence._running import share
from meta_agent.readers.evidence.layers._behaviour import BehaviourLayer
from meta_agent.readers.evidence.layers._score import ScoreLayer
from meta_agent.readers.evidence.layers._signal import SignalLayer
from meta_agent.readers.foreign._behind import Behind, ShownAttempt
from meta_agent.readers.foreign._shape import ShapeLayer
from meta_agent.readers.foreign._suspicions import Suspicions
from meta_agent.readers.formats import absent, origin

_HIDDEN: Final = ("n_", "success_low", "success_high", "clean_success_low", "clean_success_high")
# What each field that can be missing is needed for, in a reader's words.
NEEDED_FOR: Final[Mapping[str, str]] = {
    "outcome": "success, and whether rewards agree with it",
    "rewards": "reward spread, dead groups, whether length pays",
    "messages": "turns, tools, lengths, duplicates",
    "tool_events": "which tools were used",
    "tool_ok": "tool failures",
    "turns": "turns",
    "stop_reason": "how attempts ended, truncation",
    "cut_replies": "replies that ended at their token limit",
    "tokens": "token probabilities, exactness of token rows",
    "flags": "answers read and attacks on the grader, beyond what calls look like",
    "task": "tasks by name (told apart by their prompts instead)",
}
# The layers of conduct, by the fields that they are read from.
_TURNS: Final = ("turns",)
_CALLS: Final = ("tool_events",)
_RESULTS: Final = ("tool_events", "tool_ok")
_ENDINGS: Final = ("stop_reason",)
_READ_WITH: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("tokens",): _TURNS,
    ("cut_replies",): _TURNS,
    ("flags",): _CALLS,
}
_PAID: Final = ("rewards",)
_PAID_AND_JUDGED: Final = ("rewards", "outcome")


MINIMUM: Final = 10
"""How many attempts or calls an alert needs. It needs half as many groups."""


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """A health report on `n` rollouts; `present` says how many of them have each field."""

    n: int
    evidence: Evidence
    shape: Mapping[str, float]
    present: Mapping[str, int]
    tasks: int
    policies: Mapping[str, int]
    benchmarks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The score of each benchmark, if the data names several."""
    behind: Mapping[str, tuple[ShownAttempt, ...]] = field(default_factory=dict)
    """The attempts that show an alert, by its metric."""
    over: Mapping[str, str] = field(default_factory=dict)
    """What a share is a share of, such as `120 attempts`, by the metric's full name."""
    formats: Mapping[str, int] = field(default_factory=dict)
    pays_all_or_nothing: bool = False
    """Whether every reward is 0 or 1."""

    @property
    def ranked(self) -> list[Alert]:
        """Returns the alerts, the critical ones first."""
        return sorted(self.evidence.alerts, key=lambda alert: alert.level != "CRITICAL")

    @property
    def layers(self) -> dict[str, dict[str, float]]:
        """Returns metrics by layer, such as signal; with several benchmarks there is no score."""
        score = {k: v for k, v in self.evidence.score.items() if not k.startswith(_HIDDEN)}
        layers = {
            "score": {} if self.benchmarks else score,
            "signal": dict(self.evidence.signal),
            "behaviour": dict(self.evidence.behaviour),
            "shape": dict(self.shape),
        }
        return {name: layer for name, layer in layers.items() if layer}

    @property
    def missing(self) -> list[str]:
        """Returns lines on what the data does not hold, and which questions that leaves open."""
        lines = []
        for name, purpose in NEEDED_FOR.items():
            count = self.present[name]
            if count == 0:
                lines.append(f"{name}: not in this data, so nothing on {purpose}{self._hint(name)}")
            elif count < self.n:
                over = f"as shares of all {self.n}" if name == "stop_reason" else "over those"
                lines.append(f"{name}: in {count} of {self.n} rollouts; {purpose} {over}")
        if self.shape.get("group_size_mean", 0.0) == 1:
            lines.append("groups: every attempt is alone, so nothing on dead groups")
        return lines

    def _hint(self, name: str) -> str:
        """Returns how to answer a question that the missing field `name` leaves open, or ""."""
        if name == "outcome" and self.pays_all_or_nothing:
            return "; every reward is 0 or 1: --solved-at 1 counts a reward of 1 as solved"
        if name == "tool_ok" and self.shape.get("tracebacks"):
            share_of = f"{self.shape['tracebacks']:.0%} of the tool results"
            return f", but {share_of} hold a Python traceback"
        return ""

    def to_json(self) -> dict[str, JSON]:
        return {
            "rollouts": self.n,
            "tasks": self.tasks,
            "policies": dict(self.policies),
            "benchmarks": {name: dict(score) for name, score in self.benchmarks.items()},
            "known": dict(self.present),
            "not_in_this_data": self.missing,
            "shape": dict(self.shape),
            "evidence": self.evidence.to_json(),
            "behind": {
                name: [a.to_json() for a in attempts] for name, attempts in self.behind.items()
            },
            "over": dict(self.over),
        }


def read_foreign(rollouts: Iterable[Rollout]) -> ForeignReport:
    """Returns the report on rollouts of any origin, read in one pass."""
    reader = _Reader()
    for rollout in rollouts:
        reader.add(rollout)
    return reader.report()


@dataclass(slots=True)
class _Reader:
    n: int = 0
    score: ScoreLayer = field(default_factory=ScoreLayer)
    scores: dict[str, ScoreLayer] = field(default_factory=lambda: defaultdict(ScoreLayer))
    signal: dict[tuple[str, ...], SignalLayer] = field(
        default_factory=lambda: {needs: SignalLayer() for needs in (_PAID, _PAID_AND_JUDGED)}
    )
    behaviour: dict[tuple[str, ...], BehaviourLayer] = field(
        default_factory=lambda: {
            needs: BehaviourLayer() for needs in (_TURNS, _CALLS, _RESULTS, _ENDINGS)
        }
    )
    behind: Behind = field(default_factory=Behind)
    suspicions: Suspicions = field(default_factory=Suspicions)
    shape: ShapeLayer = field(default_factory=ShapeLayer)
    present: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    outcomes: int = 0
    weighing: set[str] = field(default_factory=set)  # reward components of a weight other than 0
    tasks: set[str] = field(default_factory=set)
    policies: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    rewarded: int = 0  # rollouts with a finite reward
    partly_paid: int = 0  # those whose reward is neither 0 nor 1
    judged_domains: set[str] = field(default_factory=set)

    def add(self, rollout: Rollout) -> None:
        unknown = _absent(rollout)
        self.n += 1
        self.present.update(name for name in NEEDED_FOR if name not in unknown)
        self.tasks.add(rollout.task_key)
        self.policies[rollout.policy] += 1
        self.formats[str(origin(rollout).get("format", "meta-agent"))] += 1
        self.rewarded += bool(rollout.rewards) and math.isfinite(rollout.total_reward)
        self.partly_paid += bool(rollout.rewards) and rollout.total_reward not in (0, 1)
        if rollout.outcome is not None:
            self.judged_domains.add(rollout.domain)
            self.outcomes += 1
        self.errors[rollout.error.kind if rollout.error else ""] += 1
        self.weighing |= {name for name in rollout.rewards if rollout.weights.get(name, 1.0)}
        self._add_to_layers(rollout, unknown)
        self.behind.add(rollout)
        self.shape.add(rollout, "rewards" not in unknown)

    def _add_to_layers(self, rollout: Rollout, unknown: frozenset[str]) -> None:
        if "outcome" not in unknown:
            self.score.add(rollout)
            self.scores[rollout.domain or "unnamed"].add(rollout)
        if "rewards" not in unknown:
            self.signal[_PAID].add(rollout)
            if rollout.outcome is not None:
                self.signal[_PAID_AND_JUDGED].add(rollout)
        for needs, layer in self.behaviour.items():
            if unknown.isdisjoint(needs):
                layer.add(rollout)
        if "tool_events" not in unknown:
            self.suspicions.add(rollout)

    def report(self) -> ForeignReport:
        tasks = sorted(self.score.tasks.items()) if self.outcomes else ()
        evidence = Evidence(
            score=self._score(),
            signal=_finite(self._signal()),
            behaviour=_finite(self._behaviour()),
            per_task={t: (v.n, v.solved, v.clean) for t, v in tasks},
        )
        totals = self._totals()
        evidence = replace(evidence, alerts=tuple(self._alerts(evidence, totals)))
        present = {name: self.present[name] for name in NEEDED_FOR}
        present["outcome"] = present["outcome"] if self.outcomes else 0
        present["cut_replies"] = present["cut_replies"] if self._all_endings_of_replies_known else 0
        suspicions = self.suspicions.metrics(with_outcomes=self.outcomes > 0)
        shape = _finite(self.shape.metrics() | suspicions)
        several = len(self.judged_domains) > 1
        names = {*evidence.metrics(), *(f"shape.{name}" for name in shape)}
        over = {n: self._over(n, totals) for n in sorted(names) if metric_of(n).is_share}
        return ForeignReport(
            n=self.n,
            evidence=evidence,
            shape=shape,
            present=present,
            tasks=len(self.tasks),
            policies=dict(sorted(self.policies.items())),
            benchmarks={n: s.metrics() for n, s in sorted(self.scores.items())} if several else {},
            behind={alert.metric: self._behind(alert.metric) for alert in evidence.alerts},
            over={name: f"{n} {unit}" for name, (n, unit) in over.items()},
            formats=dict(self.formats),
            pays_all_or_nothing=self.rewarded > 0 and not self.partly_paid,
        )

    def _alerts(self, evidence: Evidence, totals: Mapping[str, int]) -> Iterator[Alert]:
        """Yields the alerts that rest on enough, each with its number and unit.

        A reward component of weight 0 only measures, so nobody is told that it does not teach.
        """
        metrics = {
            name: value
            for name, value in evidence.metrics().items()
            if not name.startswith("signal.component.")
            or name.removeprefix("signal.component.").rpartition(".")[0] in self.weighing
        }
        for alert in (*limit_alerts(metrics), *rule_alerts(evidence, None)):
            n, unit = self._over(alert.metric, totals)
            if n >= (MINIMUM // 2 if unit == "groups" else MINIMUM):
                yield replace(alert, message=f"{alert.message} (n = {n} {unit})")

    @property
    def _all_endings_of_replies_known(self) -> bool:
        """Returns True if the data says of every reply whether it was cut."""
        return 0 < self.present["turns"] <= self.present["cut_replies"]

    def _behind(self, metric: str) -> tuple[ShownAttempt, ...]:
        """Returns the attempts behind an alert. For groups they are the first attempt of each."""
        if metric == "behaviour.sequence_diversity":
            sequences = self.behaviour[_CALLS].sequences.items()
            alike = [name for name, ways in sequences if len(ways) == 1 and ways.total() > 1]
            return self.behind.of_groups(alike)
        if metric_of(metric).unit == "groups":
            return self.behind.of_groups(self.signal[_PAID].dead_groups())
        return self.behind.of(metric)

    def _over(self, metric: str, totals: Mapping[str, int]) -> tuple[int, str]:
        """Returns how many units a metric is a share of, and the unit's name."""
        unit = metric_of(metric).unit
        if unit == "calls of it":
            tool = metric.removeprefix("behaviour.tool_failure.")
            return self.behaviour[_RESULTS].calls[tool], unit
        if metric == "behaviour.sequence_diversity":
            ways = self.behaviour[_CALLS].sequences.values()
            return sum(sequence.total() > 1 for sequence in ways), unit
        return totals[unit], unit

    def _totals(self) -> dict[str, int]:
        """Returns how many there are of each unit that `metrics.toml` names."""
        acting, calling, checked = (self.behaviour[n] for n in (_TURNS, _CALLS, _RESULTS))
        return {
            "attempts": self.n,
            "attempts whose outcome is known": self.outcomes,
            "tasks": len(self.score.tasks),
            "attempts with an outcome, or lost": self.score.counts["n"] or self.n,
            "groups": sum(group.rewards.n > 1 for group in self.signal[_PAID].groups.values()),
            "attempts with a reward": self.signal[_PAID].n,
            "attempts with an outcome and a reward": self.signal[_PAID_AND_JUDGED].n,
            "attempts with token rows": acting.token_rows,
            "replies": acting.counts["turns"],
            "attempts whose turns are known": acting.n,
            "solved attempts": calling.solved,
            "attempts whose tool calls are known": calling.n or self.n,
            "attempts that edited": calling.counts["edited"],
            "tool calls": calling.calls.total(),
            "turns": calling.counts["turns"],
            "tool calls whose result is told": checked.calls.total(),
            "test runs": checked.counts["tests"],
            "failed test runs": checked.counts["failed_tests"],
            "edits whose result is told": checked.counts["edit_calls"],
            "attempts whose last test failed": calling.counts["ended_red"],
            "attempts whose tool calls are known, lost ones included": self.suspicions.n,
            "attempts whose patch is known": self.shape.patches,
            "tool calls whose answers have ids": self.shape.calls,
            "tool results": self.shape.results,
            "attempts with messages": self.shape.chars.n,
        }

    def _score(self) -> dict[str, float]:
        """Returns the score; if no outcome is known at all, only counts of errors."""
        if self.outcomes:
            return self.score.metrics()
        kinds = {kind: count for kind, count in self.errors.items() if kind}
        machines = kinds.get("infra", 0) + kinds.get("verifier", 0)
        numbers = {f"n_{kind}_error": float(count) for kind, count in sorted(kinds.items())}
        return (
            {"n": float(self.n), **numbers, "infra_share": share(machines, self.n)} if kinds else {}
        )

    def _signal(self) -> dict[str, float]:
        """Returns the reward metrics, each from the rollouts that have the fields that it needs."""
        metrics = {
            name: value
            for needs, layer in self.signal.items()
            for name, value in (layer.metrics() if layer.n else {}).items()
            if metric_of(f"signal.{name}").needs == needs
        }
        if metrics:
            metrics["reward_missing"] = 1 - share(self.rewarded, self.n)
        if metrics.get("groups") == 1:
            metrics.pop("rv_std_over_mean")  # one group is alike to itself
        if not self.present["turns"]:
            metrics.pop("reward_turns_corr", None)
        return metrics

    def _behaviour(self) -> dict[str, float]:
        """Returns the metrics of conduct, each from the rollouts that have the fields it needs."""
        metrics: dict[str, float] = {}
        for read_from, layer in self.behaviour.items():
            for name, value in layer.metrics().items():
                needs = metric_of(f"behaviour.{name}").needs
                if _READ_WITH.get(needs, needs) == read_from and self._shows(name, needs):
                    of_all = share(layer.n, self.n) if needs == _ENDINGS else 1.0
                    metrics[name] = value * of_all
        return metrics

    def _shows(self, name: str, needs: tuple[str, ...]) -> bool:
        """Returns False for a metric that would be a share of nothing."""
        if needs == ("cut_replies",):
            return self._all_endings_of_replies_known
        if needs == ("flags",):
            return self.behaviour[_CALLS].counts["flagged"] > 0
        if needs in (_CALLS, _RESULTS) and name != "tool_calls_mean":
            return self.behaviour[needs].calls.total() > 0
        return True


def _absent(rollout: Rollout) -> frozenset[str]:
    """Returns the fields that a rollout lacks. Records of our own can lack some too."""
    missing = set(absent(rollout))
    missing |= {"rewards"} if not rollout.rewards else set()
    missing |= {"outcome"} if rollout.outcome is None and rollout.error is None else set()
    return frozenset(missing | ({"tokens"} if rollout.tokens is None else set()))


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the finite metrics: rewards of other tools may be of any size."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
