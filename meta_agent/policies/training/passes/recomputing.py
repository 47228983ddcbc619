"""Says by pass whether a model's layers keep their activations or compute them again."""

from __future__ import annotations

from typing import Any


class Recomputing:
    """Switches gradient checkpointing off for passes whose activations fit in memory."""

    def __init__(self, kept_tokens: int) -> None:
        """A pass of at most `kept_tokens` tokens keeps its activations."""
        self._kept_tokens = kept_tokens
        self._layers: list[Any] | None = None

    def keeps(self, tokens: int) -> bool:
        """Returns True if a pass of so many tokens, padding included, keeps its activations."""
        return tokens <= self._kept_tokens

    def prepare(self, model: Any, tokens: int) -> None:
        """Sets the layers of `model` up for a pass of so many tokens."""
        if self._layers is None:
            self._layers = [
                layer
                for layer in model.modules()
                if getattr(layer, "gradient_checkpointing", False)
            ]
        for layer in self._layers:
            layer.gradient_checkpointing = not self.keeps(tokens)
