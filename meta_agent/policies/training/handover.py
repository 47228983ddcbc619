"""Hands over the trained policy: a folder in Hugging Face's layout, with a model card.

Promises: the folder has whole weights, or the trained adapter with the name of the model under it,
which must not have changed. The card says what the run measured, what it does not claim, and how to
serve the model. Torch is imported only to merge an adapter.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.policies.training import adapter
from meta_agent.policies.training.checkpoint import MANIFEST, open_checkpoint
from meta_agent.policies.training.hub import base_place, hf_place

CARD: Final = "README.md"
VLLM_RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM's `--max-lora-rank` takes."""
Facts = Sequence[tuple[str, str]]


def hand_over(checkpoint: Path, target: Path, facts: Facts) -> str:
    """Copies a checkpoint to `target` with a model card of `facts`; returns a command to serve it.

    An adapter is merged into its base model. Raises ConfigError if `target` is not empty, and
    PreflightError if merging needs a library that is not installed.
    """
    opened = open_checkpoint(checkpoint)
    merged = adapter.is_adapter(checkpoint)
    served = f"vllm serve {shlex.quote(str(target))} --served-model-name {shlex.quote(target.name)}"
    left_out = shutil.ignore_patterns(MANIFEST, CARD)

    def fill(folder: Path) -> None:
        if merged:
            _merge(checkpoint, folder)
        else:
            shutil.copytree(checkpoint, folder, ignore=left_out)

    _put(target, fill, _card(opened.policy, facts, served))
    return served


def hand_over_adapter(checkpoint: Path, target: Path, policy: str, facts: Facts) -> str:
    """Copies only the trained adapter to a new folder with a card. Returns the command to serve it.

    `policy` is the run's policy, as `hf:...`. Raises ConfigError if there is no adapter, its base
    model has changed, or `target` is not empty.
    """
    opened = open_checkpoint(checkpoint, alone=True)
    if not adapter.is_adapter(checkpoint):
        raise ConfigError(
            f"{checkpoint} has no adapter: its weights were trained whole, or on an adapter that "
            "cannot be added to another",
            hint="run adopt --model FOLDER without --adapter; --lora-rank trains adapters",
        )
    name, trained_on = _base(policy), opened.base
    current = open_checkpoint(hf_place(name), foreign=True).policy
    if current != trained_on:
        raise ConfigError(
            f"the adapter was trained on {trained_on}, but {name} is now {current}",
            hint="restore that model, or leave out --adapter to hand over whole weights",
        )
    settings = adapter.settings_of(checkpoint)
    rank = int(settings["r"])
    served = (
        f"vllm serve {shlex.quote(name)} --enable-lora --max-lora-rank {room_for(rank)} "
        f"--lora-modules {shlex.quote(f'{target.name}={target}')}"
    )

    def fill(folder: Path) -> None:
        adapter.write_settings(folder, settings, name)
        shutil.copyfile(checkpoint / adapter.WEIGHTS, folder / adapter.WEIGHTS)

    about = [("adapter", f"LoRA of rank {rank} on {name}, which was {trained_on}"), *facts]
    _put(target, fill, _card(opened.policy, about, served, f"base_model: {name}", "peft"))
    return served


def room_for(rank: int) -> int:
    """Returns the value of vLLM's option `--max-lora-rank` for an adapter of rank `rank`.

    Raises ConfigError if the rank is too large for vLLM.
    """
    room = next((most for most in VLLM_RANKS if most >= rank), None)
    if room is None:
        raise ConfigError(
            f"the adapter has rank {rank}, but vLLM serves at most {VLLM_RANKS[-1]}: each "
            "further training adds its rank",
            hint="run adopt --model FOLDER without --adapter to hand over whole weights",
        )
    return room


def _merge(checkpoint: Path, folder: Path) -> None:
    try:
        from meta_agent.policies.training._local import write_whole
    except ImportError as error:
        raise PreflightError(
            f"{checkpoint} is an adapter, and whole weights need torch and peft",
            hint=f"{install('train')}, or hand over the adapter: adopt --model FOLDER --adapter",
        ) from error
    folder.mkdir(parents=True)
    write_whole(checkpoint, folder)


def _base(policy: str) -> str:
    """Returns the model of a policy, or the model under it if it is an adapter."""
    place = hf_place(policy.removeprefix("hf:"))
    return str(base_place(place)) if adapter.is_adapter(place) else policy.removeprefix("hf:")


def _put(target: Path, fill: Callable[[Path], None], card: str) -> None:
    """Writes a new folder, whole or not at all."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            f"{target} exists already and is not overwritten", hint="use --model NEW_FOLDER"
        )
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    fill(partial)
    (partial / CARD).write_text(card, encoding="utf-8")
    if target.is_dir():
        target.rmdir()
    partial.replace(target)


def _card(
    policy: str, facts: Facts, served: str, base: str = "", library: str = "transformers"
) -> str:
    lines = [f"- **{name}**: {value}" for name, value in facts]
    head = [f"library_name: {library}", *([base] if base else [])]
    return "\n".join(
        [
            "---",
            *head,
            "tags: [reinforcement-learning, grpo, meta-agent]",
            "---",
            "",
            f"# {policy}",
            "",
            "Trained by GRPO inside an agent's harness, and measured only with that harness.",
            "",
            *lines,
            "",
            f"    {served}",
            "",
        ]
    )
