"""The shipped scaffolds as trees, a policy that says what a script says, and the runner between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import (
    Domain,
    GenerateReply,
    GenerateRequest,
    HarnessTree,
    PlannedRollout,
    Rollout,
    TokenRecord,
)
from meta_agent.core.resources import shipped_harness
from meta_agent.core.rollouts import Runner, Stamp


def shipped(name: str) -> HarnessTree:
    """A chat harness as it ships."""
    return HarnessTree("c0ffee", "7ree", shipped_harness(f"chat/{name}"))


class Cut(str):
    """A reply that was cut at its length limit."""


class Scripted:
    """Says what the script says, turn by turn, and keeps what it was asked."""

    policy = "scripted@test"
    lock_step = False

    def __init__(self, script: Sequence[Any]) -> None:
        self.script = script
        self.asked: list[GenerateRequest] = []

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        self.asked += requests
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerateRequest) -> GenerateReply:
        said = self.script[min(request.turn, len(self.script) - 1)]
        if isinstance(said, str):
            return GenerateReply(str(said), "length" if isinstance(said, Cut) else "stop", 100, 20)
        return GenerateReply("", "tool_calls", 100, 20, tool_calls=said)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None for _ in keys]


class Play:
    """Rolls one script out on the first search task of a domain."""

    def __init__(self, domain: Domain, session: HarnessSession) -> None:
        self.domain, self.session = domain, session

    def __call__(self, *script: Any) -> tuple[Rollout, Scripted]:
        gateway = Scripted(script)
        stamp = Stamp("r", "v", "c0ffee")
        runner = Runner(self.domain, self.session, gateway, stamp, concurrency=1)
        (row,) = runner.run([PlannedRollout(self.domain.tasks("search")[0], 0, 7, "g0")])
        return row, gateway


def call(name: str, call_id: str = "c1", **arguments: Any) -> list[dict[str, Any]]:
    """A native tool call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"id": call_id, "type": "function", "function": function}]


def broken_call(name: str) -> list[dict[str, Any]]:
    """One whose arguments are not JSON."""
    return [{"id": "c1", "type": "function", "function": {"name": name, "arguments": "{"}}]


def write_rows(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
