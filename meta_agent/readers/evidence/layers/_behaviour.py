"""The behaviour layer: what the policy did, by the roles of its tools and by how attempts ended.

What each metric is, and of what a share, stands in `metrics.toml`. A test that says neither
"passed" nor "failed" is no failure.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from meta_agent.core.chat import tool_calls_of
from meta_agent.core.evidence import Mean
from meta_agent.core.protocols import Rollout, ToolEvent
from meta_agent.readers.evidence._roles import passed_tests, role_of
from meta_agent.readers.evidence._running import share

CEILING_STOPS = ("length", "token_limit", "turn_limit", "wall_limit")


@dataclass(frozen=True, slots=True)
class Story:
    """A rollout as a sequence of tool roles, with counts of edits and tests."""

    roles: tuple[str, ...]
    edits: int
    tests: int
    failed_tests: int
    retried: int  # failed tests that an edit follows
    last_test_passed: bool | None
    tested_after_edit: bool
    viewed_before_edit: bool
    first_edit_turn: int | None
    submitted: bool


def story_of(rollout: Rollout) -> Story:
    """Returns a rollout's tool roles in order, with counts of its edits and tests."""
    events = tool_calls_of(rollout)
    roles = tuple(role_of(event.tool) or event.tool for event in events)
    edits = [i for i, role in enumerate(roles) if role == "edit"]
    tests = [i for i, role in enumerate(roles) if role == "test"]
    failed = [i for i in tests if passed_tests(events[i]) is False]
    last_edit = edits[-1] if edits else len(roles)
    return Story(
        roles=roles,
        edits=len(edits),
        tests=len(tests),
        failed_tests=len(failed),
        retried=sum(i < last_edit for i in failed) if edits else 0,
        last_test_passed=passed_tests(events[tests[-1]]) if tests else None,
        tested_after_edit=bool(edits and tests and tests[-1] > last_edit),
        viewed_before_edit=bool(edits and "view" in roles[: edits[0]]),
        first_edit_turn=events[edits[0]].turn if edits else None,
        submitted="submit" in roles or rollout.stop_reason == "submitted",
    )


@dataclass(slots=True)
class BehaviourLayer:
    """Accumulates what attempts did: tool calls, endings, flags, tokens."""

    n: int = 0
    solved: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    first_edit: Mean = field(default_factory=Mean)
    turns: Mean = field(default_factory=Mean)
    tokens: Mean = field(default_factory=Mean)
    logprob: Mean = field(default_factory=Mean)
    token_rows: int = 0
    sequences: dict[str, Counter[tuple[str, ...]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def add(self, rollout: Rollout) -> None:
        if rollout.error is not None and rollout.error.kind == "infra":
            return  # an attempt that the machines cut short is no conduct of the policy
        self.n += 1
        self.turns.add(float(rollout.turns))
        self.counts["cut_replies"] += rollout.cut_replies
        self.stops[rollout.stop_reason] += 1
        self._add_flags(rollout)
        self._add_calls(tool_calls_of(rollout))
        self._add_story(rollout, story_of(rollout))
        self._add_tokens(rollout)

    def _add_flags(self, rollout: Rollout) -> None:
        self.solved += bool(rollout.outcome)
        self.flags.update(set(rollout.flags))
        leaked = any(flag.startswith("leak:") for flag in rollout.flags)
        self.counts["flagged"] += bool(rollout.flags)
        self.counts["leak"] += leaked
        self.counts["leak_solved"] += leaked and bool(rollout.outcome)
        self.counts["tamper"] += any(f.startswith(("tamper:", "forge")) for f in rollout.flags)

    def _add_calls(self, events: Sequence[ToolEvent]) -> None:
        self.counts["acting_turns"] += len({event.turn for event in events})
        before = ""
        for event in events:
            self.calls[event.tool] += 1
            self.failures[event.tool] += not event.ok
            self.counts["edit_calls"] += role_of(event.tool) == "edit"
            self.counts["edit_failures"] += role_of(event.tool) == "edit" and not event.ok
            action = event.tool + json.dumps(event.arguments, sort_keys=True, default=str)
            self.counts["repeats"] += action == before
            before = action

    def _add_story(self, rollout: Rollout, story: Story) -> None:
        c = self.counts
        c["edited"] += story.edits > 0
        c["tested"] += story.tests > 0
        c["submitted"] += story.submitted
        c["edit_then_test"] += story.tested_after_edit
        c["view_before_edit"] += story.viewed_before_edit
        c["tests"] += story.tests
        c["failed_tests"] += story.failed_tests
        c["retried"] += story.retried
        c["ended_red"] += story.last_test_passed is False
        c["submitted_red"] += story.last_test_passed is False and story.submitted
        c["turns"] += rollout.turns
        if story.first_edit_turn is not None:
            self.first_edit.add(float(story.first_edit_turn))
        self.sequences[rollout.group_id][story.roles] += 1

    def _add_tokens(self, rollout: Rollout) -> None:
        if "tokens" in rollout.cost:
            self.tokens.add(float(rollout.cost["tokens"]))
        if rollout.tokens is None:
            return
        self.token_rows += 1
        self.counts["inexact"] += not rollout.tokens.exact
        for logprob, mine in zip(rollout.tokens.logprobs, rollout.tokens.mask, strict=False):
            if mine and logprob is not None:
                self.logprob.add(logprob)

    def metrics(self) -> dict[str, float]:
        if not self.n:
            return {}
        metrics = {"turns_mean": self.turns.mean}
        metrics["cut_replies"] = share(self.counts["cut_replies"], self.counts["turns"])
        if self.tokens.n:
            metrics["tokens_mean"] = self.tokens.mean
        if self.logprob.n:
            metrics["mean_logprob"] = self.logprob.mean
        if self.token_rows:
            metrics["inexact_share"] = share(self.counts["inexact"], self.token_rows)
        return metrics | self._tools() | self._conduct() | self._endings() | self._diversity()

    def _tools(self) -> dict[str, float]:
        calls = sum(self.calls.values())
        shares = {tool: share(count, calls) for tool, count in sorted(self.calls.items())}
        return {
            "tool_calls_mean": share(calls, self.n),
            "tool_failure_rate": share(sum(self.failures.values()), calls),
            "repeated_action_rate": share(self.counts["repeats"], calls),
            "actionless_turns": 1
            - min(1.0, share(self.counts["acting_turns"], self.counts["turns"])),
            **{f"tool_share.{tool}": value for tool, value in shares.items()},
            **{f"tool_failure.{t}": share(self.failures[t], self.calls[t]) for t in shares},
        }

    def _conduct(self) -> dict[str, float]:
        """Returns rates of conduct; those of tests and edits only if there are such tools."""
        c, roles = self.counts, {role_of(tool) for tool in self.calls}
        metrics = {"submit_rate": share(c["submitted"], self.n)}
        if "test" in roles or "edit" in roles:
            metrics["self_test_rate"] = share(c["tested"], self.n)
        if "edit" in roles:
            metrics |= {
                "edit_rate": share(c["edited"], self.n),
                "edit_then_test": share(c["edit_then_test"], c["edited"]),
                "view_before_edit": share(c["view_before_edit"], c["edited"]),
                "edit_failure_rate": share(c["edit_failures"], c["edit_calls"]),
                "first_edit_turn": self.first_edit.mean,
            }
        if c["tests"]:
            metrics["test_fail_rate"] = share(c["failed_tests"], c["tests"])
        if c["failed_tests"]:
            metrics["retry_after_fail"] = share(c["retried"], c["failed_tests"])
        if c["ended_red"]:
            metrics["submit_after_fail"] = share(c["submitted_red"], c["ended_red"])
        return metrics

    def _endings(self) -> dict[str, float]:
        return {
            **{f"stop.{reason}": share(k, self.n) for reason, k in sorted(self.stops.items())},
            "truncation": share(sum(self.stops[reason] for reason in CEILING_STOPS), self.n),
            "flagged": share(self.counts["flagged"], self.n),
            "leak_use": share(self.counts["leak"], self.n),
            "leak_share_of_solved": share(self.counts["leak_solved"], self.solved),
            "tamper_use": share(self.counts["tamper"], self.n),
            **{f"flag.{flag}": share(k, self.n) for flag, k in sorted(self.flags.items())},
        }

    def _diversity(self) -> dict[str, float]:
        groups = [sequences for sequences in self.sequences.values() if sequences.total() >= 2]
        if not groups:
            return {}
        distinct = sum(share(len(sequences), sequences.total()) for sequences in groups)
        return {"sequence_diversity": distinct / len(groups)}
