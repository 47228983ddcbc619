"""A tiny Hugging Face policy made on the spot: random weights, a BPE tokenizer trained here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Forgets what the assistant said in earlier turns, as templates that strip reasoning do.
FORGETFUL = CHATML.replace(
    "{{ m['content'] }}",
    "{% if m['role'] == 'assistant' and not loop.last %}...{% else %}{{ m['content'] }}{% endif %}",
)
CORPUS = ["the quick brown fox jumps over the lazy dog", "user assistant tool system ok no"] * 20


def tokenizer(template: str = CHATML) -> Any:
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers import models as tokenizer_models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(tokenizer_models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<pad>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<|im_end|>")
    made.chat_template = template
    return made


def model(vocab: int, seed: int = 0, window: int = 256) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=window,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def write(directory: Path, template: str = CHATML, window: int = 256) -> Path:
    from meta_agent.policies.engines.nano_files import write_policy

    directory.mkdir(parents=True, exist_ok=True)
    made = tokenizer(template)
    write_policy(model(len(made), window=window), made, directory)
    return directory
