"""Finds the three attempts that show most clearly what an alert is about.

Promises: one pass over the rollouts. Three attempts are kept per kind of alert, the earliest if
several are equal. A group's rewards are complete only at the end, so for alerts on groups the first
attempt of each of the first few hundred groups is kept.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Message, Rollout
from meta_agent.readers.evidence._roles import role_of
from meta_agent.readers.evidence.layers._behaviour import CEILING_STOPS, Story, story_of
from meta_agent.readers.formats import absent, attempt_messages, origin, prompt_of

SHOWN: Final = 3
_GROUPS: Final = 512
_CHARS: Final = 160
Degree = Callable[[Rollout, Story], float]
"""Returns how clearly an attempt shows what an alert is about, or 0 if it does not."""


class ShownAttempt(NamedTuple):
    """An attempt in a report: its name, its place in a file, its outcome and its first lines."""

    name: str
    place: str
    summary: str
    lines: tuple[str, ...]

    def to_json(self) -> dict[str, JSON]:
        return {
            "name": self.name,
            "place": self.place,
            "told": self.summary,
            "lines": list(self.lines),
        }


_OF_ATTEMPTS: Final[tuple[tuple[str, Degree], ...]] = (
    (r"signal\.(misordered|tied|reward_corr_clean|reward_follows|flagged_reward_gap)",
     lambda r, s: _rank(r) if r.outcome is not None and not r.clean else 0),
    (r"signal\.reward_turns_corr", lambda r, s: r.turns if r.rewards else 0),
    (r"signal\.reward_turns_corr_within", lambda r, s: 1 / r.turns if r.turns and r.rewards else 0),
    (r"signal\.reward_missing", lambda r, s: not (r.rewards and math.isfinite(r.total_reward))),
    (r"signal\.component\..*", lambda r, s: bool(r.rewards)),
    (r"behaviour\.turns_mean", lambda r, s: r.turns),
    (r"behaviour\.mean_logprob", lambda r, s: r.tokens is not None),
    (r"behaviour\.inexact_share", lambda r, s: r.tokens is not None and not r.tokens.exact),
    (r"behaviour\.cut_replies", lambda r, s: r.cut_replies),
    (r"behaviour\.truncation", lambda r, s: _is_present(r, "stop_reason") and
     r.stop_reason in CEILING_STOPS),
    (r"behaviour\.tool_failure_rate", lambda r, s: sum(not e.ok for e in r.tool_events)),
    (r"(behaviour\.edit_failure_rate|rule\.edit_failure)",
     lambda r, s: sum(role_of(e.tool) == "edit" and not e.ok for e in r.tool_events)),
    (r"behaviour\.repeated_action_rate", lambda r, s: _repeats(r)),
    (r"behaviour\.self_test_rate", lambda r, s: bool(s.roles) and not s.tests),
    (r"behaviour\.edit_rate", lambda r, s: bool(s.roles) and not s.edits),
    (r"behaviour\.submit_after_fail", lambda r, s: s.last_test_passed is False and s.submitted),
    (r"(behaviour\.leak_use|rule\.leak)", lambda r, s: _flagged(r, "leak:")),
    (r"behaviour\.tamper_use", lambda r, s: _flagged(r, "tamper:", "forge")),
    (r"score\.infra_share", lambda r, s: bool(r.error and r.error.kind != "policy")),
)  # fmt: skip


@dataclass(slots=True)
class Behind:
    """Collects the attempts that show each alert most clearly, by the alert's metric or rule."""

    rankings: dict[str, list[tuple[float, ShownAttempt]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    firsts: dict[str, ShownAttempt] = field(default_factory=dict)

    def add(self, rollout: Rollout) -> None:
        if len(self.firsts) < _GROUPS and rollout.group_id not in self.firsts:
            self.firsts[rollout.group_id] = attempt_of(rollout)
        story = story_of(rollout)
        for pattern, degree in _OF_ATTEMPTS:
            ranking, clearness = self.rankings[pattern], float(degree(rollout, story))
            if clearness > 0 and (len(ranking) < SHOWN or clearness > ranking[-1][0]):
                ranking.append((clearness, attempt_of(rollout)))
                ranking.sort(key=lambda pair: -pair[0])
                del ranking[SHOWN:]

    def of(self, metric: str) -> tuple[ShownAttempt, ...]:
        """Returns the attempts that show an alert on a metric or rule, the clearest first."""
        rankings = (
            ranking for pattern, ranking in self.rankings.items() if re.fullmatch(pattern, metric)
        )
        return tuple(attempt for _, attempt in next(rankings, []))

    def of_groups(self, groups: Iterable[str]) -> tuple[ShownAttempt, ...]:
        """Returns the first attempt of each group, for three groups at most."""
        return tuple(self.firsts[name] for name in groups if name in self.firsts)[:SHOWN]


def attempt_of(rollout: Rollout) -> ShownAttempt:
    """Returns an attempt's name, place, outcome and first lines, as the report shows them."""
    facts = [f"reward {rollout.total_reward:.3g}"] if rollout.rewards else []
    if rollout.outcome is not None:
        facts.append("solved" if rollout.outcome else "not solved")
    facts += [rollout.stop_reason] if _is_present(rollout, "stop_reason") else []
    place = str(origin(rollout).get("place", ""))
    name = f"{rollout.task_key}#{rollout.sample_idx}"
    return ShownAttempt(name, place, ", ".join(facts), tuple(_lines(rollout))[:SHOWN])


def _lines(rollout: Rollout) -> list[str]:
    if rollout.error is not None:
        return [_clip(f"{rollout.error.kind} error: {rollout.error.detail}")]
    messages = [*prompt_of(rollout)[-1:], *attempt_messages(rollout)]
    lines = [_clip(f"{m['role']}: {_words(m)}") for m in messages if m["role"] != "system"]
    return lines or [_clip(f"{e.tool}: {e.result}") for e in rollout.tool_events[:SHOWN]]


def _words(message: Message) -> str:
    calls = [call.get("function") for call in message.get("tool_calls", ())]
    return message.get("content") or (json.dumps(calls[0]) if calls else "(nothing)")


def _clip(text: str) -> str:
    flat = " ".join(text[: 8 * _CHARS].split())
    return flat if len(flat) <= _CHARS else flat[: _CHARS - 1] + "…"


def _is_present(rollout: Rollout, name: str) -> bool:
    return name not in absent(rollout)


def _rank(rollout: Rollout) -> float:
    """Returns a number above 0 that grows with the reward, or 0 without a reward."""
    reward = rollout.total_reward if rollout.rewards else math.nan
    return math.pi / 2 + math.atan(reward) if math.isfinite(reward) else 0


def _repeats(rollout: Rollout) -> int:
    steps = [(event.tool, event.arguments) for event in rollout.tool_events]
    return sum(step == before for before, step in pairwise(steps))


def _flagged(rollout: Rollout, *kinds: str) -> bool:
    return any(flag.startswith(kinds) for flag in rollout.flags)
