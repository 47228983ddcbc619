"""One of *our own* scaffolds and its environments in this process: no workspace, no sandbox.

A warm start is measured with it while it is built, and engines are compared with it. Only for
scaffold sources that ship with the package: nothing here contains what they do. Everything else
goes through the rollout runner and a sandbox. vLLM's own environment can import it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from meta_agent.core.protocols import (
    JSON,
    GenerateReply,
    GenerateRequest,
    Message,
    PlannedRollout,
    ToolResult,
)
from meta_agent.domains import load_domain
from meta_agent.domains.nano.sources import sources


class Engine(Protocol):
    """The part of a gateway that this module needs."""

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]: ...

    def finish(self, keys: Sequence[str]) -> Any: ...


class _Ask:
    """Awaiting this hands a model call to whoever drives the scaffold, and receives its reply."""

    def __init__(self, messages: Sequence[Message], max_tokens: int) -> None:
        self.messages, self.max_tokens = list(messages), max_tokens

    def __await__(self) -> Generator[_Ask, GenerateReply, GenerateReply]:
        return (yield self)


class Scaffold:
    """The agent of a suite's competent harness, compiled once."""

    def __init__(self, suite: str) -> None:
        self.domain = load_domain(suite)
        source = sources(suite, "competent")[f"{suite}/agent.py"].decode()
        names: dict[str, Any] = {"__name__": "scaffold"}
        exec(compile(source, "agent.py", "exec"), names)  # noqa: S102 - only sources we ship, see above
        self.run = names["run"]


class Attempt:
    """One rollout under way; `request` is what it asks of the model, None once it is over."""

    def __init__(self, scaffold: Scaffold, plan: PlannedRollout) -> None:
        self._domain, self._plan, self.turns = scaffold.domain, plan, 0
        self.environment = self._domain.open(plan.task)
        self.key = f"{plan.task.key}#{plan.sample_idx}"
        task = SimpleNamespace(key=plan.task.key, view=dict(plan.task.view))
        model, tools = SimpleNamespace(chat=self._chat), SimpleNamespace(call=self._call)
        self._coroutine = scaffold.run(task, model, tools)
        self.request: GenerateRequest | None = None
        self._advance(None)

    async def _chat(
        self, messages: Sequence[Message], max_tokens: int | None = None
    ) -> GenerateReply:
        ceiling = self._domain.ceilings.max_tokens_per_turn
        return await _Ask(messages, min(max_tokens or ceiling, ceiling))

    async def _call(self, name: str, /, **arguments: JSON) -> ToolResult:
        return self.environment.call(name, arguments)

    def answer(self, reply: GenerateReply) -> None:
        """Goes on with the model's reply; after the last turn what it asks for is done, no more."""
        self.turns += 1
        self.request = None
        if reply.finish_reason != "context":
            self._advance(reply)

    def _advance(self, reply: GenerateReply | None) -> None:
        try:
            ask = self._coroutine.send(reply)
        except StopIteration:
            return
        if self.turns >= self._domain.ceilings.max_turns:
            return
        self.request = GenerateRequest(
            key=self.key,
            task_key=self._plan.task.key,
            sample_idx=self._plan.sample_idx,
            seed=self._plan.seed,
            turn=self.turns,
            messages=ask.messages,
            max_tokens=ask.max_tokens,
            temperature=self._domain.sampling.temperature,
            top_p=self._domain.sampling.top_p,
            max_context_tokens=self._domain.ceilings.max_context_tokens,
        )


def lock_step(scaffold: Scaffold, engine: Engine, plans: Sequence[PlannedRollout]) -> list[Attempt]:
    """One finished attempt per plan, in order; each turn of all of them is one batch."""
    attempts = [Attempt(scaffold, plan) for plan in plans]
    while asked := [(one, one.request) for one in attempts if one.request]:
        replies = engine.generate([request for _, request in asked])
        for (attempt, _), reply in zip(asked, replies, strict=True):
            attempt.answer(reply)
    engine.finish([attempt.key for attempt in attempts])
    return attempts


def search_plans(scaffold: Scaffold, count: int, seed: int) -> list[PlannedRollout]:
    """So many rollouts of the search tasks, going round them as often as it takes."""
    tasks = scaffold.domain.tasks("search")
    return [
        PlannedRollout(tasks[n % len(tasks)], n // len(tasks), seed, f"g{n}") for n in range(count)
    ]
