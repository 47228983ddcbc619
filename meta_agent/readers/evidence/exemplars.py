"""Exemplars: a few whole rollouts per failure mode, the same ones every time.

A rollout belongs to the first mode that fits, in the order of `MODES`; conduct comes first, for
a leak explains a success as well as a failure. Which ones are shown is decided by a hash of their
identity: arbitrary, but never a matter of who looks.

Not covered: reading them. Text from a rollout is material, and is quoted short.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

from meta_agent.core.protocols import JSON, Rollout
from meta_agent.readers.evidence.layers._behaviour import CEILING_STOPS, Story, story_of
from meta_agent.readers.formats import attempt_messages

_EXCERPT_CHARS: Final = 400

Fits = Callable[[Rollout, Story], bool]

MODES: Final[tuple[tuple[str, Fits], ...]] = (
    ("infra_error", lambda r, s: bool(r.error and r.error.kind == "infra")),
    ("verifier_error", lambda r, s: bool(r.error and r.error.kind == "verifier")),
    ("leak", lambda r, s: any(flag.startswith("leak:") for flag in r.flags)),
    ("flagged", lambda r, s: bool(r.flags)),
    ("solved", lambda r, s: bool(r.outcome)),
    ("policy_error", lambda r, s: bool(r.error)),
    ("truncated", lambda r, s: r.stop_reason in CEILING_STOPS),
    ("not_submitted", lambda r, s: not s.submitted and r.stop_reason != "returned"),
    ("submitted_red", lambda r, s: s.last_test_passed is False),
    ("green_but_wrong", lambda r, s: bool(s.last_test_passed) and s.tests > 0 and s.edits > 0),
    ("untested_edit", lambda r, s: s.edits > 0 and s.tests == 0),
    ("no_edit", lambda r, s: s.edits == 0 and bool(set(s.roles) - {"submit"})),
    ("wrong", lambda r, s: True),
)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A rollout in a few lines: task, outcome, flags, rewards, tool calls, last words, error."""

    task_key: str
    split: str
    group_id: str
    sample_idx: int
    outcome: bool | None
    flags: tuple[str, ...]
    stop_reason: str
    turns: int
    total_reward: float
    rewards: dict[str, float]
    steps: tuple[str, ...]  # "test(...) -> 2t lo"
    last_words: str
    error: str = ""

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "flags": list(self.flags), "steps": list(self.steps)}


def exemplars(rollouts: Iterable[Rollout], *, per_mode: int = 3) -> dict[str, list[Exemplar]]:
    """Returns summaries of up to `per_mode` rollouts by failure mode; `solved` is a mode, too."""
    picks: dict[str, list[tuple[bytes, int, Rollout]]] = defaultdict(list)
    for number, rollout in enumerate(rollouts):
        name = f"{rollout.task_key}|{rollout.group_id}|{rollout.sample_idx}|{rollout.seed}"
        ranking = picks[failure_mode(rollout)]
        ranking.append((hashlib.sha256(name.encode()).digest()[:8], number, rollout))
        ranking.sort(key=lambda pick: pick[:2])
        del ranking[per_mode:]
    return {
        mode: [summarize(rollout) for _, _, rollout in picks[mode]]
        for mode, _ in MODES
        if mode in picks
    }


def failure_mode(rollout: Rollout) -> str:
    """Returns the name of the first kind of failure (or `solved`) that fits the rollout."""
    story = story_of(rollout)
    return next(mode for mode, fits in MODES if fits(rollout, story))


def summarize(rollout: Rollout) -> Exemplar:
    """Returns one rollout's outcome, rewards, tool calls and last words, in short."""
    replies = (m for m in reversed(attempt_messages(rollout)) if m.get("role") == "assistant")
    return Exemplar(
        task_key=rollout.task_key,
        split=rollout.split,
        group_id=rollout.group_id,
        sample_idx=rollout.sample_idx,
        outcome=rollout.outcome,
        flags=tuple(rollout.flags),
        stop_reason=rollout.stop_reason,
        turns=rollout.turns,
        total_reward=rollout.total_reward,
        rewards=dict(rollout.rewards),
        steps=tuple(_step(e.tool, e.arguments, e.result, e.ok) for e in rollout.tool_events[:40]),
        last_words=_clip(str(next(replies, {}).get("content") or "")),
        error=_clip(f"{rollout.error.kind}: {rollout.error.detail}") if rollout.error else "",
    )


def _step(tool: str, arguments: dict[str, JSON], result: str, ok: bool) -> str:
    arguments_text = ", ".join(
        f"{name}={_clip(str(value), 40)}" for name, value in arguments.items()
    )
    return f"{tool}({arguments_text}) -> {_clip(result, 80)}{'' if ok else ' [refused]'}"


def _clip(text: str, limit: int = _EXCERPT_CHARS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
