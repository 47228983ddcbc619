"""Says by pass whether a model's layers keep their activations or compute them again."""

from __future__ import annotations

from typing import Any

from meta_agent.policies.training.passes.chunks import Chunk


class Recomputing:
    """Switches gradient checkpointing off for passes whose activations fit in memory."""

    def __init__(self, kept_tokens: int) -> None:
        """A pass of at most `kept_tokens` tokens keeps its activations."""
        self._kept_tokens = kept_tokens
        self._layers: list[Any] | None = None

    def prepare(self, model: Any, chunk: Chunk) -> None:
        """Sets the layers of `model` up for the pass of a chunk."""
        if self._layers is None:
            self._layers = [
                layer
                for layer in model.modules()
                if getattr(layer, "gradient_checkpointing", False)
            ]
        for layer in self._layers:
            layer.gradient_checkpointing = chunk.ids.numel() > self._kept_tokens
