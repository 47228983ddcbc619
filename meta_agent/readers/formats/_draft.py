"""`Draft`: what one foreign row says about an attempt, where None means "not in this data".

`to_rollout` makes the record of it. A record has no room for "unknown" everywhere, so what was
not in the data is listed in `outcome_detail["imported"]["absent"]`; `absent(rollout)` reads the
list, and evidence leaves out what rests on it instead of showing a 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from meta_agent.core.protocols import (
    JSON,
    Message,
    Rollout,
    RolloutFailure,
    StopReason,
    TokenRecord,
    ToolEvent,
)

IMPORTED: Final = "imported"
# What a record may lack. `tool_ok`: calls are known, but not whether they worked.
ABSENCES: Final = (
    *("messages", "tool_events", "tool_ok", "turns", "stop_reason"),
    *("rewards", "outcome", "tokens", "flags", "task"),
)


@dataclass(slots=True)
class Draft:
    """One attempt as far as its row tells."""

    prompt: Sequence[Message] = ()  # what names the task where the row does not
    messages: list[Message] | None = None
    tool_events: list[ToolEvent] | None = None
    tool_ok: bool = False  # whether `ok` of the tool events was in the data
    turns: int | None = None
    task_key: str | None = None
    group: str | None = None
    sample_idx: int | None = None
    seed: int = 0
    policy: str | None = None
    version: str | None = None
    harness_commit: str = ""
    domain: str = ""
    rewards: dict[str, float] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    advantage: float | None = None
    outcome: bool | None = None
    detail: dict[str, JSON] = field(default_factory=dict)
    verifier_inputs: dict[str, JSON] = field(default_factory=dict)
    stop_reason: StopReason | None = None
    error: RolloutFailure | None = None
    flags: list[str] | None = None
    tokens: TokenRecord | None = None
    timings: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    caveat: str = ""  # what a reader should know of the file that it came from

    def absent(self) -> list[str]:
        """What the row did not say."""
        known = {
            "messages": self.messages is not None,
            "tool_events": self.tool_events is not None,
            "tool_ok": self.tool_ok or not self.tool_events,
            "turns": self.turns is not None,
            "stop_reason": self.stop_reason is not None,
            "rewards": bool(self.rewards),
            "outcome": self.outcome is not None or self.error is not None,
            "tokens": self.tokens is not None,
            "flags": self.flags is not None,
            "task": self.task_key is not None,
        }
        return [name for name in ABSENCES if not known[name]]


@dataclass(slots=True)
class Numbering:
    """Sample numbers inside groups, for rows that carry none. One small integer per group."""

    next_of: dict[str, int] = field(default_factory=dict)

    def sample(self, group: str) -> int:
        index = self.next_of.get(group, 0)
        self.next_of[group] = index + 1
        return index


def to_rollout(
    draft: Draft, numbering: Numbering, *, run: str, format_name: str, place: str
) -> Rollout:
    """The record of a draft."""
    prompt = digest(list(draft.prompt))
    task = draft.task_key or f"prompt-{prompt[:12]}"
    # Attempts of two policies at a task are no group: nothing was ever compared among them.
    group = draft.group or (f"{task}@{draft.policy}" if draft.policy else task)
    sample = numbering.sample(group) if draft.sample_idx is None else draft.sample_idx
    imported = {"format": format_name, "place": place, "absent": draft.absent()}
    return Rollout(
        run=run,
        version=draft.version or IMPORTED,
        domain=draft.domain,
        split="search",
        task_key=task,
        task_hash=prompt,
        group_id=group,
        sample_idx=sample,
        seed=draft.seed,
        harness_commit=draft.harness_commit,
        policy=draft.policy or "unknown",
        evaluator_hash=f"{IMPORTED}:{format_name}",
        messages=draft.messages or [],
        tool_events=draft.tool_events or [],
        tokens=draft.tokens,
        rewards=draft.rewards or {},
        weights=draft.weights,
        advantage=draft.advantage,
        outcome=draft.outcome,
        outcome_detail={**draft.detail, IMPORTED: imported},
        verifier_inputs=draft.verifier_inputs,
        stop_reason=draft.stop_reason or ("error" if draft.error else "returned"),
        error=draft.error,
        flags=draft.flags or [],
        turns=draft.turns or 0,
        timings=draft.timings,
        cost=draft.cost,
    )


def origin(rollout: Rollout) -> Mapping[str, JSON]:
    """Format and place that this record came from; empty for records of our own."""
    imported = rollout.outcome_detail.get(IMPORTED)
    return imported if isinstance(imported, Mapping) else {}


def with_outcome(rollout: Rollout, outcome: bool | None, source: str, **more: JSON) -> Rollout:
    """The record with an outcome that its own row did not have, and where that came from."""
    told = {"absent": sorted(absent(rollout) - {"outcome"}), "outcome_from": source}
    detail = {**rollout.outcome_detail, IMPORTED: {**origin(rollout), **told}}
    return replace(rollout, outcome=outcome, outcome_detail=detail, **more)


def absent(rollout: Rollout) -> frozenset[str]:
    """What was not in the data that this record came from; nothing for records of our own."""
    names = origin(rollout).get("absent")
    return frozenset(names) & frozenset(ABSENCES) if isinstance(names, list) else frozenset()


def judged(rollouts: Iterable[Rollout], solved_at: float | None) -> Iterator[Rollout]:
    """Rollouts whose reward says whether they solved their task, where nothing else does."""
    for one in rollouts:
        known = one.outcome is not None or one.error is not None or not one.rewards
        if solved_at is None or known:
            yield one
        else:
            yield with_outcome(one, one.total_reward >= solved_at, "reward")


def cost_of(usd: float | None = None, *tokens: float | None) -> dict[str, float]:
    """What an attempt cost, as far as its data says; a number of tokens may come in parts."""
    known = [part for part in tokens if part is not None]
    return ({} if usd is None else {"usd": usd}) | ({"tokens": sum(known)} if known else {})


def digest(value: JSON) -> str:
    """Names a piece of data by its content."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
