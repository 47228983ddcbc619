"""Metrics that need only texts, patches and rewards of attempts: lengths, repetitions, blanks.

Memory is a number for each distinct length, and 16 bytes per attempt to find duplicates.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.evidence import Mean
from meta_agent.core.protocols import Message, Rollout
from meta_agent.readers.evidence._running import Correlation, Within, share
from meta_agent.readers.formats import attempt_messages

_TAIL_CHARS: Final = 40
_TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(slots=True)
class ShapeLayer:
    """Accumulates lengths, repetitions, empty patches and rewards of attempts."""

    chars: Mean = field(default_factory=Mean)
    lengths: Counter[int] = field(default_factory=Counter)
    empty: int = 0
    patches: int = 0
    blank: int = 0
    again: int = 0
    looping: int = 0
    calls: int = 0
    unanswered: int = 0
    results: int = 0
    tracebacks: int = 0
    usd: Mean = field(default_factory=Mean)
    seconds: Mean = field(default_factory=Mean)
    marks: set[bytes] = field(default_factory=set)
    pays: Correlation = field(default_factory=Correlation)
    pays_within: Within = field(default_factory=Within)
    groups: Counter[str] = field(default_factory=Counter)

    def add(self, rollout: Rollout, rewarded: bool) -> None:
        self.groups[rollout.group_id] += 1
        self._add_costs(rollout)
        results = [event.result for event in rollout.tool_events if event.result]
        self.results += len(results)
        self.tracebacks += sum(_TRACEBACK in result for result in results)
        inputs = rollout.verifier_inputs
        patch = inputs.get("patch", inputs.get("model_patch"))
        if isinstance(patch, str):
            self.patches += 1
            self.blank += not patch.strip()
        if not rollout.messages:
            return
        messages = attempt_messages(rollout)
        text = written_by_model(messages)
        self.chars.add(float(len(text)))
        self.lengths[len(text)] += 1
        self.empty += not text.strip()
        mark = hashlib.blake2b(
            f"{rollout.task_key}\0{text}".encode("utf-8", "replace"), digest_size=16
        )
        self.again += mark.digest() in self.marks
        self.marks.add(mark.digest())
        tail = text[-_TAIL_CHARS:]
        is_full = len(tail) == _TAIL_CHARS and bool(tail.strip())
        self.looping += is_full and text.count(tail) >= 3
        calls, unanswered = _unanswered(messages)
        self.calls += calls
        self.unanswered += unanswered
        if rewarded and math.isfinite(rollout.total_reward):
            self.pays.add(rollout.total_reward, float(len(text)))
            self.pays_within.add(rollout.group_id, rollout.total_reward, float(len(text)))

    def _add_costs(self, rollout: Rollout) -> None:
        if "usd" in rollout.cost:
            self.usd.add(rollout.cost["usd"])
        if rollout.timings:
            self.seconds.add(rollout.timings.get("total", sum(rollout.timings.values())))

    def _length_at(self, part: float) -> float:
        """Returns the length that this part of the texts does not exceed, and at least one has."""
        needed, count = math.floor(self.lengths.total() * part) + 1, 0
        for length in sorted(self.lengths):
            count += self.lengths[length]
            if count >= needed:
                return float(length)
        raise ValueError("no lengths")

    def metrics(self) -> dict[str, float]:
        n = self.chars.n
        metrics: dict[str, float] = {}
        if self.groups:
            metrics["group_size_mean"] = share(self.groups.total(), len(self.groups))
        if self.patches:
            metrics["empty_patch"] = share(self.blank, self.patches)
        if self.results:
            metrics["tracebacks"] = share(self.tracebacks, self.results)
        means = {"usd_mean": self.usd, "seconds_mean": self.seconds}
        metrics |= {name: mean.mean for name, mean in means.items() if mean.n}
        if not n:
            return metrics
        metrics |= {
            "chars_mean": self.chars.mean,
            "chars_p50": self._length_at(0.5),
            "chars_p90": self._length_at(0.9),
            "chars_max": float(max(self.lengths)),
            "empty": share(self.empty, n),
            "duplicates": share(self.again, n),
            "looping": share(self.looping, n),
        }
        if self.calls:
            metrics["unanswered"] = share(self.unanswered, self.calls)
        pairs = {"reward_chars_corr": self.pays.r, "reward_chars_corr_within": self.pays_within.r}
        return metrics | {name: value for name, value in pairs.items() if value is not None}


def written_by_model(messages: Sequence[Message]) -> str:
    """Returns all texts and tool calls of the assistant's messages as one text."""
    parts = []
    for message in messages:
        if message["role"] == "assistant":
            parts.append(message.get("content") or "")
            calls = message.get("tool_calls", ())
            parts += [json.dumps(call.get("function"), sort_keys=True) for call in calls]
    return "\n".join(parts)


def _unanswered(messages: Sequence[Message]) -> tuple[int, int]:
    """Returns how many tool calls the model went on from, and how many of them have no answer.

    Where no message answers by an id, nobody can tell: no call is counted.
    """
    answered = {m.get("tool_call_id") for m in messages if m["role"] == "tool"} - {None, ""}
    spoken = [m for m in messages if m["role"] == "assistant"]
    ids = [call.get("id") for m in spoken[:-1] for call in m.get("tool_calls", ())]
    checkable = [call_id for call_id in ids if call_id] if answered else []
    return len(checkable), sum(call_id not in answered for call_id in checkable)
