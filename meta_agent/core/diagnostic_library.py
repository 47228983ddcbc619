"""A small library of metrics about attempts, for when the score changed and no metric says why.

Each metric is an expression over one rollout's record. None reads the outcome, the reward or a
flag, since a number that restates the score explains nothing. The host measures all of them on
stored rollouts of past versions. It returns those that tell good versions from bad ones, as
`Lead`s.

Promises: `source_of` returns a whole diagnostic in the form that harnesses hold; it uses only the
stdlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

VALUE: Final = "mean"
EXPLAIN_GAP: Final = "explain-gap"
"""The name of the rule that proposes a metric of this library."""


class Metric(NamedTuple):
    """A number that is computed for one attempt, with a phrase on what it measures."""

    name: str
    says: str
    value: str  # an expression over `r`, `calls`, `results` and `replies`

    @property
    def diagnostic(self) -> str:
        """Returns the name of the diagnostic that measures it."""
        return f"lead_{self.name}"


LIBRARY: Final[tuple[Metric, ...]] = (
    Metric("reply_chars", "how long replies are", "mean(map(len, replies))"),
    Metric("longest_reply", "how long the longest reply is", "max(map(len, replies), default=0)"),
    Metric("empty_replies", "how many replies are empty", "share(not x.strip() for x in replies)"),
    Metric("same_reply", "how often a reply repeats the one before", "repeats(replies)"),
    Metric("distinct_calls", "how many different calls are made", "len(set(calls))"),
    Metric("same_result", "how often a result repeats the one before", "repeats(results)"),
    Metric("result_chars", "how long tool results are", "mean(map(len, results))"),
    Metric(
        "prompt_chars",
        "how long the first message is",
        'len(str(r["messages"][0].get("content") or "")) if r["messages"] else 0',
    ),
    Metric(
        "failing_streak",
        "how many calls fail in a row",
        'longest(not event["ok"] for event in r["tool_events"])',
    ),
    Metric(
        "last_call_failed",
        "how many attempts end on a call that failed",
        'float(bool(r["tool_events"]) and not r["tool_events"][-1]["ok"])',
    ),
    Metric("idle_turns", "how many turns have no call", 'r["turns"] - len(r["tool_events"])'),
)


@dataclass(frozen=True, slots=True)
class Lead:
    """A metric that tells good past versions from bad ones, with the threshold between them."""

    metric: Metric
    threshold: float
    higher_is_bad: bool
    share: float  # AUC on the versions that were looked at
    versions: int

    @property
    def name(self) -> str:
        return self.metric.diagnostic

    @property
    def source(self) -> str:
        """Returns the source code of a diagnostic that measures it."""
        return source_of(self.metric, self.threshold, "above" if self.higher_is_bad else "below")


def source_of(metric: Metric, threshold: float, direction: str) -> str:
    """Returns the source code of a diagnostic that measures this metric against a threshold."""
    return _TEMPLATE.format(
        says=metric.says,
        name=metric.diagnostic,
        limit=f'{{"warn": {threshold!r}, "direction": "{direction}"}}',
        value=metric.value,
        key=VALUE,
    )


_TEMPLATE = '''"""Tells versions apart by {says}."""

import json

NAME = "{name}"
LAYER = "behaviour"
THRESHOLDS = {{"{key}": {limit}}}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def share(values):
    return mean(map(float, values))


def repeats(values):
    """Returns the share of values that equal the one before."""
    return share(a == b for a, b in zip(values, values[1:]))


def longest(hits):
    """Returns the length of the longest run of hits."""
    best = now = 0
    for hit in hits:
        now = now + 1 if hit else 0
        best = max(best, now)
    return best


def value(r):
    """Returns the number of one attempt."""
    replies = [str(m.get("content") or "") for m in r["messages"] if m["role"] == "assistant"]
    calls = [json.dumps([e["tool"], e["arguments"]], sort_keys=True) for e in r["tool_events"]]
    results = [e["result"] for e in r["tool_events"]]
    return {value}


def measure(rollouts):
    return {{"{key}": mean(map(value, rollouts))}} if rollouts else {{}}
'''
