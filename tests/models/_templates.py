"""Tokenizers made on the spot for the chat templates that TRL ships: real templates, no hub."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, Final

STOPS: Final = {
    "qwen": ("<|im_end|>", "<|endoftext|>"),
    "llama3": ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    "glm": ("<|user|>", "<|observation|>", "<|endoftext|>"),
    "gptoss": ("<|return|>", "<|call|>", "<|endoftext|>"),
}
"""What ends a reply, by family, as its generation config declares it; the first is the eos."""
_PLAIN: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def family(name: str) -> str:
    return next(one for one in STOPS if name.startswith(one))


def names() -> list[str]:
    """The templates of these families, TRL's own variants to train on among them."""
    files = (resources.files("trl") / "chat_templates").iterdir()
    shipped = sorted(
        one.name.removesuffix(".jinja") for one in files if one.name.endswith(".jinja")
    )
    return [name for name in shipped if name.startswith(tuple(STOPS))]


@cache
def tokenizer(name: str) -> Any:
    """Bytes, and the tokens that the template itself writes, as special ones."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    text = template(name)
    stops = STOPS[family(name)]
    vocabulary = {word: at for at, word in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    written = re.findall(r"<\|\w+\|>|\[gMASK\]|<sop>", text)
    special = dict.fromkeys((*stops, *written, "<|begin_of_text|>"))
    core.add_special_tokens([AddedToken(one, special=True) for one in special])
    core.add_tokens([AddedToken(one, special=False) for one in _PLAIN if one in text])
    made = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=stops[0], bos_token="<|begin_of_text|>"
    )
    made.chat_template = text
    return made


def template(name: str) -> str:
    return (resources.files("trl") / "chat_templates" / f"{name}.jinja").read_text("utf-8")


def thinks(name: str) -> bool:
    return "think" in template(name)


def stop_ids(name: str) -> frozenset[int]:
    made = tokenizer(name)
    return frozenset(made.convert_tokens_to_ids(one) for one in STOPS[family(name)])
