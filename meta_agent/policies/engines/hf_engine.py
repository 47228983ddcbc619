"""Generation with any causal LM of transformers, with the same sessions and the same sampling.

Promises: a conversation grows by messages (`conversation`): past ids stay, and only new messages
are rendered. A template that cannot append a turn is refused when the engine is made. If it
cannot render one conversation, that attempt fails. Random numbers are keyed as in the nano
engine.

Not covered: speed beyond batching. Each call runs its whole context again (nothing is cached
between calls); a GPU server such as vLLM is the gateway to use at scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import GenerateReply, GenerateRequest, TokenRecord
from meta_agent.policies.engines._sampling import Knobs, sample, stream_keys, uniforms
from meta_agent.policies.engines.conversation import Rendering
from meta_agent.policies.engines.talks import HfTalks

MAX_BATCH_ROWS = 64
_NO_LIMIT = 1 << 30


class _Call(NamedTuple):
    place: int
    request: GenerateRequest
    ids: list[int]
    budget: int


class _Drawn(NamedTuple):
    ids: list[int]
    logprobs: list[float]


class HfEngine:
    """Sessions over a transformers model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._talks = talks_of(tokenizer, model.generation_config, model.config)

    def refresh(self) -> None:
        """Does nothing: the engine uses the model's own parameters."""

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        """Answers one model call of each of these rollouts, in the order asked."""
        replies: dict[int, GenerateReply] = {}
        calls = []
        for index, request in enumerate(requests):
            prompt = self._talks.ask(request)
            if isinstance(prompt, GenerateReply):
                replies[index] = prompt
            else:
                calls.append(_Call(index, request, *prompt))
        with _inference(self._model):
            for start in range(0, len(calls), MAX_BATCH_ROWS):
                replies |= self._run(calls[start : start + MAX_BATCH_ROWS])
        return [replies[index] for index in range(len(requests))]

    def finish(self, keys: Sequence[str]) -> list[TokenRecord | None]:
        """Ends these rollouts and returns their token rows."""
        return self._talks.finish(keys)

    def _run(self, calls: list[_Call]) -> dict[int, GenerateReply]:
        rows = zip(calls, self._sample(calls), strict=True)
        return {call.place: self._talks.settle(call.request, *drawn) for call, drawn in rows}

    def _sample(self, calls: list[_Call]) -> list[_Drawn]:
        """Left-pads the contexts and decodes in lock-step until every row has stopped."""
        drawn = [_Drawn([], []) for _ in calls]
        keys = stream_keys([call.request for call in calls])
        device = self._model.device
        knobs = Knobs.of([call.request for call in calls]).to(device)
        budgets = np.array([call.budget for call in calls])
        ids, mask = _left_pad([call.ids for call in calls], device)
        past, going, step = None, np.ones(len(calls), dtype=bool), 0
        while going.any():
            logits, past = self._forward(ids, mask, past)
            token = sample(logits, knobs, uniforms(keys, step))
            step += 1
            _append(drawn, going, token.ids.tolist(), token.logprobs.tolist())
            stopped = np.isin(token.ids.cpu().numpy(), list(self._talks.stops))
            going &= ~stopped & (budgets > step)
            ids = token.ids[:, None]
            mask = torch.cat((mask, mask.new_ones(len(calls), 1)), 1)
        return drawn

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, past: Any
    ) -> tuple[torch.Tensor, Any]:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=past,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1].float(), out.past_key_values


def talks_of(tokenizer: Any, generation: Any, config: Any) -> HfTalks:
    """Returns the conversations with a model, by the files of its folder.

    Raises ConfigError if its template cannot append a turn.
    """
    rendering = Rendering(tokenizer, stop_ids(generation, tokenizer))
    try:
        rendering.require("user")
    except ValueError as error:
        raise ConfigError(
            f"with the chat template of {tokenizer.name_or_path or 'this model'} no turn can "
            f"be appended to a conversation: {error}",
            hint="give the folder another chat_template.jinja, or use another model",
        ) from error
    return HfTalks(rendering, getattr(config, "max_position_embeddings", None) or _NO_LIMIT)


def stop_ids(generation: Any, tokenizer: Any) -> frozenset[int]:
    """Returns every id that ends a reply: the tokenizer's eos and those the model declares."""
    declared = getattr(generation, "eos_token_id", None)
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)


def _append(drawn: list[_Drawn], going: Any, ids: list[int], logprobs: list[float]) -> None:
    for row, live in enumerate(going):
        if live:
            drawn[row].ids.append(ids[row])
            drawn[row].logprobs.append(logprobs[row])


def _left_pad(rows: list[list[int]], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(row) for row in rows)
    ids = [[0] * (width - len(row)) + row for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@contextmanager
def _inference(model: Any) -> Iterator[None]:
    """Evaluation mode for the call only: a model left in it sends TRL's metrics to 'eval'."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
