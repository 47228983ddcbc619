"""The trained policy in somebody's hand: a folder in Hugging Face's layout, with a model card.

Weights are whole: adapters were merged when the checkpoint was sealed. The card says what the run
measured and what it does not claim, and how to serve the model.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from meta_agent.errors import ConfigError
from meta_agent.training.checkpoint import MANIFEST, open_checkpoint

CARD: Final = "README.md"


def hand_over(checkpoint: Path, target: Path, facts: Sequence[tuple[str, str]]) -> str:
    """Copies a checkpoint to a new folder, its card beside it; returns the command that serves it.

    `facts` are lines for the card. Raises ConfigError where something is in the way.
    """
    opened = open_checkpoint(checkpoint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            f"{target} is there already, and nothing is written over it", hint="--model NEW_FOLDER"
        )
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(checkpoint, partial, ignore=shutil.ignore_patterns(MANIFEST, CARD))
    served = serving(target)
    (partial / CARD).write_text(_card(opened.policy, facts, served), encoding="utf-8")
    if target.is_dir():
        target.rmdir()
    partial.replace(target)
    return served


def serving(folder: Path) -> str:
    """The command that serves a model folder."""
    return f"vllm serve {folder} --served-model-name {folder.name}"


def _card(policy: str, facts: Sequence[tuple[str, str]], served: str) -> str:
    lines = [f"- **{name}**: {value}" for name, value in facts]
    return "\n".join(
        [
            "---",
            "library_name: transformers",
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
