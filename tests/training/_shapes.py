"""A folder with the sizes of a large policy and no weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

QWEN3_4B = {
    "hidden_size": 2560,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3-4B's sizes, in headers without weights behind them."""
    place = tmp_path_factory.mktemp("qwen")
    (place / "config.json").write_text(json.dumps(QWEN3_4B))
    layer = {"q": (4096, 2560), "k": (1024, 2560), "v": (1024, 2560), "o": (2560, 4096)}
    layer |= {"gate": (9728, 2560), "up": (9728, 2560), "down": (2560, 9728), "norm": (2560,)}
    write(place / "a.safetensors", {"model.embed_tokens.weight": (151_936, 2560)})
    sizes = {f"model.layers.{n}.{name}": size for n in range(36) for name, size in layer.items()}
    write(place / "b.safetensors", sizes)
    return place


def write(path: Path, sizes: dict[str, Any]) -> None:
    header = {name: {"dtype": "BF16", "shape": size} for name, size in sizes.items()}
    told = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(told)) + told)
