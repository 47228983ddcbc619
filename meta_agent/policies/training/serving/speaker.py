"""Conversations with an `hf:` policy whose weights an engine elsewhere holds.

They are held in a child process. Transformers and TRL's patterns for tool calls import torch, and a
chat template is a stranger's program that is rendered in a fork. The host loads none of them. The
child runs the policy child's program without weights. It is not the child that trains, which is
busy while rollouts are made ahead.
Promises: it does what `engines.talks.Talks` does, one call at a time. If the child dies, that is a
`TrainingError`, so its attempts fail as infrastructure.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meta_agent.core.protocols import GenerateReply, GenerateRequest
from meta_agent.policies.engines.talks import Asked
from meta_agent.policies.training import _wire
from meta_agent.policies.training.policy import PolicyChild, place_of


class Speaker(PolicyChild):
    """A child process that holds a policy's tokenizer and chat template, but no weights."""

    stops: frozenset[int] = frozenset()

    def load(self, policy: str | Path) -> str:
        """Loads the tokenizer of a checkpoint or of `hf:PATH`. Returns the policy's identity."""
        path, foreign = place_of(policy)
        command = {"op": "speak", "path": str(path), "foreign": foreign}
        answer = self._ask(command, self._timeouts.load_sec)
        self.policy = self._parse("speak", lambda value: str(value["policy"]), answer)
        self.stops = self._parse("speak", lambda value: frozenset(map(int, value["stops"])), answer)
        return self.policy

    def ask(self, request: GenerateRequest) -> Asked | GenerateReply:
        """Returns a context to sample from; an empty reply if messages are too long or invalid."""
        command = {"op": "ask", "request": _wire.request_to_json(request)}
        answer = self._ask(command, self._timeouts.generate_sec)
        return self._parse("ask", _wire.prompt_from_json, answer)

    def settle(
        self, request: GenerateRequest, ids: list[int], logprobs: Sequence[float | None]
    ) -> GenerateReply:
        """Adds sampled token ids to the conversation, and returns them as a parsed reply."""
        command = {"op": "settle", "request": _wire.request_to_json(request), "ids": ids}
        answer = self._ask({**command, "logprobs": list(logprobs)}, self._timeouts.generate_sec)
        return self._parse("reply", _wire.reply_from_json, answer)
