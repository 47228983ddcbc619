"""A tiny Qwen3 with random weights that vLLM and transformers load: nonsense, but real tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.models import _bpe

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] or '' }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def model(vocab: int, positions: int) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=vocab,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        initializer_range=0.2,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen3ForCausalLM(config).eval()


def write(directory: Path, positions: int = 32_768) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    made = _bpe.tokenizer(TEMPLATE)
    model(len(made), positions).save_pretrained(directory)
    made.save_pretrained(directory)
    return directory
