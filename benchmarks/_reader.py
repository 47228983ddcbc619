"""A stand-in for the models of a team that reads like a careful engineer and counts every prompt.

It answers through the same `ModelClient` as any model, so what it is shown is what a model would be
shown. Its proposals are never handed in: only the sizes of prompts are wanted.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meta_agent.models.chat import ChatReply, ChatRequest, ToolCall, Usage
from meta_agent.protocols import Message

_PAGES: Final = ("report.md", "metrics.csv", "training.csv", "exemplars.md", "rollouts/index.csv")
_SOURCES: Final = {
    "scaffold": "swe/agent.py",
    "reward": "swe/reward.py",
    "recipe": "swe/recipe.toml",
}
_READING: Final = frozenset({"read_file", "view", "search", "list_files"})
_LISTED: Final = re.compile(r"^- .*:\n  - evidence/(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """One call: its text without fetched evidence, that evidence, and whether the role reads it."""

    kept: str
    fetched: str
    reads: bool


class Reader:
    """Implements `chat.ModelClient`."""

    def __init__(self, evidence: Mapping[str, bytes]) -> None:
        self.asked: list[Asked] = []
        exemplars = evidence["exemplars.md"].decode()
        self._rollouts = _LISTED.findall(exemplars)
        self._quoted = evidence["metrics.csv"].decode().split("\n")[1]
        self._lock = threading.Lock()  # guards `asked`: proposers ask side by side

    def chat(self, request: ChatRequest, *, conversation: str, turn: int) -> ChatReply:
        """Counts the prompt, and goes on reading."""
        with self._lock:
            self.asked.append(_counted(request))
        name, arguments = self._next(request, turn)
        call = ToolCall(f"call{turn}", name, arguments)
        return ChatReply("", "tool_calls", Usage(1, 1), "reader", (call,))

    def _next(self, request: ChatRequest, turn: int) -> tuple[str, dict[str, Any]]:
        tools = {tool.name for tool in request.tools}
        if "submit_hypotheses" in tools:
            paths = [f"evidence/{path}" for path in (*_PAGES, *self._rollouts)]
            if turn < len(paths):
                return "read_file", {"path": paths[turn]}
            return "submit_hypotheses", {"hypotheses": [self._idea(f) for f in _SOURCES]}
        if "finish" in tools:
            paths = [*_SOURCES.values(), "evidence/report.md", f"evidence/{self._rollouts[0]}"]
            return ("view", {"path": paths[turn]}) if turn < len(paths) else _FINISH
        return "decide", {"approve": True}

    def _idea(self, factor: str) -> dict[str, Any]:
        return {
            "factor": factor,
            "statement": f"If the {factor} changes, then more attempts are clean successes.",
            "metric": "clean_success",
            "direction": "up",
            "expected_delta": 0.1,
            "evidence": [{"path": "evidence/metrics.csv", "line": 2, "quote": self._quoted}],
            "plan": "",
        }


_FINISH: Final[tuple[str, dict[str, Any]]] = ("finish", {"subject": "what was read"})


def _counted(request: ChatRequest) -> Asked:
    reads = any(tool.name in _READING for tool in request.tools)
    from_evidence = _evidence_calls(request)
    kept, fetched = [json.dumps([_plain(tool) for tool in request.tools])], []
    for message in request.messages:
        place = fetched if message.get("tool_call_id") in from_evidence else kept
        place.append(_text(message))
    wants = any(tool.name in ("submit_hypotheses", "finish") for tool in request.tools)
    return Asked("\n".join(kept), "\n".join(fetched), reads and wants)


def _evidence_calls(request: ChatRequest) -> set[str]:
    calls = [call for message in request.messages for call in message.get("tool_calls") or ()]
    return {call["id"] for call in calls if "evidence/" in call["function"]["arguments"]}


def _plain(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _text(message: Message) -> str:
    return f"{message.get('content') or ''}{json.dumps(message.get('tool_calls') or '')}"
