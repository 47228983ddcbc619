"""The seed harness as a tree, and a policy that says what a script says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meta_agent.core.protocols import GenerateReply, GenerateRequest, HarnessTree, TokenRecord
from meta_agent.core.resources import shipped_harness


def harness_tree() -> HarnessTree:
    return HarnessTree("c0ffee", "7ree", shipped_harness("chat/swe"))


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
            return GenerateReply(said, "stop", 100, 20)
        return GenerateReply("", "tool_calls", 100, 20, tool_calls=said)

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        return [None for _ in keys]
