"""One dialogue: a model, its tools, and every way in which that ends.

Promises: ends with a result, with a `CandidateError` that says why (`turn_limit`, `token_limit`,
`looped`, `no_tool_calls`, `context_overflow`, `malformed_replies`, `model_refused`, or what a tool
raised), or with an error that stops the run and leaves it resumable (`ProviderError`,
`BudgetError`, `Interrupted`).
Each request is a function of what was said before, so a dialogue that is repeated asks the same
questions, and the client answers them from its record.

Does not cover: retries, money and records (`ModelClient`), or what tools do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.chat import ChatReply, ChatRequest, ModelClient, ToolCall
from meta_agent.core.errors import CandidateError, Interrupted, ProviderError
from meta_agent.core.protocols import JSON, Message, Role
from meta_agent.proposers.team import _limits
from meta_agent.proposers.team._compact import compact, in_a_line
from meta_agent.proposers.team._fence import Fence, visible
from meta_agent.proposers.team._limits import DialogueLimits
from meta_agent.proposers.team._prompts import Prompts
from meta_agent.proposers.team._tools import Done, Tool, ToolError

_WARN_AT = (10, 5, 2)


@dataclass(slots=True)
class Spend:
    """The turns, tokens and US$ that a dialogue has used; `usd` is None if a price is unknown."""

    turns: int = 0
    tokens: int = 0
    usd: float | None = 0.0

    def add(self, reply: ChatReply) -> None:
        self.turns += 1
        self.tokens += reply.usage.total
        priced = self.usd is not None and reply.usd is not None
        self.usd = (self.usd or 0.0) + (reply.usd or 0.0) if priced else None

    def to_json(self) -> dict[str, JSON]:
        return {"turns": self.turns, "tokens": self.tokens, "usd": self.usd}


@dataclass(frozen=True, slots=True)
class Line:
    """What a conversation with a model needs: a client, a role, limits and prompt templates."""

    client: ModelClient
    role: Role
    model: str
    limits: DialogueLimits
    run: str
    conversation: str
    prompts: Prompts = field(default_factory=Prompts)
    stopping: Callable[[], bool] = lambda: False

    @property
    def fence(self) -> Fence:
        """Returns the marks that enclose untrusted text in prompts of this conversation."""
        return Fence.of(self.run, self.conversation)

    def dialogue(
        self, values: Mapping[str, Any], tools: Sequence[Tool], spend: Spend | None = None
    ) -> Dialogue:
        """Returns the dialogue that begins with the role's prompt, filled with `values`."""
        system, opening = self.prompts.render(self.role, values)
        return Dialogue(self, system, opening, tools, spend or Spend())


@dataclass(slots=True)
class Dialogue:
    """A conversation with one model that calls tools, until a tool ends it with a result."""

    line: Line
    system: str
    opening: str
    tools: Sequence[Tool]
    spend: Spend = field(default_factory=Spend)
    _messages: list[Message] = field(default_factory=list)
    _recent_calls: deque[str] = field(default_factory=lambda: deque(maxlen=_limits.WINDOW_CALLS))
    _idle: int = 0

    def run(self) -> Any:
        """Runs the conversation; returns its result. Raises CandidateError if there is none."""
        self._messages = [_message("system", self.system), _message("user", self.opening)]
        try:
            for turn in range(self.line.limits.turns):
                self._take_turn(turn)
        except Done as done:
            return done.result
        turns = self.line.limits.turns
        message = f"the model had no result after {turns} turns; use another model"
        raise CandidateError(message, reason="turn_limit")

    def _take_turn(self, turn: int) -> None:
        reply = self._ask(turn)
        self._messages.append(reply.message)
        if reply.stop == "refusal":
            raise CandidateError("the model refused; use another model", reason="model_refused")
        if reply.tool_calls:
            self._idle = 0
            self._answer(reply.tool_calls, self.line.limits.turns - turn - 1)
        else:
            self._nudge(reply)

    def _ask(self, turn: int) -> ChatReply:
        limits, specs = self.line.limits, [tool.spec for tool in self.tools]
        if self.line.stopping():
            raise Interrupted
        if self.spend.tokens >= limits.total_tokens:
            raise CandidateError(
                f"the model used {self.spend.tokens} tokens of at most {limits.total_tokens}; "
                "use another model",
                reason="token_limit",
            )
        if not compact(self._messages, limits.context_tokens, specs):
            raise _overflow(f"the dialogue has more than about {limits.context_tokens} tokens")
        request = ChatRequest(
            role=self.line.role,
            model=self.line.model,
            messages=tuple(self._messages),
            max_tokens=limits.reply_tokens,
            tools=tuple(specs),
            lenient_tools=True,  # a wrong call is answered here, where the model can mend it
        )
        reply = self._call(request, turn)
        self.spend.add(reply)
        return reply

    def _call(self, request: ChatRequest, turn: int) -> ChatReply:
        try:
            return self.line.client.chat(request, conversation=self.line.conversation, turn=turn)
        except ProviderError as error:
            if error.kind == "context":
                raise _overflow(str(error)) from error
            if error.kind == "malformed":
                raise CandidateError(str(error), reason="malformed_replies") from error
            raise

    def _answer(self, calls: Sequence[ToolCall], turns_left: int) -> None:
        by_name = {tool.spec.name: tool for tool in self.tools}
        for number, call in enumerate(calls, start=1):
            text = self._result(by_name, call)
            self._watch(call, text)
            if number == len(calls) and turns_left in _WARN_AT:
                text += f"\n\n[{turns_left} turns are left]"
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def _result(self, by_name: Mapping[str, Tool], call: ToolCall) -> str:
        tool = by_name.get(call.name)
        if tool is None:
            name = visible(call.name)[:60]
            return f"ERROR: there is no tool {name!r}; there are {', '.join(by_name)}"
        unknown = sorted(set(call.arguments) - set(tool.spec.parameters["properties"]))
        if unknown:
            names = ", ".join(tool.spec.parameters["properties"])
            return f"ERROR: {call.name} takes {names or 'no arguments'}, not {unknown[0][:60]!r}"
        try:
            return tool.run(call.arguments)
        except ToolError as error:
            return f"ERROR: {error}"

    def _watch(self, call: ToolCall, result: str) -> None:
        """Ends a dialogue that does the same thing again and again."""
        self._recent_calls.append(
            f"{in_a_line(call.name, call.arguments)} -> {hash_of(call, result)}"
        )
        last = list(self._recent_calls)[-_limits.SAME_CALLS :]
        same = len(last) == _limits.SAME_CALLS and len(set(last)) == 1
        full = len(self._recent_calls) == _limits.WINDOW_CALLS
        if same or (full and len(set(self._recent_calls)) <= _limits.WINDOW_DISTINCT):
            name = visible(call.name)[:60]
            message = f"the model repeats {name} without progress; use another model"
            raise CandidateError(message, reason="looped")

    def _nudge(self, reply: ChatReply) -> None:
        self._idle += 1
        if self._idle >= _limits.IDLE_TURNS:
            called = bool(self._recent_calls)
            message = f"the model made no tool call {self._idle} times; use another model"
            if not called:
                message += ", or switch tool calls on at its server"
            raise CandidateError(message, reason="looped" if called else "no_tool_calls")
        names = ", ".join(tool.spec.name for tool in self.tools)
        cut = "Your reply was cut off at its limit. " if reply.stop == "length" else ""
        self._messages.append(
            _message("user", f"{cut}Nobody reads plain replies here; go on with a tool: {names}.")
        )


def hash_of(call: ToolCall, result: str) -> int:
    """Returns a hash of a tool call's arguments and result; equal hashes show a repeated call."""
    return hash((repr(sorted(call.arguments.items(), key=str)), result))


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _overflow(how: str) -> CandidateError:
    return CandidateError(f"the dialogue is too long: {how}", reason="context_overflow")
