"""Gives a model's output head its own weights, for engines that load whole weights.

If a head shares the embedding's weights, vLLM 0.32 on the CPU keeps the old head after it loaded
other weights (it holds a packed copy; see `docs/log/`). A head that is in the files is loaded like
any other layer. Files are linked, and the embedding's bytes copied once, without torch.
Not covered: heads of other names than `lm_head`, and embeddings cut into several tensors.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON
from meta_agent.policies.training.memory import header_of

_HEAD: Final = "lm_head.weight"
_EMBEDDING: Final = "embed_tokens.weight"
_FILE: Final = "lm_head.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_CHUNK: Final = 16 << 20


def untied(folder: Path, target: Path) -> Path:
    """Writes a copy of a model to `target`, in which the output head has weights of its own.

    Returns `target`, or `folder` itself if the head shares no weights with the embedding. Raises
    ConfigError if the model has no embedding of the usual name.
    """
    config = document((folder / "config.json").read_bytes())
    if not isinstance(config, dict) or not _ties(config):
        return folder
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in ("config.json", _INDEX):
            (target / path.name).symlink_to(path.resolve())
    (target / "config.json").write_text(
        json.dumps({**config, "tie_word_embeddings": False}), "utf-8"
    )
    _write_head(folder, target / _FILE)
    if (folder / _INDEX).is_file():
        index = document((folder / _INDEX).read_bytes())
        index["weight_map"][_HEAD] = _FILE
        (target / _INDEX).write_text(json.dumps(index), "utf-8")
    return target


def _ties(config: dict[str, JSON]) -> bool:
    """Returns True if the head shares the embedding's weights, which is transformers' default."""
    return bool(config.get("tie_word_embeddings", True))


def _write_head(folder: Path, target: Path) -> None:
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as stream:
            header, tensors = header_of(stream), stream.tell()
            if _HEAD in header:
                return  # it is there already
            entry = next(
                (tensor for name, tensor in header.items() if name.endswith(_EMBEDDING)), None
            )
            if entry is None:
                continue
            begin, end = entry["data_offsets"]
            stream.seek(tensors + begin)
            head = json.dumps({_HEAD: {**entry, "data_offsets": [0, end - begin]}}).encode()
            with target.open("wb") as out:
                out.write(struct.pack("<Q", len(head)) + head)
                unread = end - begin
                while unread:
                    unread -= out.write(stream.read(min(unread, _CHUNK)))
            return
    raise ConfigError(
        f"{folder} has no {_EMBEDDING} in its .safetensors files",
        hint="leave out --engines, or use a model with an ordinary embedding",
    )
