"""The code on a node: it reports the node's versions and runs one unit in a dispatch folder.

A dispatch is a folder with a `unit.json` in the shared folder. The node writes weights and rollouts
there. It writes `result.json` last, which holds the outcome or the error of the unit. It writes
nowhere else and returns the hash of `result.json`. If the driver puts a file `stop` there, a
training seals its state and ends.

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
"""Packages whose versions may change the result of a unit."""
UNIT, RESULT, PACKS = "unit.json", "result.json", "packs"
STOP = "stop"
CHECKPOINTS, ROLLOUTS = "checkpoints", "rollouts"


@cache
def code_hash() -> str:
    """Returns the SHA-256 of all files of the package meta_agent, as hexadecimal digits."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(root).as_posix()
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def facts(domain: Domain, probe: Path) -> dict[str, str]:
    """Returns the versions and hashes that all machines of a cluster must share, by name.

    Among them is the text of `probe`, which shows that a machine sees the same shared folder.
    """
    values = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DECISIVE:
        try:
            values[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            values[name] = "not installed"
    values |= {"code of meta-agent": code_hash()[:12], "tasks and grader": domain.evaluator_hash}
    return values | {"shared folder": _read(probe)}


def image_facts(images: Mapping[str, str]) -> dict[str, str]:
    """Returns each image as `image NAME` and its id (or what is wrong), to compare machines."""
    return {f"image {name}": held for name, held in images.items()}


def _read(probe: Path) -> str:
    try:
        return probe.read_text(encoding="utf-8")
    except OSError as error:
        return f"{probe}: {error.strerror}"


class Node:
    """Runs trainings and evaluations on a node, with the object that `build(settings)` makes."""

    def __init__(self, build: str, settings: JSON) -> None:
        module, _, name = build.partition(":")
        self._settings = settings
        self._apparatus: Apparatus = getattr(importlib.import_module(module), name)(settings)
        self._rows: list[tuple[int, JSON]] = []

    def facts(self, probe: str) -> dict[str, str]:
        held = {
            name: held_image(self._settings["backend"], name, image_id)
            for name, image_id in self._settings.get("images", {}).items()
        }
        return facts(self._apparatus.domain, Path(probe)) | image_facts(held)

    def metrics_since(self, count: int) -> list[tuple[int, JSON]]:
        """Returns the rows of metrics after the first `count`, each with its optimiser step."""
        return self._rows[count:]

    def carry_out(self, folder: str) -> str:
        """Runs the training or evaluation that `unit.json` in `folder` describes.

        Returns the SHA-256 of the file `result.json` that it writes to the same folder.
        """
        self._rows.clear()
        place = Path(folder)
        try:
            record: JSON = {"outcome": self._outcome(place)}
        except MetaAgentError as error:
            record = {"error": error_to_json(error)}
        except OSError as error:
            disk_error = errors.of_disk(error)
            if disk_error is None:
                raise
            record = {"error": error_to_json(disk_error)}
        text = json.dumps(record)
        write_whole(place / RESULT, text)
        return hashlib.sha256(text.encode()).hexdigest()

    def _outcome(self, place: Path) -> JSON:
        unit = unit_from_json(json.loads((place / UNIT).read_bytes()))
        tree = tree_of((place.parents[2] / PACKS / unit.harness).read_bytes(), unit.harness)
        if Path(unit.path).is_absolute():
            policy = open_checkpoint(Path(unit.path), alone=True).policy  # its base when loaded
            if policy != unit.policy:
                raise errors.IntegrityError(
                    f"the model {unit.path} has the hash {policy} on this node instead of "
                    f"{unit.policy}; copy the model to the node again"
                )
        outputs = Outputs(place / CHECKPOINTS, RolloutStore(place / ROLLOUTS))
        return self._apparatus.carry_out(
            unit,
            tree,
            outputs,
            lambda step, row: self._rows.append((step, dict(row))),
            (place / STOP).exists,
        )


def error_to_json(error: MetaAgentError) -> JSON:
    """Returns an error of this package as JSON, so that a node can send it to the driver."""
    more = {name: getattr(error, name) for name in ("kind", "reason") if hasattr(error, name)}
    name = type(error).__name__
    return {"type": name, "message": str(error), "hint": error.hint, "more": more}


def error_from_json(record: Mapping[str, JSON]) -> MetaAgentError:
    """Returns the error that a node sent as JSON; an IntegrityError if its type is not allowed."""
    kinds = {"CandidateError": ("reason",), "SandboxError": ("kind",), "TrainingError": ()}
    plain = ("ConfigError", "PreflightError", "InfrastructureError", "Interrupted")
    kinds |= dict.fromkeys(plain, ())
    attributes = kinds.get(record["type"])
    if attributes is None:
        return errors.IntegrityError(f"{record['type']}: {record['message']}", hint=record["hint"])
    extras = {name: record["more"][name] for name in attributes}
    error: MetaAgentError = getattr(errors, record["type"])(
        record["message"], hint=record["hint"], **extras
    )
    return error
