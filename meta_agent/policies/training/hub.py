"""Finds an `hf:` policy: a folder, or a model of the Hugging Face hub, which is fetched once.

An adapter's folder counts if the model under it is found the same way.

Promises: a missing model is one sentence before a run starts. A fetched model is complete, or it is
not used. Does not cover: models that need code of their own, which the engine refuses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats.hub import snapshot
from meta_agent.policies.pretrained import PRETRAINED, pretrained_place
from meta_agent.policies.training.adapter import base_name, is_adapter

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_WANTED: Final = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "tokenizer*")
_CONFIG: Final = "config.json"


def hf_place(name: str) -> Path:
    """Returns a model's folder; a model of the Hugging Face hub is downloaded first.

    `name` is a folder, ORG/NAME[@REVISION], or the name of a pretrained model. Raises ConfigError
    if there is no such model.
    """
    folder = Path(name).expanduser()
    if name in PRETRAINED and not folder.is_dir():
        return pretrained_place(name)
    if folder.is_dir():
        if is_adapter(folder):
            base_place(folder)
        elif not (folder / _CONFIG).is_file():
            raise ConfigError(
                f"hf:{name} is not a model folder: it has no {_CONFIG}",
                hint="give the folder that save_pretrained wrote",
            )
        return folder.absolute()
    if folder.is_absolute() or name.startswith(".") or not _NAME.fullmatch(name):
        raise ConfigError(f"there is no model folder {folder}", hint="use hf:FOLDER or hf:ORG/NAME")
    return _fetched(name)


def base_place(folder: Path) -> Path:
    """Returns the folder of an adapter's base model. Raises ConfigError if it has no usable one."""
    name = base_name(folder)
    if is_adapter(Path(name).expanduser()):
        raise ConfigError(
            f"{folder} is an adapter of {name}, which is an adapter itself",
            hint=f"merge the adapter {name} into its base model first",
        )
    try:
        return hf_place(name)
    except ConfigError as error:
        raise ConfigError(
            f"{folder} is an adapter of {name}, and {error}",
            hint=f"put the model where the adapter expects it: {name}",
        ) from error


@lru_cache
def _fetched(name: str) -> Path:
    title, instead = f"hf:{name}", "hf:ORG/NAME, or hf:FOLDER"
    return snapshot(name, _WANTED, kind="model", title=title, instead=instead)
