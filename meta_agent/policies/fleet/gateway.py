"""The vLLM servers of this project as the policy: the `Gateway` for a training and its evaluation.

Promises: a conversation grows as in the policy child (`engines.talks`), so rows are alike. A
rollout stays on its engine. A call that fails or stalls is a failure of kind `infra`. The time
limit of a call (`patience_sec`) is long, since a slow engine is not the policy's fault.
Not covered: repeating lost attempts (the runner of the plan does), and publishing (`fleet`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from meta_agent.core.errors import InfrastructureError, ProviderError
from meta_agent.core.protocols import GenerateReply, GenerateRequest, RolloutFailure, TokenRecord
from meta_agent.policies.engines.talks import Talks
from meta_agent.policies.fleet.fleet import Fleet

_MAX_THREADS: Final = 64


class EngineGateway:
    """Samples a policy's replies on vLLM servers; `policy` names the version that they serve."""

    lock_step = False

    def __init__(self, fleet: Fleet, talks: Talks, policy: str, context_tokens: int) -> None:
        """`context_tokens` is the length of the longest conversation that these engines hold."""
        self.policy = policy
        self.patience_sec = fleet.patience_sec
        self._fleet, self._talks, self._context_tokens = fleet, talks, context_tokens

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        """Returns one reply for each request, in order; a failed call gives a failed reply.

        Raises ProviderError if all further calls would fail too, as after too many lost engines.
        """
        if len(requests) == 1:
            return [self._answer(requests[0])]
        with ThreadPoolExecutor(min(_MAX_THREADS, len(requests) or 1)) as pool:
            return list(pool.map(self._answer, requests))

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if none were sampled."""
        self._fleet.leave(keys)
        return self._talks.finish(keys)

    def _answer(self, request: GenerateRequest) -> GenerateReply:
        room = min(request.max_context_tokens, self._context_tokens)
        request = replace(request, max_context_tokens=room)
        try:
            prompt = self._talks.ask(request)
            if isinstance(prompt, GenerateReply):
                return prompt
            drawn = self._fleet.draw(prompt, request, self._talks.stops)
            return self._talks.settle(request, drawn.ids, drawn.logprobs)
        except InfrastructureError as error:
            if isinstance(error, ProviderError) and error.halts:
                raise
            failure = RolloutFailure("infra", f"model: {error}")
            return GenerateReply("", "error", 0, 0, failure=failure)
