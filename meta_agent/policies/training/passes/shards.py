"""Sharded weights: each rank holds a part by torch's `fully_shard` (FSDP2).

Promises: saved weights are whole, so a seal or checkpoint does not show how it was trained. Weights
read from a seal are sharded again.

Not covered: sampling with sharded weights. Rank 0 has a whole model for that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Shards:
    """A model's weights split among ranks. Rank 0 also has a whole copy to sample with."""

    def __init__(self, whole: Any | None) -> None:
        self.whole = whole  # None: elsewhere

    def split(self, model: Any) -> None:
        """Splits every weight of the model, so that this rank holds only its part."""
        from torch.distributed.fsdp import fully_shard

        kinds = set(model._no_split_modules or ())
        for module in list(model.modules()):
            if type(module).__name__ in kinds:
                fully_shard(module)
        fully_shard(model)

    def gather(self, model: Any) -> None:
        """Copies the trained weights into rank 0's whole model. All ranks call this together."""
        from torch.distributed.tensor import DTensor

        into = dict(self.whole.named_parameters()) if self.whole is not None else {}
        with torch.no_grad():
            for name, part in model.named_parameters():
                if part.requires_grad:
                    value = part.full_tensor() if isinstance(part, DTensor) else part
                    if into:
                        into[name].copy_(value)

    @staticmethod
    def keep_whole(optimizer: Any) -> None:
        """Makes an optimizer save the state of all ranks, and load its own part of such a state.

        All ranks must save and load together.
        """
        optimizer.register_state_dict_post_hook(lambda _, state: _whole(state))
        optimizer.register_load_state_dict_pre_hook(_split_state)


def _whole(tensors: Any) -> Any:
    from torch.distributed.tensor import DTensor

    if isinstance(tensors, DTensor):
        return tensors.full_tensor()
    if isinstance(tensors, dict):
        return {key: _whole(value) for key, value in tensors.items()}
    return [_whole(value) for value in tensors] if isinstance(tensors, list) else tensors


def _split_state(optimizer: Any, whole: dict[str, Any]) -> dict[str, Any]:
    from torch.distributed.tensor import DTensor, distribute_tensor

    like = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = [name for group in whole["param_groups"] for name in group["params"]]

    def part(value: Any, of: Any) -> Any:
        if not isinstance(value, Tensor) or not isinstance(of, DTensor) or value.shape != of.shape:
            return value
        return distribute_tensor(value.to(of.device), of.device_mesh, of.placements)

    state = {
        name: {key: part(value, of) for key, value in whole["state"][name].items()}
        for name, of in zip(names, like, strict=True)
        if name in whole["state"]
    }
    return {**whole, "state": state}
