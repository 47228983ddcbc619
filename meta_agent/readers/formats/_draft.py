"""`AttemptDraft`: what one row of another tool says about an attempt. None: not in this data.

`to_rollout` makes the record of it. Many fields of a record cannot say "unknown", so the record
lists what was not in the data in `outcome_detail["imported"]["absent"]`. `absent(rollout)` reads
the list, and evidence leaves out what rests on it instead of showing a 0.
`attempt_messages(rollout)` is the one answer to which messages an attempt wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from meta_agent.core.chat import calls_in
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
PROMPT_MESSAGES: Final = "prompt_messages"
# What a record may lack. `tool_ok`: calls are known, but not whether they worked. `cut_replies`:
# it is not known which replies ended at their token limit.
ABSENCES: Final = (
    *("messages", "tool_events", "tool_ok", "turns", "stop_reason", "cut_replies"),
    *("rewards", "outcome", "tokens", "flags", "task"),
)


@dataclass(slots=True)
class AttemptDraft:
    """One attempt as read from a row of another tool's file; None marks what the row lacks."""

    prompt: Sequence[Message] = ()  # what names the task where the row does not
    messages: list[Message] | None = None
    prompt_messages: int | None = None  # how many of `messages` were given to the attempt
    tool_events: list[ToolEvent] | None = None
    tool_ok: bool = False  # whether `ok` of the tool events was in the data
    turns: int | None = None
    cut_replies: int | None = None
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
    caveat: str = ""  # what a reader should know about the file that it came from

    def converse(self, messages: list[Message], prompt_messages: int | None = None) -> None:
        """Sets the messages, turns and tool calls of the attempt. An empty list changes nothing.

        The first `prompt_messages` are the prompt; if None, all before the first assistant message.
        """
        if not messages:
            return
        first = first_reply(messages) if prompt_messages is None else prompt_messages
        self.messages, self.prompt_messages = messages, first
        self.prompt = messages[:first]
        self.turns = sum(message["role"] == "assistant" for message in messages[first:])
        self.tool_events, self.tool_ok = calls_in(messages[first:])

    def of_step(self, step: int | None) -> None:
        """Sets group and policy version. Attempts at one prompt in one step form a group.

        A group that the row names is one only within its step.
        """
        self.group = f"{self.group or f'prompt-{digest(list(self.prompt))[:12]}'}@{step}"
        if step is not None:
            self.detail, self.version = {"step": step}, f"step-{step}"

    def add_metrics(self, metrics: Mapping[str, float]) -> None:
        """Adds numbers that were measured beside the reward, as components of weight 0."""
        if self.rewards:
            self.weights = {**self.weights, **dict.fromkeys(metrics, 0.0)}
        self.rewards = {**(self.rewards or {}), **metrics} or None

    def absent(self) -> list[str]:
        """Returns the names of the rollout fields that the row did not hold."""
        known_fields = {
            "messages": self.messages is not None,
            "tool_events": self.tool_events is not None,
            "tool_ok": self.tool_ok or not self.tool_events,
            "turns": self.turns is not None,
            "stop_reason": self.stop_reason is not None,
            "cut_replies": self.replies_cut() is not None,
            "rewards": bool(self.rewards),
            "outcome": self.outcome is not None or self.error is not None,
            "tokens": self.tokens is not None,
            "flags": self.flags is not None,
            "task": self.task_key is not None,
        }
        return [name for name in ABSENCES if not known_fields[name]]

    def replies_cut(self) -> int | None:
        """Returns how many replies ended at their token limit, or None if that is not known."""
        if self.cut_replies is None and self.turns == 1 and self.stop_reason is not None:
            return int(self.stop_reason == "length")
        return self.cut_replies


@dataclass(slots=True)
class Numbering:
    """Numbers the samples of each group, for rows without a sample index."""

    next_of: dict[str, int] = field(default_factory=dict)

    def sample(self, group: str) -> int:
        """Returns the next sample index of a group, counted from 0."""
        index = self.next_of.get(group, 0)
        self.next_of[group] = index + 1
        return index


def to_rollout(
    draft: AttemptDraft, numbering: Numbering, *, run: str, format_name: str, place: str
) -> Rollout:
    """Returns the draft as a rollout. `place` says where it stands, such as a file and line.

    `numbering` gives sample indices to drafts without one.
    """
    prompt = digest(list(draft.prompt))
    task = draft.task_key or f"prompt-{prompt[:12]}"
    # Attempts of two policies at a task are no group: nothing was ever compared among them.
    group = draft.group or (f"{task}@{draft.policy}" if draft.policy else task)
    sample = numbering.sample(group) if draft.sample_idx is None else draft.sample_idx
    imported: dict[str, JSON] = {"format": format_name, "place": place, "absent": draft.absent()}
    messages, prompt_messages = draft.messages or [], draft.prompt_messages or 0
    if prompt_messages > first_reply(messages):
        imported[PROMPT_MESSAGES] = prompt_messages
    same = (
        *("domain", "seed", "harness_commit", "tokens", "weights", "advantage", "outcome"),
        *("verifier_inputs", "error", "timings", "cost"),
    )
    return Rollout(
        run=run,
        version=draft.version or IMPORTED,
        split="search",
        task_key=task,
        task_hash=prompt,
        group_id=group,
        sample_idx=sample,
        policy=draft.policy or "unknown",
        evaluator_hash=f"{IMPORTED}:{format_name}",
        messages=messages,
        tool_events=draft.tool_events or [],
        rewards=draft.rewards or {},
        outcome_detail={**draft.detail, IMPORTED: imported},
        stop_reason=draft.stop_reason or ("error" if draft.error else "returned"),
        flags=draft.flags or [],
        turns=draft.turns or 0,
        cut_replies=draft.replies_cut() or 0,
        **{name: getattr(draft, name) for name in same},
    )


def origin(rollout: Rollout) -> Mapping[str, JSON]:
    """Returns the format and place that a rollout was imported from; empty if not imported."""
    imported = rollout.outcome_detail.get(IMPORTED)
    return imported if isinstance(imported, Mapping) else {}


def absent(rollout: Rollout) -> frozenset[str]:
    """Returns the fields that an imported rollout's data lacked; empty if not imported."""
    names = origin(rollout).get("absent")
    return frozenset(names) & frozenset(ABSENCES) if isinstance(names, list) else frozenset()


def attempt_messages(rollout: Rollout) -> list[Message]:
    """Returns an attempt's own messages, from its first reply on, without replies in the prompt."""
    prompt_messages = origin(rollout).get(PROMPT_MESSAGES, 0)
    start = prompt_messages if isinstance(prompt_messages, int) else 0
    return rollout.messages[max(start, first_reply(rollout.messages)) :]


def prompt_of(rollout: Rollout) -> list[Message]:
    """Returns the messages that the attempt was given before its first reply."""
    return rollout.messages[: len(rollout.messages) - len(attempt_messages(rollout))]


def first_reply(messages: Sequence[Message]) -> int:
    """Returns the index of the first assistant message, or the number of messages if none."""
    replies = (i for i, message in enumerate(messages) if message["role"] == "assistant")
    return next(replies, len(messages))


def with_outcome(rollout: Rollout, outcome: bool | None, source: str, **more: JSON) -> Rollout:
    """Returns the rollout with this outcome and the fields `more`; `source` names its origin."""
    changes = {"absent": sorted(absent(rollout) - {"outcome"}), "outcome_from": source}
    detail = {**rollout.outcome_detail, IMPORTED: {**origin(rollout), **changes}}
    return replace(rollout, outcome=outcome, outcome_detail=detail, **more)


def judged(rollouts: Iterable[Rollout], solved_at: float | None) -> Iterator[Rollout]:
    """Yields the rollouts, and gives an outcome to those that have only a reward.

    A total reward of at least `solved_at` counts as solved. If that is None, nothing changes.
    """
    for rollout in rollouts:
        has_verdict = rollout.outcome is not None or rollout.error is not None
        if solved_at is None or has_verdict or not rollout.rewards:
            yield rollout
        else:
            yield with_outcome(rollout, rollout.total_reward >= solved_at, "reward")


def cost_of(usd: float | None = None, *tokens: float | None) -> dict[str, float]:
    """Returns an attempt's known costs as `usd` and `tokens`, the sum of the given token counts."""
    parts = [part for part in tokens if part is not None]
    return ({} if usd is None else {"usd": usd}) | ({"tokens": sum(parts)} if parts else {})


def digest(value: JSON) -> str:
    """Returns the SHA-256 hash, in hexadecimal, of a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
