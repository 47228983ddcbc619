"""Finds the image that a task names: on this machine, in a tar, or at a registry if requested.

Promises: the order is always the same: an image on this machine, then a tar in the given folders,
then (with `pull`) the registry. An id is returned, so a tag that moves later changes nothing. A
tar is loaded once: its image's id is read out of it first. If an image cannot be had, a
`SandboxError` of kind `image` says what was tried and what to do.
A tar is what `docker save` writes, or else a root file system (`docker export`), which is
imported. In a folder, the tar of `own/name:tag` is any whose own list of tags has it, or
`own__name__tag.tar`.
Does not cover: compressed tars other than gzip, and images for another processor.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import SandboxError
from meta_agent.core.parsing.strict import parse
from meta_agent.core.parsing.tar import AT_ONCE_BYTES, DAMAGE, members, open_tar
from meta_agent.core.protocols import JSON
from meta_agent.sandboxes._names import short_name

TAR_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz")
IMPORTED: Final = "meta-agent-imported"
_CHUNK_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
Progress = Callable[[str], None]


class SavedImage(NamedTuple):
    """The id and the tags of an image in a tar of `docker save`."""

    id: str
    tags: tuple[str, ...]


class Images:
    """Finds container images of tasks by name, and loads them from tars or pulls them if needed."""

    def __init__(
        self,
        folders: Sequence[Path] = (),
        *,
        engine: str = "docker",
        pull: bool = False,
        progress: Progress = lambda line: None,
    ) -> None:
        self.engine = engine
        """The name of the engine that holds the images."""
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._pull = pull
        self._say = progress
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()  # two tasks of one image load it once

    def find(self, name: str) -> str:
        """Returns the id of the image with that name; loads or pulls the image if needed.

        Raises SandboxError if the image is nowhere.
        """
        with self._lock:
            if name not in self._known:
                self._known[name] = (
                    self._from_tar(name) if _is_tar(name) else self._from_engine(name)
                )
            return self._known[name]

    def _from_tar(self, name: str) -> str:
        for folder in self._folders:
            path = folder / name
            if path.is_file():
                return load_tar(path, self.engine, self._say)
        where = ", ".join(map(str, self._folders)) or "none"
        raise SandboxError(
            f"the image file {name} is not in the folders searched ({where}); add --images DIR",
            kind="image",
        )

    def _from_engine(self, name: str) -> str:
        from meta_agent.sandboxes import _engine

        engine = _engine.engine(self.engine)
        image = engine.find_image(name)
        if image is None and (tar := self._tar_of(name)):
            return load_tar(tar, self.engine, self._say)
        if image is None and self._pull:
            self._say(f"pulling {name}")
            engine.pull_image(name)
            image = engine.find_image(name)
        if image is None:
            raise SandboxError(
                f"image {name} is not on this machine"
                + (f", nor in {', '.join(map(str, self._folders))}" if self._folders else ""),
                kind="image",
                hint="run meta-agent tasks check FILE --pull, or give --images DIR with tars "
                "of `docker save`",
            )
        return image.id

    def _tar_of(self, name: str) -> Path | None:
        tagged = name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
        if tagged in self._tars:
            return self._tars[tagged]
        slug = re.sub(r"[/:]", "__", name)
        files = (folder / f"{slug}{suffix}" for folder in self._folders for suffix in TAR_SUFFIXES)
        return next((file for file in files if file.is_file()), None)

    @cached_property
    def _tars(self) -> dict[str, Path]:
        """Maps each tag to the tar in the folders that holds it."""
        tar_by_tag: dict[str, Path] = {}
        for folder in self._folders:
            for path in sorted(path for path in folder.iterdir() if _is_tar(path.name)):
                tar_by_tag.update({tag: path for image in saved_images(path) for tag in image.tags})
        return tar_by_tag


def load_tar(path: Path, engine: str, progress: Progress = lambda line: None) -> str:
    """Loads the image in a tar unless it is loaded already, and returns its id.

    Raises SandboxError if the tar holds several images, or its image cannot be loaded.
    """
    from meta_agent.sandboxes import _engine

    on = _engine.engine(engine)
    saved = saved_images(path)
    if len(saved) > 1:
        tags = ", ".join(tag for image in saved for tag in image.tags)
        raise SandboxError(
            f"{path} holds {len(saved)} images ({tags}); save one image in a tar", kind="image"
        )
    if not saved:
        return _imported(path, engine, progress)
    if on.find_image(saved[0].id) is None:
        progress(f"loading {path.name}")
        on.load_image(path)
    for name in (saved[0].id, *saved[0].tags):
        if loaded := on.find_image(name):
            return loaded.id
    raise SandboxError(
        f"{path} was loaded, but its image is missing; save the image again", kind="image"
    )


def saved_images(path: Path) -> list[SavedImage]:
    """Returns the images in a tar of `docker save`, or [] if the tar is a plain file system's.

    Raises SandboxError if the tar cannot be read.
    """
    try:
        with path.open("rb") as raw, open_tar(raw) as tar:
            member = next((item for item in members(tar) if item.name == "manifest.json"), None)
            file = tar.extractfile(member) if member else None
            listed = parse(file.read(AT_ONCE_BYTES)) if file else []
            return [_saved(entry) for entry in listed]
    except (*DAMAGE, TypeError) as problem:
        raise SandboxError(
            f"{path} is not an image, so save it again with `docker save`: {problem!s:.300}",
            kind="image",
        ) from problem


def _saved(entry: JSON) -> SavedImage:
    """Returns one image of a tar's list. Its id is the hash that names its configuration file."""
    if not isinstance(entry, dict):
        raise ValueError(f"manifest.json holds {entry!r:.100}, which is not a JSON object")
    config, tags = entry.get("Config"), entry.get("RepoTags") or []
    texts = isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    if not isinstance(config, str) or not texts:
        raise ValueError(f"manifest.json lacks Config or RepoTags: {entry!r:.200}")
    digest = Path(config).name.removesuffix(".json")
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"manifest.json names {config!r:.100}, which is not a digest")
    return SavedImage(f"sha256:{digest}", tuple(map(short_name, tags)))


def _imported(path: Path, engine: str, progress: Progress) -> str:
    from meta_agent.sandboxes import _engine

    on = _engine.engine(engine)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    name = f"{IMPORTED}:{digest.hexdigest()[:24]}"
    if image := on.find_image(name):
        return image.id
    progress(f"importing {path.name}")
    return on.import_image(path, name, {})


def _is_tar(name: str) -> bool:
    return name.endswith(TAR_SUFFIXES)
