"""Generation with any causal LM of transformers, with the same sessions and the same sampling.

Promises: a conversation grows by messages (`conversation`): past ids stay, and only new messages
are rendered. A template that cannot append a turn is refused when the engine is made. If it cannot
render one conversation, that attempt fails. Random numbers are keyed as in the nano engine, so they
do not depend on the order of requests. It is fast because equal contexts are read once, rows that
have stopped leave the batch, and a copy of the model samples (`_decoder`).
Not covered: a cache between calls. Each call reads its whole context again; a GPU server such as
vLLM is the gateway to use at scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import GenerateReply, GenerateRequest, TokenRecord
from meta_agent.policies.engines._decoder import Decoder, spread
from meta_agent.policies.engines._sampling import Draws, Watch, watch_nothing
from meta_agent.policies.engines.conversation import Rendering
from meta_agent.policies.engines.talks import HfTalks

MAX_BATCH_ROWS = 64
_NO_LIMIT = 1 << 30


class _Call(NamedTuple):
    place: int
    request: GenerateRequest
    ids: list[int]
    budget: int


class HfEngine:
    """Samples replies from a transformers model, and holds the conversations of all rollouts."""

    def __init__(self, model: Any, tokenizer: Any, *, bfloat16: bool = False) -> None:
        self.talks = talks_of(tokenizer, model.generation_config, model.config)
        self._decoder = Decoder(model, bfloat16=bfloat16)
        self._stale = True  # whether the model's weights are read before the next call

    def refresh(self) -> None:
        """Makes the next call read the weights again, after a training step changed them."""
        self._stale = True

    def generate(
        self, requests: Sequence[GenerateRequest], watch: Watch = watch_nothing
    ) -> list[GenerateReply]:
        """Returns the next reply of each request's rollout, in the order of the requests.

        `watch` is called between two tokens; if `watch` raises an error, the call ends with it.
        """
        replies: dict[int, GenerateReply] = {}
        calls = []
        for index, request in enumerate(requests):
            prompt = self.talks.ask(request)
            if isinstance(prompt, GenerateReply):
                replies[index] = prompt
            else:
                calls.append(_Call(index, request, *prompt))
        if self._stale:
            self._decoder.refresh()
            self._stale = False
        with self._decoder.computing():
            for start in range(0, len(calls), MAX_BATCH_ROWS):
                replies |= self._run(calls[start : start + MAX_BATCH_ROWS], watch)
        return [replies[index] for index in range(len(requests))]

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends the rollouts `keys`; returns each one's tokens, or None if none were sampled."""
        return self.talks.finish(keys)

    def _run(self, calls: list[_Call], watch: Watch) -> dict[int, GenerateReply]:
        rows = zip(calls, self._sample(calls, watch), strict=True)
        return {call.place: self.talks.settle(call.request, *tokens) for call, tokens in rows}

    def _sample(self, calls: list[_Call], watch: Watch) -> list[tuple[list[int], list[float]]]:
        """Decodes in lock-step until every row has stopped."""
        device = self._decoder.device
        draws = Draws(
            [call.request for call in calls],
            [call.budget for call in calls],
            self.talks.stops,
            device,
            watch,
        )
        places: dict[tuple[int, ...], int] = {}  # of equal contexts
        rows = torch.tensor(
            [places.setdefault(tuple(call.ids), len(places)) for call in calls], device=device
        )
        logits, mask, cache = self._decoder.prefill(list(places))
        spread(cache, rows)
        logits, mask = logits[rows], mask[rows]
        while True:
            ids = draws.take(logits)
            if not draws.going.any():
                return draws.sampled
            if not draws.going.all():
                index = draws.keep(_closed_up(draws.going))
                cache.batch_select_indices(index)
                ids, mask = ids[index], mask[index]
            mask = torch.cat((mask, mask.new_ones(len(ids), 1)), 1)
            logits = self._decoder.step(ids, mask, cache)


def _closed_up(going: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the places of the rows that sample on: the last such rows move into the gaps."""
    count = int(going.sum())
    order = np.arange(count)
    order[~going[:count]] = count + np.flatnonzero(going[count:])
    return order


def talks_of(tokenizer: Any, generation: Any, config: Any) -> HfTalks:
    """Returns the object that builds prompts and parses replies for a transformers model.

    Raises ConfigError if the tokenizer's chat template cannot append a message to a conversation.
    """
    rendering = Rendering(tokenizer, stop_ids(generation, tokenizer))
    try:
        rendering.require("user")
    except ValueError as error:
        raise ConfigError(
            f"with the chat template of {tokenizer.name_or_path or 'this model'} no turn can be "
            f"appended to a conversation: {error}",
            hint="give the folder another chat_template.jinja, or use another model",
        ) from error
    return HfTalks(rendering, getattr(config, "max_position_embeddings", None) or _NO_LIMIT)


def stop_ids(generation: Any, tokenizer: Any) -> frozenset[int]:
    """Returns the ids that end a reply: the tokenizer's and the generation config's eos tokens."""
    declared = getattr(generation, "eos_token_id", None)
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)
