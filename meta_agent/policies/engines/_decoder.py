"""The sampling copy of a model: the same weights, cheaper for a few rows with one new token each.

The copy shares the tensors of the model that is trained and differs in its linear layers. Weights
that are trained in float32 are cast to bfloat16 once for a rollout event, not in every call. An
adapter is two products beside the weights, since merging would round it away in bfloat16.
Keys and values are stored with room for the tokens to come (`RoomyLayer`), so that a token is
written in place. Other kinds of layers (sliding windows, linear attention) keep transformers' own.
Promises: log-probabilities agree with those of the training pass as far as its precision goes.
Not covered: which token is drawn (`_sampling`), and adapters other than LoRA.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, takewhile
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

_LEAST_ROOM: Final = 64
"""The least number of tokens that a layer's room grows by."""
_LEAST_SHARED: Final = 16
"""A shorter common prefix of contexts is not worth a forward pass of its own."""


class Decoder:
    """A copy of a transformers language model that shares its weights and samples faster."""

    def __init__(self, model: Any, *, bfloat16: bool) -> None:
        self._model, self._bfloat16 = model, bfloat16
        self._shares = True  # whether rows can share what they begin with
        shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
        self._copy = copy.deepcopy(model, shared).eval()
        self._linears: dict[str, _Linear] = {}
        for name, module in list(self._copy.named_modules()):
            if type(module) is nn.Linear:
                self._linears[name] = linear = _Linear(module)
                self._copy.set_submodule(name, linear)

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    def refresh(self) -> None:
        """Reads the model's weights and adapters again; call it after each training step."""
        modules = dict(self._model.named_modules())
        for name, linear in self._linears.items():
            linear.read(modules[name], torch.bfloat16 if self._bfloat16 else None)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Switches gradients off in the `with` block, and autocasts if built with `bfloat16`."""
        with (
            torch.no_grad(),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self._bfloat16),
        ):
            yield

    def prefill(self, contexts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Any]:
        """Runs the model on one context (token ids) per row; their common prefix is computed once.

        Returns next-token logits `[rows, vocabulary]`, padding mask `[rows, tokens]` and KV cache.
        """
        start, cache = self._read_prefix(contexts)
        ids, mask = _left_pad([context[start:] for context in contexts], self.device)
        mask = torch.cat((mask.new_ones(len(contexts), start), mask), 1)
        logits, cache = self._forward(ids, mask, cache)
        return logits, mask, cache

    def _read_prefix(self, contexts: Sequence[Sequence[int]]) -> tuple[int, Any]:
        """Returns the length of the contexts' common prefix and its cache, or 0 and None.

        A row keeps at least one token. In a layer with a sliding window, the padding that follows
        the prefix would push it out of the window, so models with such layers read all rows whole.
        """
        length = _common_prefix(contexts)
        if not self._shares or length < _LEAST_SHARED:
            return 0, None
        ids, mask = _left_pad([contexts[0][:length]], self.device)
        _, cache = self._forward(ids, mask, None)
        self._shares = all(type(layer) is DynamicLayer for layer in cache.layers)
        if not self._shares:
            return 0, None
        cache.batch_repeat_interleave(len(contexts))
        return length, cache

    def step(self, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Adds one token per row to the KV cache; returns next-token logits `[rows, vocabulary]`.

        `mask` is the padding mask over all tokens in the cache, the new ones included.
        """
        return self._forward(ids[:, None], mask, cache)[0]

    def _forward(self, ids: Tensor, mask: Tensor, cache: Any) -> tuple[Tensor, Any]:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output = self._copy(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float(), output.past_key_values


def spread(cache: Any, rows: Tensor) -> None:
    """Makes row `i` of the KV cache a copy of its row `rows[i]`, with room for further tokens."""
    for at, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer:
            cache.layers[at] = RoomyLayer(layer.keys[rows], layer.values[rows])
        else:
            layer.batch_select_indices(rows)


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, `[rows, heads, tokens, width]`, with room for more tokens."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys: Tensor
        self.values: Tensor
        self._make_room(keys, values)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        rows, _, start, _ = self.keys.shape
        end = start + key_states.shape[2]
        if end > self._room[0].shape[2]:
            self._make_room(self.keys, self.values)
        for room, states in zip(self._room, (key_states, value_states), strict=True):
            room[:rows, :, start:end] = states
        self.keys, self.values = (room[:rows, :, :end] for room in self._room)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps only the rows at `indices` of the keys and values, in that order."""
        moved = (indices != torch.arange(len(indices), device=indices.device)).nonzero()[:, 0]
        for states in (self.keys, self.values):
            states[moved] = states[indices[moved]]
        self.keys, self.values = self.keys[: len(indices)], self.values[: len(indices)]

    def _make_room(self, keys: Tensor, values: Tensor) -> None:
        tokens = keys.shape[2]
        self._room = []
        for states in (keys, values):
            rows, heads, _, width = states.shape
            room = states.new_empty(rows, heads, tokens + max(tokens // 2, _LEAST_ROOM), width)
            room[:, :, :tokens] = states
            self._room.append(room)
        self.keys, self.values = (room[:, :, :tokens] for room in self._room)


class _Linear(nn.Module):  # type: ignore[misc]
    """A linear layer with its adapter, if there is one."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight, self._bias = linear.weight.detach(), linear.bias
        self._adapter: tuple[Tensor, Tensor] | None = None  # down, up

    def read(self, linear: Any, dtype: torch.dtype | None) -> None:
        base = getattr(linear, "base_layer", linear)
        dtype = dtype or base.weight.dtype
        self._weight = base.weight.detach().to(dtype)
        self._bias = None if base.bias is None else base.bias.detach().to(dtype)
        for name in getattr(linear, "active_adapters", ()):
            down, up = linear.lora_A[name].weight.detach(), linear.lora_B[name].weight.detach()
            self._adapter = down.to(dtype), (up * linear.scaling[name]).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.linear(x, self._weight, self._bias)
        if self._adapter is None:
            return out
        down, up = self._adapter
        columns = functional.linear(x, down).flatten(0, -2)
        return torch.addmm(out.flatten(0, -2), columns, up.t()).view_as(out)


def _common_prefix(contexts: Sequence[Sequence[int]]) -> int:
    """Returns how many tokens all contexts begin with, less than the shortest has; 0 for one."""
    if len(contexts) < 2:
        return 0
    columns = zip(*contexts, strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))
    return min(shared, min(map(len, contexts)) - 1)


def _left_pad(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows)
    ids = [[0] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
