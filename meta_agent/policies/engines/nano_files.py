"""Writes nano policies as files that transformers, TRL and vLLM load without our code.

Promises: `write_nano` gives a directory with `config.json`, `model.safetensors` and a fast
tokenizer whose ids are those of `nano_tokenizer` (tested), chat template included.
Not covered: the manifest (`training.checkpoint`) and how the weights were trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from meta_agent.policies.engines import nano_tokenizer as nano

PAD = "<pad>"


def nano_config() -> Qwen3Config:
    """Returns the transformers config of every nano policy, which has about 0.8M parameters."""
    return Qwen3Config(
        vocab_size=nano.VOCAB_SIZE,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=nano.NANO_WINDOW,
        tie_word_embeddings=True,
        pad_token_id=nano.PAD_ID,
        eos_token_id=nano.EOS_ID,
        bos_token_id=None,
        dtype="float32",
    )


def new_nano_model(seed: int) -> Any:
    """Returns a nano policy with random weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(nano_config())


def nano_fast_tokenizer() -> Any:
    """Returns the character tokenizer of the tiny nano policies as a transformers tokenizer."""
    vocabulary = {PAD: nano.PAD_ID} | dict(nano.ID_OF)
    spare = range(len(vocabulary), nano.VOCAB_SIZE)
    vocabulary |= {f"<unused{index}>": index for index in spare}
    core = Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token=nano.UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=nano.EOS,
        clean_up_tokenization_spaces=False,
        model_max_length=nano_config().max_position_embeddings,
    )
    tokenizer.chat_template = nano.CHAT_TEMPLATE
    return tokenizer


def write_nano(model: Any, directory: Path) -> None:
    """Writes a nano policy's weights, config and tokenizer into an existing directory."""
    write_policy(model, nano_fast_tokenizer(), directory)


def write_policy(model: Any, tokenizer: Any, directory: Path) -> None:
    """Writes a causal language model and its tokenizer into a directory, tied weights only once."""
    save_file(_own_tensors(model), directory / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]  # vLLM and TRL's reference model ask for it
    model.config.save_pretrained(directory)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _own_tensors(model: Any) -> dict[str, torch.Tensor]:
    """Returns copies of the model's tensors, without those that repeat another one.

    The nano engine makes parameters views of joint storage, so sharing storage alone does not mean
    that tensors are tied. Equal address and shape does.
    """
    places: set[tuple[int, torch.Size]] = set()
    tensors = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in places:
            places.add(place)
            tensors[name] = tensor.detach().cpu().clone().contiguous()
    return tensors
