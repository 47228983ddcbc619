"""Replies from a file instead of a model: for tests and for trying prompts by hand.

JSON lines, each with a pattern of conversation names and a reply:

    {"conversation": "g*/c*/reviewer", "reply": {"content": "fine"}}
    {"conversation": "g0/analyst", "reply": {"tool_calls": [{"name": "finish", "arguments": {}}]}}

Turn n of a conversation gets the n-th line whose pattern fits its name. So a resumed run goes on
where it stopped, and the order in which threads ask does not matter. `reply` may also state `stop`,
`reasoning`, `usage` (without it, four characters count as a token) and the calls' `id`s.

Does not cover: replies that depend on the question. A script without a line for a turn is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from meta_agent.core.chat import ChatReply, ChatRequest, ToolCall, Usage
from meta_agent.core.errors import ConfigError
from meta_agent.llm_clients.asking._digest import canonical

_FIELDS: Final = frozenset({"content", "tool_calls", "stop", "reasoning", "usage"})
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Script:
    """Replies from a file, used in place of a model; each has a pattern for conversation names."""

    path: Path
    lines: Sequence[tuple[str, Mapping[str, Any]]]  # pattern, reply

    @classmethod
    def load(cls, path: Path) -> Script:
        """Reads replies from a file of JSON lines. Raises ConfigError if it cannot be read."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"the scripted replies {path} cannot be read: {reason}",
                hint="use --meta-model scripted:FILE, where FILE holds JSON lines",
            ) from error
        numbered = enumerate(text.splitlines(), start=1)
        return cls(path, [_line(path, n, line) for n, line in numbered if line.strip()])

    def chat(self, request: ChatRequest, conversation: str, turn: int) -> ChatReply:
        """Returns the reply for a conversation's turn. Raises ConfigError if the file has none."""
        fitting = [reply for pattern, reply in self.lines if fnmatchcase(conversation, pattern)]
        if turn >= len(fitting):
            raise ConfigError(
                f"{self.path} has {len(fitting)} replies for the conversation {conversation}, "
                f"but turn {turn} needs one more",
                hint=f'add a line {{"conversation": "{conversation}", "reply": {{...}}}}',
            )
        return _reply(fitting[turn], canonical([dict(m) for m in request.messages]), turn)


def _line(path: Path, number: int, text: str) -> tuple[str, Mapping[str, Any]]:
    try:
        value = json.loads(text)
        pattern, reply = value["conversation"], value["reply"]
        unknown = {*value} - {"conversation", "reply"} | {*reply} - _FIELDS
        if unknown or not isinstance(pattern, str):
            raise ValueError(
                "remove or fix the unknown field or pattern: "
                f"{', '.join(sorted(unknown)) or pattern!r}"
            )
        _reply(reply, "", 0)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"line {number} of {path} is not a scripted reply: {type(error).__name__} {error}",
            hint='write it like {"conversation": "g0/analyst", "reply": {"content": "..."}}',
        ) from error
    return pattern, reply


def _reply(value: Mapping[str, Any], question: str, turn: int) -> ChatReply:
    calls = tuple(
        ToolCall(call.get("id", f"call_{turn}_{number}"), call["name"], dict(call["arguments"]))
        for number, call in enumerate(value.get("tool_calls", ()))
    )
    stop = value.get("stop", "tool_calls" if calls else "stop")
    if stop not in ("stop", "tool_calls", "length", "refusal"):
        raise ValueError(f"stop is {stop!r}; use stop, tool_calls, length or refusal")
    counted = {"input_tokens": _tokens(question), "output_tokens": _tokens(canonical(value))}
    return ChatReply(
        content=str(value.get("content", "")),
        stop=stop,
        usage=Usage(**(value.get("usage") or counted)),
        model="scripted",
        tool_calls=calls,
        reasoning=str(value.get("reasoning", "")),
    )


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
