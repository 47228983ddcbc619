"""What a pass computes of a chunk: the log-probabilities of its scored tokens, and no others.

TRL's fused head projects every position onto the vocabulary unless it runs in Triton. The head has
28 of the 135 million weights of SmolLM2, and nothing of a prompt is scored. A hook on the backbone
gives the head the scored positions alone.

`Beginning` computes the tokens that all rows of a step share once, for all its chunks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from meta_agent.policies.training.passes.chunks import Chunk


def score_chunk(model: Any, chunk: Chunk, **inputs: Any) -> Any:
    """Returns TRL's output for a chunk. Its tensors, such as `log_probs`, have the shape [scored].

    They are in the order of `chunk.scored`. `inputs` are further arguments of the model.
    """
    labels = chunk.labels[:, 1:][chunk.scored]
    hook = _backbone(model).register_forward_hook(lambda *call: _only_scored(call[2], chunk))
    try:
        out = model(
            input_ids=chunk.ids,
            shift_labels=labels[None],
            fused_lm_head=True,
            **chunk.inputs,
            **inputs,
        )
    finally:
        hook.remove()
    out.log_probs = out.log_probs[0]
    out.entropy = out.entropy[0] if out.entropy is not None else None
    return out


def _backbone(model: Any) -> Any:
    """Returns the part of a causal language model below its head."""
    inside = getattr(model, "module", model)  # of a wrapper that spreads it over devices
    inside = inside.get_base_model() if hasattr(inside, "get_base_model") else inside
    return inside.base_model


def _only_scored(output: Any, chunk: Chunk) -> Any:
    output.last_hidden_state = output.last_hidden_state[:, :-1][chunk.scored][None]
    return output


class Beginning:
    """Keys and values of the tokens that begin every row of a step, with their gradient.

    `score_chunk` takes a chunk that was `cut`, and its `keys`, in place of the whole chunk. The
    gradients of all chunks go back through these tokens at once, by `go_back`.
    """

    def __init__(self, model: Any, ids: Tensor) -> None:
        """Computes `ids` [tokens], the first of each packed row of each chunk."""
        cache = _backbone(model)(input_ids=ids[None], use_cache=True).past_key_values
        self._length = len(ids)
        self._computed = [(layer.keys, layer.values) for layer in cache.layers]
        self._leaves = [
            (keys.detach().requires_grad_(), values.detach().requires_grad_())
            for keys, values in self._computed
        ]

    def cut(self, chunk: Chunk) -> Chunk:
        """Returns a packed chunk without these tokens."""
        rest = slice(self._length, None)
        inputs = {
            "position_ids": chunk.inputs["position_ids"][:, rest],
            "attention_mask": chunk.inputs["attention_mask"][:, :, rest],
        }
        return chunk._replace(
            ids=chunk.ids[:, rest],
            labels=chunk.labels[:, rest],
            scored=chunk.scored[:, rest],
            inputs=inputs,
        )

    def keys(self, chunk: Chunk) -> dict[str, Any]:
        """Returns the model's argument that puts these tokens before each row of a chunk."""
        rows = len(chunk.ids)
        pairs = ((k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in self._leaves)
        return {"past_key_values": DynamicCache(list(pairs))}

    def go_back(self) -> None:
        """Adds the gradient of all chunks, by way of these tokens, to that of the weights."""
        computed = [tensor for pair in self._computed for tensor in pair]
        gradients = [tensor.grad for pair in self._leaves for tensor in pair]
        torch.autograd.backward(computed, gradients)
