"""What a node does: says what it is, and carries one unit out in a folder of that dispatch.

A dispatch is a folder in the shared folder, `unit.json` in it. The node writes weights and rollouts
there, and `result.json` last, which holds the outcome or the error that ended the unit. Nothing is
written anywhere else, and what travels back is the hash of `result.json`. Once the driver has put a
file `stop` there, a training seals what it has and ends.

Not covered: keys, money, git and the ledger, which nodes never see.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from meta_agent.core import errors
from meta_agent.core.durable import write_whole
from meta_agent.core.errors import MetaAgentError
from meta_agent.core.lab.units import Apparatus, Outputs, tree_of, unit_from_json
from meta_agent.core.protocols import JSON, Domain
from meta_agent.core.rollouts import RolloutStore
from meta_agent.policies.training.checkpoint import open_checkpoint
from meta_agent.sandboxes import held_image

_DECISIVE: Final = ("torch", "transformers", "trl", "peft", "accelerate", "numpy", "scipy", "ray")
"""Packages whose versions may change what comes of a unit."""
UNIT, RESULT, PACKS = "unit.json", "result.json", "packs"
STOP = "stop"
CHECKPOINTS, ROLLOUTS = "checkpoints", "rollouts"


@cache
def code_hash() -> str:
    """Over every file of this package that is Python or data of ours."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(root).as_posix()
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def facts(domain: Domain, probe: Path) -> dict[str, str]:
    """What has to be alike on all machines; `probe` is a file in the shared folder."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DECISIVE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    found |= {"code of meta-agent": code_hash()[:12], "tasks and grader": domain.evaluator_hash}
    return found | {"shared folder": _read(probe)}


def image_facts(images: Mapping[str, str]) -> dict[str, str]:
    """Of the images that sandboxes are opened of: by name, the ID or what is amiss with it."""
    return {f"image {name}": held for name, held in images.items()}


def _read(probe: Path) -> str:
    try:
        return probe.read_text(encoding="utf-8")
    except OSError as error:
        return f"{probe}: {error.strerror}"


class Node:
    """The trusted code of one place on a node; `build` is `module:function`, which gets `told`."""

    def __init__(self, build: str, told: JSON) -> None:
        module, _, name = build.partition(":")
        self._told = told
        self._apparatus: Apparatus = getattr(importlib.import_module(module), name)(told)
        self._rows: list[tuple[int, JSON]] = []

    def facts(self, probe: str) -> dict[str, str]:
        held = {
            name: held_image(self._told["backend"], name, image_id)
            for name, image_id in self._told.get("images", {}).items()
        }
        return facts(self._apparatus.domain, Path(probe)) | image_facts(held)

    def heard(self, seen: int) -> list[tuple[int, JSON]]:
        """The rows of metrics after the first `seen`: that it answers says that it is alive."""
        return self._rows[seen:]

    def carry_out(self, folder: str) -> str:
        """Carries out the unit of this dispatch; returns the sha256 of its `result.json`."""
        self._rows.clear()
        place = Path(folder)
        try:
            told: JSON = {"outcome": self._outcome(place)}
        except MetaAgentError as error:
            told = {"error": error_to_json(error)}
        except OSError as error:
            known = errors.of_disk(error)
            if known is None:
                raise
            told = {"error": error_to_json(known)}
        text = json.dumps(told)
        write_whole(place / RESULT, text)
        return hashlib.sha256(text.encode()).hexdigest()

    def _outcome(self, place: Path) -> JSON:
        unit = unit_from_json(json.loads((place / UNIT).read_bytes()))
        tree = tree_of((place.parents[2] / PACKS / unit.harness).read_bytes(), unit.harness)
        if Path(unit.path).is_absolute():
            found = open_checkpoint(Path(unit.path), alone=True).policy  # its base when loaded
            if found != unit.policy:
                raise errors.IntegrityError(f"{unit.path} is {found} here, wanted is {unit.policy}")
        outputs = Outputs(place / CHECKPOINTS, RolloutStore(place / ROLLOUTS))
        return self._apparatus.carry_out(
            unit,
            tree,
            outputs,
            lambda step, row: self._rows.append((step, dict(row))),
            (place / STOP).exists,
        )


def error_to_json(error: MetaAgentError) -> JSON:
    """An error of ours as it travels."""
    more = {name: getattr(error, name) for name in ("kind", "reason") if hasattr(error, name)}
    name = type(error).__name__
    return {"type": name, "message": str(error), "hint": error.hint, "more": more}


def error_from_json(told: Mapping[str, JSON]) -> MetaAgentError:
    """The inverse; what a node may not raise is an IntegrityError that says so."""
    kinds = {"CandidateError": ("reason",), "SandboxError": ("kind",), "TrainingError": ()}
    plain = ("ConfigError", "PreflightError", "InfrastructureError", "Interrupted")
    kinds |= dict.fromkeys(plain, ())
    wanted = kinds.get(told["type"])
    if wanted is None:
        return errors.IntegrityError(f"{told['type']}: {told['message']}", hint=told["hint"])
    more = {name: told["more"][name] for name in wanted}
    made: MetaAgentError = getattr(errors, told["type"])(told["message"], hint=told["hint"], **more)
    return made
