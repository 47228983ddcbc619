"""Low-rank adapters (LoRA) as files: their base model, the sum of two adapters, and whole weights.

Promises: an adapter's identity includes its base's contents. A checkpoint's adapter
stands on the run's first model, however many trainings lie between. Torch and peft are
imported only to compute weights.
Not covered: adapters without a sum (DoRA, biases, whole layers): checkpoints hold whole weights.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError, PreflightError
from meta_agent.core.parsing.strict import document

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_BASE: Final = "base_model_name_or_path"
_MAX_BYTES: Final = 1 << 20
_DOWN, _UP = ".lora_A.", ".lora_B."
_NOT_A_SUM: Final = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "use_rslora")


def is_adapter(folder: Path) -> bool:
    """Returns True if a folder holds an adapter and not a whole model."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def settings_of(folder: Path) -> dict[str, Any]:
    """Returns an adapter's `adapter_config.json`. Raises ConfigError if it is no LoRA adapter."""
    try:
        with (folder / CONFIG).open("rb") as stream:
            settings = document(stream.read(_MAX_BYTES))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{folder / CONFIG} cannot be read: {error}",
            hint="give the folder that peft's save_pretrained wrote",
        ) from error
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        kind = settings.get("peft_type") if isinstance(settings, dict) else settings
        raise ConfigError(
            f"{folder} is an adapter of type {str(kind)[:40]!r}, and only LoRA can be read",
            hint="merge the adapter into its base model and give that folder",
        )
    if not (folder / WEIGHTS).is_file():
        raise ConfigError(
            f"{folder} is an adapter without {WEIGHTS}",
            hint="give the folder that peft's save_pretrained wrote",
        )
    return dict(settings)


def settings_digest(folder: Path) -> str:
    """Returns the SHA-256 of an adapter's settings, the name of its base model left out."""
    settings = {k: v for k, v in settings_of(folder).items() if k != _BASE}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def base_name(folder: Path) -> str:
    """Returns the name of an adapter's base model. Raises ConfigError if the settings have none."""
    name = settings_of(folder).get(_BASE)
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{folder / CONFIG} does not say which model the adapter was trained on",
            hint=f"add the model's name or folder to that file as {_BASE!r}",
        )
    return name


def whole(model: Any, folder: Path) -> Any:
    """Returns `model` with the adapter in `folder` merged. Raises PreflightError without peft."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise PreflightError(
            f"{folder} is an adapter, and merging it needs peft", hint=install("train")
        ) from error
    return PeftModel.from_pretrained(model, str(folder)).merge_and_unload()


def keep(model: Any, target: Path, *, base: str, earlier: Path | None) -> bool:
    """Writes a trained model's adapter to `target`, summed with the `earlier` one it started from.

    `base` names the base model. Returns False and writes nothing if the two cannot be summed.
    """
    scratch = target / ".trained"
    model.save_pretrained(str(scratch), safe_serialization=True)
    try:
        if earlier is None:
            settings = settings_of(scratch)
            (scratch / WEIGHTS).rename(target / WEIGHTS)
        else:
            parts = _read(earlier), _read(scratch)
            if not all(map(_adds, parts)):
                return False
            settings, tensors = _sum(*parts)
            _save(tensors, target / WEIGHTS)
        write_settings(target, settings, base)
        return True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_settings(target: Path, settings: Mapping[str, Any], base: str) -> None:
    """Writes an adapter's settings with its base model's name. Equal settings give equal files."""
    target.mkdir(parents=True, exist_ok=True)
    plain = {key: sorted(v) if _is_names(v) else v for key, v in settings.items()}
    text = json.dumps({**plain, _BASE: base}, indent=2, sort_keys=True)
    (target / CONFIG).write_text(text + "\n", "utf-8")


class _Part(NamedTuple):
    settings: dict[str, Any]
    tensors: dict[str, Any]

    @property
    def rank(self) -> int:
        return int(self.settings["r"])

    def of(self, name: str, like: Any) -> Any:
        """Returns the matrix `name` (B scaled by alpha / r); zeros sized for `like` if missing."""
        import torch

        matrix, down = self.tensors.get(name), _DOWN in name
        if matrix is None:
            size = (self.rank, like.shape[1]) if down else (like.shape[0], self.rank)
            return torch.zeros(size, dtype=like.dtype)
        return matrix if down else matrix * (float(self.settings["lora_alpha"]) / self.rank)


def _adds(part: _Part) -> bool:
    settings, names = part.settings, part.tensors
    return (
        not any(settings.get(name) for name in _NOT_A_SUM)
        and settings.get("bias") == "none"
        and _is_names(settings.get("target_modules"))
        and all(_DOWN in name or _UP in name for name in names)
    )


def _sum(first: _Part, second: _Part) -> _Part:
    """Returns B1 A1 + B2 A2 as one product, with the ranks side by side."""
    import torch

    tensors = {}
    for name, like in {**first.tensors, **second.tensors}.items():
        sides = [part.of(name, like) for part in (first, second)]
        tensors[name] = torch.cat(sides, dim=0 if _DOWN in name else 1)
    modules = {*first.settings["target_modules"], *second.settings["target_modules"]}
    rank = first.rank + second.rank
    settings = {**second.settings, "r": rank, "lora_alpha": rank, "target_modules": sorted(modules)}
    return _Part(settings, tensors)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _read(folder: Path) -> _Part:
    from safetensors.torch import load_file

    return _Part(settings_of(folder), load_file(str(folder / WEIGHTS)))


def _save(tensors: Mapping[str, Any], path: Path) -> None:
    from safetensors.torch import save_file

    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, str(path), metadata={"format": "pt"})
