"""One scaffold of ours and its environments in this process: what both engines are driven by.

Standard library only, so that vLLM's own venv can import it. Only for scaffold sources that ship
with the package: nothing here contains what they do.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import SimpleNamespace
from typing import Any

from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.protocols import GenerateReply, GenerateRequest, PlannedRollout

VARIANT = "competent"


class _Ask:
    """Awaiting this hands a model call to whoever drives the scaffold."""

    def __init__(self, messages: Sequence[Any], max_tokens: int) -> None:
        self.messages, self.max_tokens = list(messages), max_tokens

    def __await__(self) -> Generator[_Ask, GenerateReply, GenerateReply]:
        return (yield self)


class Scaffold:
    """The harness's agent, compiled once."""

    def __init__(self) -> None:
        self.domain = NanoSwe()
        source = seed_files("swe", variant=VARIANT).files["swe/agent.py"].decode()
        names: dict[str, Any] = {"__name__": "scaffold"}
        exec(compile(source, "agent.py", "exec"), names)  # noqa: S102 - our own source
        self.run = names["run"]


class Attempt:
    """One rollout under way; `request` is what it asks of the model, None once it is over."""

    def __init__(self, scaffold: Scaffold, plan: PlannedRollout) -> None:
        self._domain, self.plan, self.turns = scaffold.domain, plan, 0
        self.environment = self._domain.open(plan.task)
        self.key = f"{plan.task.key}#{plan.sample_idx}"
        task = SimpleNamespace(key=plan.task.key, view=dict(plan.task.view))
        model = SimpleNamespace(chat=self._chat)
        self._coroutine = scaffold.run(task, model, SimpleNamespace(call=self._call))
        self.request: GenerateRequest | None = None
        self._advance(None)

    async def _chat(self, messages: Sequence[Any], max_tokens: int | None = None) -> Any:
        ceiling = self._domain.ceilings.max_tokens_per_turn
        return await _Ask(messages, min(max_tokens or ceiling, ceiling))

    async def _call(self, name: str, /, **arguments: Any) -> Any:
        return self.environment.call(name, arguments)

    def answer(self, reply: GenerateReply) -> None:
        """Goes on with the model's reply."""
        self.turns += 1
        if reply.finish_reason == "context" or self.turns >= self._domain.ceilings.max_turns:
            self.request = None
        else:
            self._advance(reply)

    def _advance(self, reply: GenerateReply | None) -> None:
        try:
            ask = self._coroutine.send(reply)
        except StopIteration:
            self.request = None
            return
        self.request = GenerateRequest(
            key=self.key,
            task_key=self.plan.task.key,
            sample_idx=self.plan.sample_idx,
            seed=self.plan.seed,
            turn=self.turns,
            messages=ask.messages,
            max_tokens=ask.max_tokens,
            temperature=self._domain.sampling.temperature,
            max_context_tokens=self._domain.ceilings.max_context_tokens,
        )


def plans(count: int, repeat: int) -> list[PlannedRollout]:
    """The same rollouts for every contender."""
    tasks = NanoSwe().tasks("search")
    return [
        PlannedRollout(tasks[i % len(tasks)], i // len(tasks), repeat, f"g{i}")
        for i in range(count)
    ]


def lock_step(scaffold: Scaffold, engine: Any, planned: Sequence[PlannedRollout]) -> list[Attempt]:
    """All of them at once, each turn one batch."""
    attempts = [Attempt(scaffold, plan) for plan in planned]
    live = attempts
    while live := [attempt for attempt in live if attempt.request]:
        replies = engine.generate([attempt.request for attempt in live])
        for attempt, reply in zip(live, replies, strict=True):
            attempt.answer(reply)
    engine.finish([attempt.key for attempt in attempts])
    return attempts
