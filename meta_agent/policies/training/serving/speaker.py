"""Conversations with an `hf:` policy whose weights an engine elsewhere holds.

Why a child: transformers imports torch where that is installed, TRL's patterns for tool calls do
always, and a chat template is a stranger's program that is rendered in a fork. The host has none of
them. It is the policy child's program, without weights; and it is another one than the child that
trains, which is busy while rollouts are made ahead.

Promises: what `models.engines.talks.Talks` does, one call at a time; a child that died is a
`TrainingError`, so its attempts are infrastructure's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meta_agent.core.protocols import GenerateReply, GenerateRequest
from meta_agent.policies.engines.talks import Asked
from meta_agent.policies.training import _wire
from meta_agent.policies.training.policy import PolicyChild, place_of


class Speaker(PolicyChild):
    """A policy child that has a tokenizer and no weights; implements `Talks`."""

    stops: frozenset[int] = frozenset()

    def load(self, policy: str | Path) -> str:
        """Reads a checkpoint's (or `hf:PATH`'s) tokenizer; returns (and keeps) its identity."""
        path, foreign = place_of(policy)
        command = {"op": "speak", "path": str(path), "foreign": foreign}
        answer = self._ask(command, self._timeouts.load_sec)
        self.policy = self._parse("speak", lambda value: str(value["policy"]), answer)
        self.stops = self._parse("speak", lambda value: frozenset(map(int, value["stops"])), answer)
        return self.policy

    def ask(self, request: GenerateRequest) -> Asked | GenerateReply:
        """What a call asks for, or its answer where nothing is to be sampled."""
        command = {"op": "ask", "request": _wire.request_to_json(request)}
        answer = self._ask(command, self._timeouts.generate_sec)
        return self._parse("ask", _wire.prompt_from_json, answer)

    def settle(
        self, request: GenerateRequest, ids: list[int], logprobs: Sequence[float | None]
    ) -> GenerateReply:
        """The answer to a call, from what was drawn."""
        command = {"op": "settle", "request": _wire.request_to_json(request), "ids": ids}
        answer = self._ask({**command, "logprobs": list(logprobs)}, self._timeouts.generate_sec)
        return self._parse("reply", _wire.reply_from_json, answer)
