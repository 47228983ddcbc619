"""Predicts how much memory a training of an `hf:` policy takes, from its files alone.

Promises: it loads nothing and imports no torch. Sizes come from `config.json` and the headers of
the weights. The activations of a layer are within 6 % of what was measured on the blocks of
Qwen3-4B in float32. The rest is counted, and not yet compared with a whole training on a GPU.
Not covered: what an allocator loses between blocks, and mixtures of experts.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.policies.training import adapter
from meta_agent.policies.training._wire import TrainSettings
from meta_agent.policies.training.hub import base_place

GIB: Final = 1 << 30
_HEADER_BYTES: Final = 64 << 20
_TILE_TOKENS, _TILE_WORDS = 4096, 32768  # of TRL's fused head
_KEPT_BYTES: Final = 5 << 29
"""A pass with more activations than this computes them again in the backward pass."""
_RUNTIME_BYTES: Final = 320 << 20
"""What Python, torch and TRL hold before a model is loaded; a CUDA context is about as large."""
_TILES = 4  # of logits: products, probabilities and their gradients


class Shape(NamedTuple):
    """The sizes of a model from which its memory follows, such as layers and width (`hidden`)."""

    parameters: int
    adapted: int  # summed inputs and outputs of linear layers: an adapter's numbers per rank
    layers: int
    hidden: int
    attention: int  # numbers of queries, keys and values per token and layer
    inner: int  # of the feed-forward part
    words: int
    window: int


class Memory(NamedTuple):
    """The peak memory of a training in bytes, by purpose (weights, gradients and others)."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    engine: int  # the weights of a child that samples beside it
    runtime: int
    per_token: int
    """Bytes of activations per token; a pass has `tokens_per_pass` or the longest row's tokens."""

    @property
    def total(self) -> int:
        """Returns the sum of all parts in bytes."""
        return sum(self) - self.per_token


def shape_of(folder: Path) -> Shape:
    """Returns the sizes of the model in a folder. Raises ConfigError if they cannot be read."""
    folder = base_place(folder) if adapter.is_adapter(folder) else folder
    try:
        model_config = document((folder / "config.json").read_bytes())
        model_config = {**model_config, **(model_config.get("text_config") or {})}
        heads = int(model_config["num_attention_heads"])
        hidden = int(model_config["hidden_size"])
        width = int(model_config.get("head_dim") or hidden // heads)
        pairs = 2 * int(model_config.get("num_key_value_heads") or heads)
        shapes = dict(_shapes(folder))
        return Shape(
            parameters=sum(map(math.prod, shapes.values())),
            adapted=sum(sum(size) for name, size in shapes.items() if _is_adapted(name, size)),
            layers=int(model_config["num_hidden_layers"]),
            hidden=hidden,
            attention=(heads + pairs) * width,
            inner=int(model_config["intermediate_size"]),
            words=int(model_config["vocab_size"]),
            window=int(model_config.get("max_position_embeddings") or 1 << 30),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ConfigError(
            f"the sizes of the model in {folder} cannot be read: {type(error).__name__}: {error}",
            hint="give the folder that save_pretrained wrote, with .safetensors files",
        ) from error


def kept_tokens(shape: Shape, settings: TrainSettings) -> int:
    """Returns how many tokens a forward pass may have while all activations stay in memory.

    A longer pass computes activations again in the backward pass.
    """
    return _KEPT_BYTES // (_short(settings) * shape.layers * _layer(shape))


def _short(settings: TrainSettings) -> int:
    return 2 if settings.precision == "bfloat16" else 4


def _layer(shape: Shape) -> int:
    """Returns how many numbers one layer keeps for one token."""
    return 6 * shape.hidden + 4 * shape.attention + 4 * shape.inner


def predict(shape: Shape, settings: TrainSettings, *, row: int, trained: bool = False) -> Memory:
    """Returns the peak memory on one device of a training, or of sampling if nothing is trained.

    A rollout has at most `row` tokens. `trained` says that the weights come from an earlier
    training, so that they are in float32. Sharded weights count twice on rank 0: part and whole.
    """
    tokens = max(settings.tokens_per_pass, row)
    short = _short(settings)
    if not settings.trains:  # one layer at a time, without gradients
        logits = 4 * _TILES * min(_TILE_WORDS, shape.words) * min(_TILE_TOKENS, tokens)
        per_token = short * _layer(shape)
        return Memory(
            short * shape.parameters, 0, 0, per_token * tokens, logits, 0, _RUNTIME_BYTES, per_token
        )
    held = short if settings.lora_rank and not trained else 4
    adapters = settings.lora_rank * shape.adapted
    steps_on = adapters or shape.parameters
    # Autocast keeps a copy of the weights that are trained, as long as it is on.
    copies = short * shape.parameters if short < 4 and not adapters else 0
    weights = held * shape.parameters + 4 * adapters + copies
    parts = settings.ranks if settings.sharded else 1
    # Of parted weights the layer that is computed and the next are whole, and so is the head.
    near = 2 * (shape.parameters // shape.layers + shape.words * shape.hidden) if parts > 1 else 0
    # A long pass keeps every layer's input and computes one layer at a time again on the way back.
    per_token = held * shape.layers * shape.hidden + short * _layer(shape)
    short_pass = min(tokens, kept_tokens(shape, settings))
    tile = min(_TILE_WORDS, shape.words) * min(_TILE_TOKENS, tokens)
    head = 0 if adapters else shape.words * shape.hidden
    return Memory(
        weights=weights // parts + (weights if parts > 1 else 0) + held * near,
        gradients=4 * steps_on // parts + 4 * near,
        optimizer=8 * steps_on // parts,
        activations=max(per_token * tokens, short * shape.layers * _layer(shape) * short_pass),
        logits=4 * (_TILES * tile + head),
        engine=weights if settings.max_staleness else 0,
        runtime=_RUNTIME_BYTES,
        per_token=per_token,
    )


def require_fit(
    what: str, shape: Shape, settings: TrainSettings, *, row: int, trained: bool, available: int
) -> Memory:
    """Returns the predicted peak memory of a training. `what` names the model in errors.

    Raises ConfigError if that exceeds `available` bytes; the error names a setting that fits.
    """
    needed = predict(shape, settings, row=row, trained=trained)
    if needed.total <= available:
        return needed
    raise ConfigError(
        f"{'training' if settings.trains else 'sampling'} {what} with rows of {row:,} tokens "
        f"needs {gib(needed.total)} "
        f"({by_part(needed)}), and {gib(available)} are available",
        hint=_that_fits(shape, settings, row=row, trained=trained, available=available),
    )


def by_part(memory: Memory) -> str:
    """Returns the memory by purpose as text, such as `weights 7.5 GiB, gradients 7.5 GiB`."""
    parts = memory._asdict()
    per_token = parts.pop("per_token")
    sizes = [f"{name} {gib(size)}" for name, size in parts.items() if size]
    return f"{', '.join(sizes)}; {per_token / (1 << 20):.3g} MiB of activations a token"


def gib(size: int) -> str:
    """Returns a size in GiB (or MiB if small) as text for people."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 100 else f"{size / (1 << 20):.1f} MiB"


def _that_fits(
    shape: Shape, settings: TrainSettings, *, row: int, trained: bool, available: int
) -> str:
    """Returns the flags of the smallest change that fits."""
    fewer = {"tokens_per_pass": row}
    adapters = {"lora_rank": 16, "precision": "bfloat16"}
    for change in (fewer, adapters, adapters | fewer):
        changed = replace(settings, **change)
        total = predict(shape, changed, row=row, trained=trained).total
        if total <= available and changed.tokens_per_pass <= settings.tokens_per_pass:
            return f"{_flags(change)} needs {gib(total)} and fits"
    shorter = _longest(shape, changed, trained=trained, available=available)
    if shorter:
        row_flag = f"--limits max_context_tokens={shorter}"
        return f"{_flags(adapters)} {row_flag} --tokens-per-pass {shorter} fits"
    return f"nothing here fits; the least needs {gib(total)}: use a smaller model"


def _flags(change: Mapping[str, Any]) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in change.items())


def _longest(shape: Shape, settings: TrainSettings, *, trained: bool, available: int) -> int:
    """Returns the longest row that fits, a power of two from 256 on, or 0."""
    fitting = 0
    row = 256
    while row < settings.tokens_per_pass:
        short = replace(settings, tokens_per_pass=row)
        if predict(shape, short, row=row, trained=trained).total <= available:
            fitting = row
        row *= 2
    return fitting


def _shapes(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields each tensor's name and sizes, from the headers of the weights."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError("the folder has no .safetensors file; save the model in that form")
    for path in files:
        with path.open("rb") as stream:
            header = header_of(stream)
        for name, entry in header.items():
            if name != "__metadata__":
                yield name, tuple(map(int, entry["shape"]))


def header_of(stream: BinaryIO) -> Mapping[str, Any]:
    """Returns the parsed header of a .safetensors file. Raises ValueError if it is too large."""
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > _HEADER_BYTES:
        raise ValueError(
            f"{stream.name} has a header of {length} bytes, which is too long; save the model again"
        )
    header: Mapping[str, Any] = json.loads(stream.read(length))
    return header


def _is_adapted(name: str, size: tuple[int, ...]) -> bool:
    return len(size) == 2 and "embed" not in name and not name.startswith("lm_head")
