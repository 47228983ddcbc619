"""Policies on disk: a directory whose manifest was written last.

Promises: a checkpoint appears under its name whole or not at all. It is written in `NAME.partial`,
every file and directory synced, manifest last, then renamed. Its identity is the hash of its
contents, so equal weights have equal names. (With `hf` policies the rules by which conversations
are rendered are part of it; with an adapter its base's contents.) `open_checkpoint` reads every
byte again and refuses a directory that does not match its manifest.
Not covered: what is in the files. A foreign Hugging Face directory has no manifest: it may be
opened by asking for it (`foreign=True`) and is named by its contents like any other.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import ConfigError, InfrastructureError, IntegrityError
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON, Checkpoint
from meta_agent.policies.engines.conversation import RENDERING
from meta_agent.policies.training import adapter
from meta_agent.policies.training.hub import base_place

MANIFEST: Final = "manifest.json"
SCHEMA_VERSION: Final = 1
_BASE: Final = "base/"
PolicyKind = Literal["nano", "hf"]
_POLICY_SUFFIXES: Final = (".safetensors", ".json", ".jinja", ".model", ".txt", ".bin")


class OpenedPolicy(NamedTuple):
    """A policy's folder, and its manifest's identity, training steps and hashes of files."""

    path: Path
    kind: PolicyKind
    policy: str  # identity, e.g. "nano@3f2a..."
    steps: int
    seed: int
    base: str = ""  # identity of the model under an adapter
    files: Mapping[str, str] = {}  # sha256 of each file, by name


def write_checkpoint(
    path: Path,
    write_files: Callable[[Path], None],
    *,
    kind: PolicyKind,
    steps: int,
    seed: int,
    notes: Mapping[str, JSON] | None = None,
    trained: OpenedPolicy | None = None,
) -> Checkpoint:
    """Writes and returns a checkpoint; `write_files` fills a fresh directory, which becomes `path`.

    `notes` go into its manifest. `trained` is the policy that the training started from; its hashes
    are reused for an adapter's base model. Raises IntegrityError if `path` exists.
    """
    if path.exists():
        raise IntegrityError(
            f"{path} exists: a checkpoint is never overwritten",
            hint="move that folder away, then run the same command again",
        )
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with naming_full_disk(path):
            write_files(partial)
            for file in _files(partial):
                sync(file)
            files = _contents(partial, _base_files(trained))
            checkpoint = _seal(
                partial, path, files, kind=kind, steps=steps, seed=seed, notes=notes or {}
            )
    except InfrastructureError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(path)
    sync(path.parent)
    return checkpoint


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Raises InfrastructureError, naming `path`, if the disk is full in the `with` block."""
    try:
        yield
    except Exception as error:
        if os.strerror(errno.ENOSPC) not in str(error):  # not always an OSError
            raise
        raise InfrastructureError(
            f"the disk that holds {path} is full",
            hint="free some space, then run the same command again: it resumes",
        ) from error


def open_checkpoint(path: Path, *, foreign: bool = False, alone: bool = False) -> OpenedPolicy:
    """Reads a policy's directory, checks it against its manifest, and returns what it holds.

    `foreign` allows a directory without a manifest. With `alone`, an adapter's base model is not
    read: its identity comes from the manifest. Raises ConfigError if `path` is no directory, and
    IntegrityError if the manifest is missing or does not match the contents.
    """
    if not path.is_dir():
        raise ConfigError(
            f"there is no policy at {path}: it is not a directory",
            hint="give a checkpoint's directory, nano, or hf:FOLDER",
        )
    if not (path / MANIFEST).exists():
        if not foreign:
            raise IntegrityError(
                f"{path} has no {MANIFEST}: it is not a finished checkpoint",
                hint=f"for your own model use hf:{path}",
            )
        files = _contents(path)
        return OpenedPolicy(path, "hf", _identity("hf", files), 0, 0, _base_of(files), files)
    manifest = _read_manifest(path)
    return _check(path, manifest, _contents(path, manifest.get("files") if alone else None))


def _seal(
    partial: Path,
    path: Path,
    files: dict[str, str],
    *,
    kind: PolicyKind,
    steps: int,
    seed: int,
    notes: Mapping[str, JSON],
) -> Checkpoint:
    policy = _identity(kind, files)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "policy": policy,
        "steps": steps,
        "seed": seed,
        "notes": dict(notes),
        "files": files,
    }
    if rendering := _rendering(kind):
        manifest["rendering"] = rendering
    write_whole(partial / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return Checkpoint(path=path, policy=policy, steps=steps, seed=seed)


def _read_manifest(path: Path) -> dict[str, JSON]:
    try:
        manifest = document((path / MANIFEST).read_bytes())
        if not isinstance(manifest, dict):
            raise TypeError(f"{manifest!r:.100} is not a JSON object; restore the file")
        if manifest["schema_version"] != SCHEMA_VERSION:
            raise ValueError(
                f"schema_version is {manifest['schema_version']}, but this version of meta-agent "
                f"reads {SCHEMA_VERSION}; use the version that wrote it"
            )
        for name in ("steps", "seed"):
            if type(manifest[name]) is not int:
                raise ValueError(f"{name} is {manifest[name]!r:.40}, not an integer: restore it")
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"{path / MANIFEST} is not a manifest: {error}",
            hint=f"restore the folder; for the weights alone, remove {MANIFEST} and use hf:{path}",
        ) from error
    return dict(manifest)


def _check(path: Path, manifest: dict[str, JSON], files: dict[str, str]) -> OpenedPolicy:
    recorded = manifest.get("files")
    if recorded != files:
        raise IntegrityError(
            f"{path} does not match its manifest: {_first_difference(recorded, files)}",
            hint=f"restore the folder; for the weights alone, remove {MANIFEST} and use hf:{path}",
        )
    kind: PolicyKind = "nano" if manifest.get("kind") == "nano" else "hf"
    if manifest.get("rendering") != _rendering(kind):
        raise IntegrityError(
            f"{path} was trained on conversations rendered by the rules "
            f"{manifest.get('rendering') or 'of an older version'}, but the rules are now "
            f"{RENDERING}",
            hint=f"start a new run; for the weights alone, remove {MANIFEST} and use hf:{path}",
        )
    policy = _identity(kind, files)
    if manifest.get("policy") != policy:
        raise IntegrityError(
            f"{path} says that its weights are {manifest.get('policy')}, but they are {policy}",
            hint=f"restore the folder; for the weights alone, remove {MANIFEST} and use hf:{path}",
        )
    steps, seed = int(manifest["steps"]), int(manifest["seed"])
    return OpenedPolicy(path, kind, policy, steps, seed, _base_of(files), files)


def _first_difference(recorded: JSON, files: dict[str, str]) -> str:
    if not isinstance(recorded, dict):
        return "the manifest lists no files"
    for name in sorted(recorded.keys() | files.keys()):
        if name not in files:
            return f"{name} is missing"
        if name not in recorded:
            return f"{name} is not in the manifest"
        if recorded[name] != files[name]:
            return f"{name} has changed (sha256 {files[name][:12]}, recorded {recorded[name][:12]})"
    return "files differ"


def _contents(path: Path, recorded: JSON = None) -> dict[str, str]:
    """Returns the sha256 of each of a policy's files, and of an adapter's base."""
    files = _hash_files(path)
    if not adapter.is_adapter(path):
        return files
    if isinstance(recorded, dict):
        files |= {name: digest for name, digest in recorded.items() if name.startswith(_BASE)}
    else:
        base = _hash_files(base_place(path))
        files |= {f"{_BASE}{name}": digest for name, digest in base.items()}
    return {**files, adapter.CONFIG: adapter.settings_digest(path)}


def _base_of(files: Mapping[str, str]) -> str:
    """Returns the identity of the base from its files among an adapter's contents."""
    base = {name.removeprefix(_BASE): d for name, d in files.items() if name.startswith(_BASE)}
    return _identity("hf", base) if base else ""


def _base_files(trained: OpenedPolicy | None) -> JSON:
    """Returns the files of the base under a trained adapter, as `_contents` names them."""
    if trained is None:
        return None
    under = {name: d for name, d in trained.files.items() if name.startswith(_BASE)}
    return under or {f"{_BASE}{name}": digest for name, digest in trained.files.items()}


def _hash_files(path: Path) -> dict[str, str]:
    """Maps each policy file to its sha256."""
    return {file.name: _sha256(file) for file in _files(path)}


def _files(path: Path) -> list[Path]:
    """Returns a policy's files, sorted. Other files (a README, a cache) do not count."""
    return sorted(
        item
        for item in path.iterdir()
        if item.is_file() and item.suffix in _POLICY_SUFFIXES and item.name != MANIFEST
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _identity(kind: PolicyKind, files: Mapping[str, str]) -> str:
    rendering = _rendering(kind)
    text = f"rendering {rendering}\n" if rendering else ""
    text += "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return f"{kind}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _rendering(kind: PolicyKind) -> str | None:
    """Returns the rules by which conversations become tokens; nano policies have one form."""
    return None if kind == "nano" else RENDERING
