"""The health report on rollouts that somebody else made: what their fields allow, and no more.

Promises: a metric is shown only if the data holds what it rests on, and `over` says what each share
is a share of. Data tends to name an ending only if a limit ended an attempt, so shares of endings
and of missing rewards are taken over all attempts. A field that is missing is named, never shown as
0. One pass; memory by group, by task and 16 bytes a rollout (for duplicates).

Beside the layers of our own rollouts there is `shape`, which needs nothing but texts and rewards
(quantiles of a sample; what `suspect` looks for stands in `_suspicions.py`). What each number is
stands in `metrics.toml`, which attempts are behind an alert is found by `_behind.py`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from meta_agent.core.evidence import Alert, Evidence
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.evidence._metrics import is_share, threshold_alerts
from meta_agent.readers.evidence._rules import rule_alerts
from meta_agent.readers.evidence._running import share
from meta_agent.readers.evidence.layers._behaviour import BehaviourLayer
from meta_agent.readers.evidence.layers._score import ScoreLayer
from meta_agent.readers.evidence.layers._signal import SignalLayer
from meta_agent.readers.foreign._behind import Attempt, Behind
from meta_agent.readers.foreign._shape import Shape
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
_ON_OUTCOME = (
    "reward_corr_",
    "reward_follows",
    "misordered",
    "tied",
    "dead_solved",
    "dead_unsolved",
    "reward_turns_corr_w",
)
_ON_FLAGS = ("flag", "leak", "tamper")
_ON_TOOLS: Final = (
    *("tool", "actionless", "repeated_action", "sequence_div", "edit", "self_test"),
    *("view_before", "first_edit", "test_fail", "retry_after"),
)

_ON_TOKENS: Final = ("mean_logprob", "inexact_share")
_OF_GROUPS: Final = ("dead_group_ratio", "reward_spread", "rv_std_over_mean", "sequence_diversity")
_NO_CALLS: Final = ("tool_calls_mean",)  # all there is to say where nothing was ever called


MINIMUM: Final = 10
"""How many attempts or calls an alert needs. It needs half as many groups."""


class Seen(NamedTuple):
    """What a metric is a share of: how many, and of what."""

    n: int
    unit: str


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """`present[field]` is in how many of `n` rollouts the field was there."""

    n: int
    evidence: Evidence
    shape: Mapping[str, float]
    present: Mapping[str, int]
    tasks: int
    policies: Mapping[str, int]
    benchmarks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Where the data names several: the score of each."""
    behind: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    """By alert: the attempts that show it."""
    over: Mapping[str, str] = field(default_factory=dict)
    """By share, under its full name: what it is a share of, with the number."""
    formats: Mapping[str, int] = field(default_factory=dict)

    @property
    def ranked(self) -> list[Alert]:
        """Returns the alerts, the critical ones first."""
        return sorted(self.evidence.alerts, key=lambda alert: alert.level != "CRITICAL")

    @property
    def layers(self) -> dict[str, dict[str, float]]:
        """Returns the metrics to show, by layer, without a score over several benchmarks."""
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
                lines.append(f"{name}: not in this data, so nothing on {purpose}")
            elif count < self.n:
                over = f"as shares of all {self.n}" if name == "stop_reason" else "over those"
                lines.append(f"{name}: in {count} of {self.n} rollouts; {purpose} {over}")
        if self.shape.get("group_size_mean", 0.0) == 1:
            lines.append("groups: every attempt is alone, so nothing on dead groups")
        return lines

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
    signal: SignalLayer = field(default_factory=SignalLayer)
    judged: SignalLayer = field(default_factory=SignalLayer)  # reward and outcome both known
    acting: BehaviourLayer = field(default_factory=BehaviourLayer)
    calling: BehaviourLayer = field(default_factory=BehaviourLayer)  # tool events known
    checked: BehaviourLayer = field(default_factory=BehaviourLayer)  # and whether they worked
    ending: BehaviourLayer = field(default_factory=BehaviourLayer)  # stop reason known
    behind: Behind = field(default_factory=Behind)
    suspicions: Suspicions = field(default_factory=Suspicions)
    shape: Shape = field(default_factory=Shape)
    present: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    outcomes: int = 0
    weighing: set[str] = field(default_factory=set)  # reward components of a weight other than 0
    tasks: set[str] = field(default_factory=set)
    policies: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    rewarded: int = 0  # rollouts with a finite reward
    judged_domains: set[str] = field(default_factory=set)
    scores: dict[str, ScoreLayer] = field(default_factory=lambda: defaultdict(ScoreLayer))

    def add(self, rollout: Rollout) -> None:
        self.n += 1
        unknown = _absent(rollout)
        self.present.update(name for name in NEEDED_FOR if name not in unknown)
        self.tasks.add(rollout.task_key)
        self.policies[rollout.policy] += 1
        self.formats[str(origin(rollout).get("format", "meta-agent"))] += 1
        self.rewarded += bool(rollout.rewards) and math.isfinite(rollout.total_reward)
        if rollout.outcome is not None:
            self.judged_domains.add(rollout.domain)
        self.outcomes += rollout.outcome is not None
        self.errors[rollout.error.kind if rollout.error else ""] += 1
        self.weighing |= {name for name in rollout.rewards if rollout.weights.get(name, 1.0)}
        if "outcome" not in unknown:
            self.score.add(rollout)
            self.scores[rollout.domain or "unnamed"].add(rollout)
        if "rewards" not in unknown:
            self.signal.add(rollout)
            if rollout.outcome is not None:
                self.judged.add(rollout)
        self._add_conduct(rollout, unknown)
        self.behind.add(rollout)
        self.shape.add(rollout, "rewards" not in unknown)

    def _add_conduct(self, rollout: Rollout, unknown: frozenset[str]) -> None:
        if "turns" not in unknown:
            self.acting.add(rollout)
        if "tool_events" not in unknown:
            self.calling.add(rollout)
            self.suspicions.add(rollout)
            if "tool_ok" not in unknown:
                self.checked.add(rollout)
        if "stop_reason" not in unknown:
            self.ending.add(rollout)

    def report(self) -> ForeignReport:
        tasks = sorted(self.score.tasks.items()) if self.outcomes else ()
        evidence = Evidence(
            score=self._score(),
            signal=_finite(self._signal()),
            behaviour=_finite(self._behaviour()),
            per_task={t: (v.n, v.solved, v.clean) for t, v in tasks},
        )
        alerting = _selected(evidence.metrics(), self._worth_an_alert)
        alerts = self._counted((*threshold_alerts(alerting), *rule_alerts(evidence, None)))
        evidence = replace(evidence, alerts=alerts)
        present = {name: self.present[name] for name in NEEDED_FOR}
        present["outcome"] = present["outcome"] if self.outcomes else 0
        present["cut_replies"] = present["cut_replies"] if self._all_endings_of_replies_known else 0
        shape = _finite(self.shape.metrics() | self._suspicions())
        policies = dict(sorted(self.policies.items()))
        several = len(self.judged_domains) > 1
        apart = {n: s.metrics() for n, s in sorted(self.scores.items())} if several else {}
        behind = {alert.metric: self._behind(alert.metric) for alert in alerts}
        shares = {*evidence.metrics(), *(f"shape.{name}" for name in shape)}
        over = {name: self._seen_of(name) for name in sorted(shares) if is_share(name)}
        return ForeignReport(
            self.n, evidence, shape, present, len(self.tasks), policies, apart, behind,
            {name: f"{basis.n} {basis.unit}" for name, basis in over.items()}, dict(self.formats),
        )  # fmt: skip

    def _counted(self, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
        """Returns the alerts that rest on enough, each with its number and unit."""
        pairs = ((alert, self._seen_of(alert.metric)) for alert in alerts)
        return tuple(
            replace(alert, message=f"{alert.message} (n = {basis.n} {basis.unit})")
            for alert, basis in pairs
            if basis.n >= (MINIMUM // 2 if basis.unit == "groups" else MINIMUM)
        )

    @property
    def _all_endings_of_replies_known(self) -> bool:
        """Returns True if the data says of every reply whether it was cut.

        Data with one reply per attempt often does.
        """
        return 0 < self.present["turns"] <= self.present["cut_replies"]

    def _behind(self, metric: str) -> tuple[Attempt, ...]:
        """Returns the attempts behind an alert. For groups they are the first attempt of each."""
        name = metric.partition(".")[2]
        if name == "sequence_diversity":
            alike = {k: v.total() for k, v in self.calling.sequences.items() if len(v) == 1}
            return self.behind.of_groups(group for group, n in alike.items() if n > 1)
        if name in _OF_GROUPS or name == "low_signal":
            return self.behind.of_groups(self.signal.dead_groups())
        return self.behind.of(metric)

    def _seen_of(self, metric: str) -> Seen:
        """Returns what a metric is a share of, and how many of those there are."""
        layer, _, name = metric.partition(".")
        basis = self._bases().get(name.partition(".solved")[0])
        if basis is not None:
            return basis
        if layer == "score":
            return Seen(self.score.counts["n"] or self.n, "attempts with an outcome, or lost")
        if layer == "signal":
            both = self.judged if _on_outcome(name) else self.signal
            of = "an outcome and a reward" if _on_outcome(name) else "a reward"
            return Seen(both.n, f"attempts with {of}")
        if layer == "shape":
            calls = name.startswith("suspect")
            calling = Seen(self.suspicions.n, "attempts whose tool calls are known")
            return calling if calls else Seen(self.shape.chars.n, "attempts with messages")
        if _on_ending(name):
            return Seen(self.n, "attempts")
        return Seen(self.calling.n or self.n, "attempts whose tool calls are known")

    def _bases(self) -> dict[str, Seen]:
        counts, calls = self.calling.counts, Seen(sum(self.calling.calls.values()), "tool calls")
        results = Seen(sum(self.checked.calls.values()), "tool calls whose result is told")
        groups = Seen(sum(count > 1 for count in self.shape.groups.values()), "groups")
        checked = self.checked.counts
        red = checked if any(self.checked.calls.values()) else self.acting.counts
        edits = Seen(checked["edit_calls"], "edits whose result is told")
        editing = Seen(counts["edited"], "attempts that edited")
        of_groups = (*_OF_GROUPS, "low_signal", "dead_solved_ratio", "dead_unsolved_ratio")
        tools = dict.fromkeys(self.calling.calls)
        return {
            "submit_after_fail": Seen(red["ended_red"], "attempts whose last test failed"),
            "test_fail_rate": Seen(checked["tests"], "test runs"),
            "retry_after_fail": Seen(checked["failed_tests"], "failed test runs"),
            "edit_failure_rate": edits,
            "edit_failure": edits,
            "edit_then_test": editing,
            "view_before_edit": editing,
            "leak": Seen(self.calling.solved, "solved attempts"),
            "leak_share_of_solved": Seen(self.calling.solved, "solved attempts"),
            "repeated_action_rate": calls,
            **{f"tool_share.{tool}": calls for tool in tools},
            "tool_failure_rate": results,
            **{f"tool_failure.{t}": Seen(self.checked.calls[t], "calls of it") for t in tools},
            "turns_mean": Seen(self.acting.n, "attempts whose turns are known"),
            "actionless_turns": Seen(counts["turns"], "turns"),
            "cut_replies": Seen(self.acting.counts["turns"], "replies"),
            "mean_logprob": Seen(self.acting.token_rows, "attempts with token rows"),
            "inexact_share": Seen(self.acting.token_rows, "attempts with token rows"),
            "infra_share": Seen(self.n, "attempts"),
            "reward_missing": Seen(self.n, "attempts"),
            "empty_patch": Seen(self.shape.patches, "attempts whose patch is known"),
            "unanswered": Seen(self.shape.calls, "tool calls whose answers have ids"),
            "success_known": Seen(self.outcomes, "attempts whose outcome is known"),
            "task_mean": Seen(len(self.score.tasks), "tasks"),
            "task_repeats": groups,
            **dict.fromkeys(of_groups, groups),
        }

    def _score(self) -> dict[str, float]:
        """Returns the score.

        If no outcome is known at all, it still counts errors over all attempts.
        """
        if self.outcomes:
            return self.score.metrics()
        kinds = {kind: count for kind, count in self.errors.items() if kind}
        machines = kinds.get("infra", 0) + kinds.get("verifier", 0)
        numbers = {f"n_{kind}_error": float(count) for kind, count in sorted(kinds.items())}
        return (
            {"n": float(self.n), **numbers, "infra_share": share(machines, self.n)} if kinds else {}
        )

    def _worth_an_alert(self, metric: str) -> bool:
        """Returns False for a reward component of weight 0.

        It only measures, so it need not teach.
        """
        inner = metric.removeprefix("signal.component.")
        return inner == metric or inner.rpartition(".")[0] in self.weighing

    def _suspicions(self) -> dict[str, float]:
        metrics = self.suspicions.metrics()
        if self.outcomes:
            return metrics
        return _selected(metrics, lambda name: not name.endswith(".solved"))

    def _signal(self) -> dict[str, float]:
        if not self.signal.n:
            return {}
        always = _selected(self.signal.metrics(), lambda name: not _on_outcome(name))
        always["reward_missing"] = 1 - share(self.rewarded, self.n)
        if always.get("groups") == 1:
            always.pop("rv_std_over_mean")  # one group is alike to itself
        if not self.present["turns"]:
            always.pop("reward_turns_corr", None)
        return always | (_selected(self.judged.metrics(), _on_outcome) if self.judged.n else {})

    def _behaviour(self) -> dict[str, float]:
        """Returns each part from the rollouts that hold what it rests on."""
        metrics = _selected(self.acting.metrics(), _on_nothing)
        called = any(self.calling.calls.values())
        calling = self.calling.metrics()
        metrics |= _selected(
            calling, lambda n: _on_tools(n) and not _on_ok(n) if called else n in _NO_CALLS
        )
        if any(self.checked.calls.values()):
            metrics |= _selected(self.checked.metrics(), _on_ok)
        of_all = share(self.ending.n, self.n)
        endings = _selected(self.ending.metrics(), _on_ending)
        metrics |= {name: value * of_all for name, value in endings.items()}
        if self._all_endings_of_replies_known:
            metrics |= _selected(self.acting.metrics(), lambda name: name == "cut_replies")
        flagged = self.calling.metrics() if self.calling.counts["flagged"] else {}
        return metrics | _selected(flagged, lambda name: name.startswith(_ON_FLAGS))


def _absent(rollout: Rollout) -> frozenset[str]:
    """Returns the fields that a rollout lacks. Records of our own can lack some too."""
    missing = set(absent(rollout))
    missing |= {"rewards"} if not rollout.rewards else set()
    missing |= {"outcome"} if rollout.outcome is None and rollout.error is None else set()
    return frozenset(missing | ({"tokens"} if rollout.tokens is None else set()))


def rests_on(metric: str) -> tuple[str, ...]:
    """Returns the fields that a metric, by its full name, cannot be read without."""
    layer, _, name = metric.partition(".")
    if layer == "score":
        return ("outcome", "flags") if "clean" in name else ("outcome",)
    if layer == "signal":
        return ("rewards", "outcome") if _on_outcome(name) else ("rewards",)
    if layer != "behaviour":
        paid = ("messages", "rewards") if name.startswith("reward_") else ("messages",)
        return ("tool_events",) if name.startswith("suspect") else paid
    if name in _ON_TOKENS:
        return ("tokens",)
    if name == "cut_replies":
        return ("cut_replies",)
    if name.startswith(_ON_FLAGS):
        return ("flags",)
    if _on_ok(name):
        return ("tool_events", "tool_ok")
    return (
        ("tool_events",)
        if _on_tools(name)
        else ("stop_reason",)
        if _on_ending(name)
        else ("turns",)
    )


def _selected(metrics: Mapping[str, float], keep: Callable[[str], bool]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if keep(name)}


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the finite metrics: rewards of other tools may be of any size."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _on_outcome(name: str) -> bool:
    inner = name.rpartition(".")[2] if name.startswith("component.") else name
    return inner.startswith((*_ON_OUTCOME, "corr_", "turns_corr_w", "flagged_reward"))


def _on_tools(name: str) -> bool:
    return name.startswith(_ON_TOOLS)


def _on_ok(name: str) -> bool:
    return name.startswith(("tool_failure", "edit_failure", "test_fail", "retry_", "submit_after"))


def _on_ending(name: str) -> bool:
    return name.startswith(("stop.", "truncation", "submit_rate"))


def _on_nothing(name: str) -> bool:
    of_others = _on_tools(name) or _on_ending(name) or name.startswith(_ON_FLAGS)
    return not of_others and name != "cut_replies"
