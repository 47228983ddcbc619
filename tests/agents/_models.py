"""A `ModelClient` whose models follow a script, and which records as the real one does.

A script is a list of turns per conversation; a turn is text, a list of calls `(tool, arguments)`,
or a function of the request that gives either. After its last turn a conversation says nothing
more of use. Give `recorded` to a second one and it answers from that record first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_agent.core.chat import ChatReply, ChatRequest, ToolCall, Usage

Call = tuple[str, Mapping[str, Any]]
Say = str | Sequence[Call] | Exception
Turn = Say | Callable[[ChatRequest], Say]
Key = tuple[str, int]


@dataclass
class ScriptedModels:
    script: Mapping[str, Sequence[Turn]]
    recorded: dict[Key, tuple[str, ChatReply]] = field(default_factory=dict)
    tokens: int = 100
    requests: dict[Key, ChatRequest] = field(default_factory=dict)
    live: list[Key] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        key, asked = (conversation, turn), digest(request)
        with self._lock:
            self.requests[key] = request
            known = self.recorded.get(key)
            if known and known[0] == asked:
                return known[1]
            self.live.append(key)
        reply = self._reply(request, conversation, turn)
        with self._lock:
            self.recorded[key] = (asked, reply)
        return reply

    def _reply(self, request: ChatRequest, conversation: str, turn: int) -> ChatReply:
        turns = self.script.get(conversation, ())
        said = turns[turn] if turn < len(turns) else "I have nothing to add."
        said = said(request) if callable(said) else said
        if isinstance(said, Exception):
            raise said
        usage = Usage(input_tokens=self.tokens, output_tokens=10)
        if isinstance(said, str):
            return ChatReply(said, "stop", usage, request.model, usd=0.01)
        calls = tuple(ToolCall(f"t{turn}-{at}", *call) for at, call in enumerate(said))
        return ChatReply("", "tool_calls", usage, request.model, calls, usd=0.01)

    def opening(self, conversation: str) -> str:
        return str(self.requests[conversation, 0].messages[1]["content"])

    def heard(self, conversation: str) -> list[str]:
        """Every tool result that a conversation was sent, in order."""
        last = max(turn for name, turn in self.requests if name == conversation)
        messages = self.requests[conversation, last].messages
        return [str(message["content"]) for message in messages if message["role"] == "tool"]


def digest(request: ChatRequest) -> str:
    tools = [tool.name for tool in request.tools]
    return json.dumps([request.model, request.max_tokens, tools, list(request.messages)])
