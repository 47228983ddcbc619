"""Measures a policy with one of *our own* scaffolds, in this process, in lock-step.

Building a warm start needs a success rate before there is a workspace, a sandbox or a run. This
module is only for scaffold sources that ship with the package: nothing here contains what they do.
Everything else goes through the rollout runner and a sandbox.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

from meta_agent.protocols import (
    JSON,
    Domain,
    Environment,
    GenerateReply,
    GenerateRequest,
    Message,
    PlannedRollout,
    Sampling,
    ToolEvent,
    ToolResult,
)


class Engine(Protocol):
    """The part of a gateway that this module needs."""

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]: ...

    def finish(self, keys: Sequence[str]) -> Any: ...


class _Ask:
    """Awaiting this hands a model call to the driver and receives its reply."""

    def __init__(self, messages: Sequence[Message], max_tokens: int) -> None:
        self.messages = list(messages)
        self.max_tokens = max_tokens

    def __await__(self) -> Generator[_Ask, GenerateReply, GenerateReply]:
        return (yield self)


@dataclass(slots=True)
class Attempt:
    """One rollout under way, and what came of it."""

    plan: PlannedRollout
    environment: Environment
    coroutine: Coroutine[_Ask, GenerateReply | None, None] | None = None
    ask: _Ask | None = None
    turns: int = 0
    flags: list[str] = field(default_factory=list)
    events: list[ToolEvent] = field(default_factory=list)
    submitted: bool = False

    @property
    def key(self) -> str:
        return f"{self.plan.task.key}#{self.plan.sample_idx}"

    def tool(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        result = self.environment.call(name, arguments)
        self.flags += result.flags
        self.submitted = self.submitted or result.done
        self.events.append(ToolEvent(self.turns, name, arguments, result.text, result.ok))
        return result


class _Model:
    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling

    async def chat(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> GenerateReply:
        return await _Ask(messages, min(max_tokens or self._ceiling, self._ceiling))


class _Tools:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    async def call(self, name: str, /, **arguments: JSON) -> ToolResult:
        return self._attempt.tool(name, arguments)


def _load(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "scaffold"}
    exec(compile(source, "agent.py", "exec"), names)  # noqa: S102 - only sources we ship, see above
    return names["run"]


class Driver:
    """Runs planned rollouts of one scaffold on one domain with one engine."""

    def __init__(self, domain: Domain, scaffold_source: str, engine: Engine) -> None:
        self._domain = domain
        self._run = _load(scaffold_source)
        self._engine = engine

    def run(self, plans: Sequence[PlannedRollout], sampling: Sampling) -> list[Attempt]:
        """Returns one finished attempt per plan, in order."""
        attempts = [self._start(plan) for plan in plans]
        live = attempts
        while live := [a for a in live if a.ask and a.turns < self._domain.ceilings.max_turns]:
            replies = self._engine.generate([self._request(a, sampling) for a in live])
            for attempt, reply in zip(live, replies, strict=True):
                self._answer(attempt, reply)
        self._engine.finish([a.key for a in attempts])
        return attempts

    def _start(self, plan: PlannedRollout) -> Attempt:
        attempt = Attempt(plan, self._domain.open(plan.task))
        task = SimpleNamespace(key=plan.task.key, view=dict(plan.task.view))
        model = _Model(self._domain.ceilings.max_tokens_per_turn)
        attempt.coroutine = self._run(task, model, _Tools(attempt))
        self._advance(attempt, None)
        return attempt

    def _request(self, attempt: Attempt, sampling: Sampling) -> GenerateRequest:
        assert attempt.ask is not None
        plan = attempt.plan
        return GenerateRequest(
            key=attempt.key,
            task_key=plan.task.key,
            sample_idx=plan.sample_idx,
            seed=plan.seed,
            turn=attempt.turns,
            messages=attempt.ask.messages,
            max_tokens=attempt.ask.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_context_tokens=self._domain.ceilings.max_context_tokens,
        )

    def _answer(self, attempt: Attempt, reply: GenerateReply) -> None:
        attempt.turns += 1
        if reply.finish_reason == "context":
            attempt.ask = None
        else:
            self._advance(attempt, reply)

    def _advance(self, attempt: Attempt, reply: GenerateReply | None) -> None:
        assert attempt.coroutine is not None
        try:
            attempt.ask = attempt.coroutine.send(reply)
        except StopIteration:
            attempt.ask = None
