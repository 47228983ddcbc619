"""The forward pass of a small Qwen3 model over packed rows and a key-value cache.

Promises: the logits agree with transformers' Qwen3ForCausalLM to 1e-5 in float32 (tested). The
weights are the trainer's own storage: `NanoNet(model)` lays q/k/v and gate/up side by side and
turns the module's parameters into views of them. So an optimiser's in-place update takes effect at
once, and nothing is copied per step.
Not covered: gradients, biases, sliding windows, scaled rotary embeddings, other architectures;
`supports` returns False for those.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor


class _Layer(NamedTuple):
    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor
    norm_in: Tensor
    norm_mid: Tensor
    norm_qk: Tensor  # [2, head_dim]: q_norm, k_norm


class Batch(NamedTuple):
    """The new tokens of all rows: row `i` adds `counts[i]` to its `starts[i]` cached ones."""

    ids: Tensor  # int64 [tokens]
    slots: Tensor  # int64 [rows], where each row's cache lies
    starts: Tensor  # int64 [rows]
    counts: Tensor  # int64 [rows]
    dense: bool  # slots are 0..rows-1, so the cache is read in place
    longest: int  # max(starts + counts)
    widest: int  # max(counts)


class Cache:
    """Cached keys and values of all slots, `[slots, positions, kv_heads * head_dim]` in each layer.

    A slot holds the tokens of one rollout in progress.
    """

    def __init__(self, layers: int, width: int) -> None:
        self.keys = [torch.zeros(0, 0, width) for _ in range(layers)]
        self.values = [torch.zeros(0, 0, width) for _ in range(layers)]

    def reserve(self, slots: int, positions: int) -> None:
        """Grows the cache to at least `slots` slots of `positions` positions; keeps its content."""
        have_slots, have_positions, width = self.keys[0].shape
        if slots <= have_slots and positions <= have_positions:
            return
        shape = (max(slots, have_slots), max(-(-positions // 32) * 32, have_positions), width)
        for stores in (self.keys, self.values):
            for index, old in enumerate(stores):
                stores[index] = new = torch.zeros(shape)
                new[:have_slots, :have_positions] = old

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copies whole slots: the keys and values at `sources` go to `targets`."""
        source, target = torch.tensor(sources), torch.tensor(targets)
        for store in (*self.keys, *self.values):
            store[target] = store[source]

    def copy_prefix(self, sources: Tensor, targets: Tensor, length: int) -> None:
        """Copies the first `length` positions of each source slot to its target slot."""
        for store in (*self.keys, *self.values):
            head = store[:, :length]
            head[targets] = head[sources]


def supports(config: Any) -> bool:
    """Returns True if NanoNet can run a model with this config: plain Qwen3, unscaled RoPE."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "qwen3"
        and not config.attention_bias
        and not getattr(config, "use_sliding_window", False)
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") == "default"
    )


class NanoNet:
    """Runs the weights of a transformers Qwen3 model faster. Raises ValueError for other models."""

    def __init__(self, model: Any) -> None:
        config = model.config
        if not supports(config):
            raise ValueError(
                f"the nano engine cannot run this config (model_type {config.model_type!r}): it "
                "runs plain Qwen3 only; load other models as hf:FOLDER"
            )
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = config.head_dim
        self.max_positions: int = config.max_position_embeddings
        self.vocab: int = config.vocab_size
        self._eps: float = config.rms_norm_eps
        self._model = model
        self._fuse()
        self._cos, self._sin = _rotary(self.max_positions, self.head_dim, config.rope_parameters)

    def new_cache(self) -> Cache:
        """Returns an empty cache for this model."""
        return Cache(len(self._layers), self.kv_heads * self.head_dim)

    def refresh(self) -> None:
        """Reads the transformers model's parameters again if something replaced their storage."""
        if not all(_is_view(layer, block) for layer, block in self._pairs()):
            self._fuse()

    def _fuse(self) -> None:
        body = self._model.model
        self._layers = [_adopt(block) for block in body.layers]
        self._embed, self._norm = body.embed_tokens.weight, body.norm.weight
        self._head = self._model.lm_head.weight

    def _pairs(self) -> zip[tuple[_Layer, Any]]:
        return zip(self._layers, self._model.model.layers, strict=True)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def forward(self, batch: Batch, cache: Cache) -> Tensor:
        """Runs the new tokens and caches their keys and values.

        Returns the logits after each row's last token, `[rows, vocabulary]`.
        """
        plan = _Plan(batch, cache.keys[0].shape[1])
        cos, sin = self._cos[plan.positions, None], self._sin[plan.positions, None]
        hidden = self._embed[batch.ids]
        for index, layer in enumerate(self._layers):
            store = (cache.keys[index], cache.values[index])
            hidden = self._attend(layer, hidden, plan, store, cos, sin)
            hidden = self._mlp(layer, hidden)
        last = hidden if batch.widest == 1 else hidden[batch.counts.cumsum(0) - 1]
        return functional.linear(self._rms(last, self._norm), self._head)

    def _attend(
        self,
        layer: _Layer,
        hidden: Tensor,
        plan: _Plan,
        store: tuple[Tensor, Tensor],
        cos: Tensor,
        sin: Tensor,
    ) -> Tensor:
        split = (self.heads + self.kv_heads) * self.head_dim
        qkv = functional.linear(self._rms(hidden, layer.norm_in), layer.qkv)
        turned = self._turn(qkv[:, :split], layer.norm_qk, cos, sin)
        keys, values = store
        width = keys.shape[2]
        keys.view(-1, width).index_copy_(0, plan.flat, turned[:, self.heads :].flatten(1))
        values.view(-1, width).index_copy_(0, plan.flat, qkv[:, split:])
        attended = self._look(turned[:, : self.heads], keys, values, plan)
        return torch.addmm(hidden, attended, layer.out.t())

    def _turn(self, qk: Tensor, norm_qk: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Normalises and rotates queries and keys together: [tokens, heads + kv_heads, dim]."""
        qk = qk.view(qk.shape[0], -1, self.head_dim)
        scale = torch.cat(
            (norm_qk[:1].expand(self.heads, -1), norm_qk[1:].expand(self.kv_heads, -1))
        )
        qk = functional.rms_norm(qk, (self.head_dim,), None, self._eps) * scale
        return torch.addcmul(qk * cos, qk.roll(self.head_dim // 2, -1), sin)

    def _look(self, queries: Tensor, keys: Tensor, values: Tensor, plan: _Plan) -> Tensor:
        """Attends from packed queries to each row's cache; returns [tokens, heads * dim]."""
        share = self.heads // self.kv_heads
        padded = queries if plan.pad is None else plan.padded(queries)
        rows = padded.shape[0] // plan.widest
        grid = padded.view(rows, plan.widest, self.kv_heads, share, self.head_dim)
        grid = grid.permute(0, 2, 3, 1, 4).reshape(rows, self.kv_heads, -1, self.head_dim)
        attended = functional.scaled_dot_product_attention(
            grid, plan.read(keys, self.kv_heads), plan.read(values, self.kv_heads), plan.mask(share)
        )
        attended = attended.view(rows, self.kv_heads, share, plan.widest, self.head_dim)
        attended = attended.permute(0, 3, 1, 2, 4).reshape(rows * plan.widest, -1)
        return attended if plan.pad is None else attended[plan.pad]

    def _mlp(self, layer: _Layer, hidden: Tensor) -> Tensor:
        gate, up = functional.linear(self._rms(hidden, layer.norm_mid), layer.gate_up).chunk(2, -1)
        return torch.addmm(hidden, functional.silu(gate) * up, layer.down.t())

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self._eps)


class _Plan:
    """The places of a batch's tokens, computed once and used by every layer."""

    def __init__(self, batch: Batch, capacity: int) -> None:
        rows = torch.arange(len(batch.slots)).repeat_interleave(batch.counts)
        ends = batch.counts.cumsum(0)
        within = torch.arange(len(batch.ids)) - (ends - batch.counts)[rows]
        self.positions = batch.starts[rows] + within
        self.flat = batch.slots[rows] * capacity + self.positions
        self.widest = batch.widest
        ragged = len(batch.ids) != len(batch.slots) * batch.widest
        self.pad = rows * batch.widest + within if ragged else None
        self._batch = batch
        self._masks: Tensor | None = None

    def padded(self, queries: Tensor) -> Tensor:
        grid = queries.new_zeros(len(self._batch.slots) * self.widest, *queries.shape[1:])
        return grid.index_copy_(0, self.pad, queries)

    def read(self, store: Tensor, kv_heads: int) -> Tensor:
        """Returns the rows' cached keys or values in `store`, `[rows, kv_heads, longest, dim]`."""
        batch = self._batch
        window = store[:, : batch.longest]
        window = window[: len(batch.slots)] if batch.dense else window.index_select(0, batch.slots)
        return window.unflatten(2, (kv_heads, -1)).transpose(1, 2)

    def mask(self, share: int) -> Tensor:
        """Returns the causal mask to add to scores; `share` query heads use one key-value head."""
        if self._masks is None:
            batch = self._batch
            reach = batch.starts[:, None] + torch.arange(self.widest)
            hidden = torch.arange(batch.longest) > reach[..., None]
            grid = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
            self._masks = grid[:, None].repeat(1, 1, 1 if self.widest == 1 else share, 1)
        return self._masks


def _adopt(block: Any) -> _Layer:
    """Lays a block's weights side by side and makes its parameters views of them."""
    attention, mlp = block.self_attn, block.mlp
    return _Layer(
        qkv=_join(attention.q_proj, attention.k_proj, attention.v_proj),
        out=attention.o_proj.weight.data,
        gate_up=_join(mlp.gate_proj, mlp.up_proj),
        down=mlp.down_proj.weight.data,
        norm_in=block.input_layernorm.weight.data,
        norm_mid=block.post_attention_layernorm.weight.data,
        norm_qk=_join(attention.q_norm, attention.k_norm).view(2, -1),
    )


def _join(*modules: Any) -> Tensor:
    """Concatenates weights along their first axis and turns each parameter into a view."""
    joined = torch.cat([module.weight.data for module in modules])
    start = 0
    for module in modules:
        rows = module.weight.shape[0]
        module.weight.data = joined[start : start + rows]
        start += rows
    return joined


def _is_view(layer: _Layer, block: Any) -> bool:
    """Returns True if a block's parameters are still the storage that `layer` reads."""
    attention, mlp = block.self_attn, block.mlp
    pairs = (
        (layer.qkv, attention.q_proj),
        (layer.gate_up, mlp.gate_proj),
        (layer.out, attention.o_proj),
        (layer.down, mlp.down_proj),
        (layer.norm_qk, attention.q_norm),
        (layer.norm_in, block.input_layernorm),
        (layer.norm_mid, block.post_attention_layernorm),
    )
    return all(mine.data_ptr() == module.weight.data_ptr() for mine, module in pairs)


def _rotary(positions: int, dim: int, rope: Any) -> tuple[Tensor, Tensor]:
    """Returns cos and sign-folded sin tables [positions, dim].

    `roll(dim / 2)` swaps the halves; the sign of rotate_half is folded into the sine.
    """
    steps = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
    frequencies = 1.0 / (rope["rope_theta"] ** steps)
    angles = torch.arange(positions).float()[:, None] * frequencies
    sine = angles.sin()
    return torch.cat((angles.cos(),) * 2, -1), torch.cat((-sine, sine), -1)
