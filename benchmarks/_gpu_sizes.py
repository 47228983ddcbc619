"""What `gpu.py` measures on a card, and with `--tiny`."""

from __future__ import annotations

from typing import Final, NamedTuple

FIELDS: Final = (
    *("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)


class Size(NamedTuple):
    """What is measured: models by their `FIELDS`, and how much of each."""

    models: dict[str, tuple[int, ...]]
    lengths: tuple[int, ...]
    rows: int
    learning_steps: int
    learning_groups: int
    side: int  # of the multiplied matrices


CARD: Final = Size(
    {
        "qwen3-0.6b": (28, 1024, 3072, 16, 8, 128, 151_936),
        "qwen3-4b": (36, 2560, 9728, 32, 8, 128, 151_936),
    },
    (2048, 8192, 16384),
    rows=4,
    learning_steps=20,
    learning_groups=8,
    side=8192,
)
TOY: Final = Size(
    {"toy": (2, 32, 64, 2, 1, 16, 512)},
    (64,),
    rows=2,
    learning_steps=2,
    learning_groups=1,
    side=256,
)
