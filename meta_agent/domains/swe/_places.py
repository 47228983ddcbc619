"""Where a task's tree comes from, and in which image it is worked on and graded.

A public image holds the repository with its history. The tree is read out of it once, without any
history; what an agent's container and the grading container are started from is the sealed image
(`meta_agent.sandboxes.seal_image`), in which the answer cannot be looked up.

Promises: each archive and each image is read once, whatever thread asks first.

Does not cover: sandboxes that are plain processes, which have no image: there the tree is read from
the same path of this machine, and that stays readable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from meta_agent.core.protocols import Sandbox
from meta_agent.domains.formats import SourceSpec
from meta_agent.domains.swe._tree import SUITES, Tree, read_archive, read_from_image


class ImageFinder(Protocol):
    """Finds the id of a container image by the image's name."""

    @property
    def engine(self) -> str:
        """Returns the name of the container engine that has the images, such as docker."""

    def find(self, name: str) -> str: ...


class Base(NamedTuple):
    """The source files of a task's base commit, and the image to work in (None: the default)."""

    tree: Tree
    image: str | None


class Places:
    """Finds the source files and the container image of a task, and reads each archive once."""

    def __init__(
        self, folder: Path, factory: Callable[[str | None], Sandbox], images: ImageFinder | None
    ) -> None:
        self._folder, self._factory, self._images = folder, factory, images
        self._trees: dict[tuple[str, str], Tree] = {}
        self._in_images: dict[tuple[str | None, str], Base] = {}
        self._lock = threading.Lock()  # what is read is read once

    def base(self, image: str | None, source: SourceSpec) -> Base:
        """Returns a task's source files and image. Raises ConfigError if these cannot be read."""
        with self._lock:
            if source.archive is not None:
                archive = (source.archive, source.sha256)
                if archive not in self._trees:
                    self._trees[archive] = read_archive(self._folder / archive[0], archive[1])
                return Base(self._trees[archive], self._local(image))
            place = (image, str(source.image_path))
            if place not in self._in_images:
                self._in_images[place] = self._in_image(self._local(image), place[1])
            return self._in_images[place]

    def _local(self, image: str | None) -> str | None:
        return self._images.find(image) if self._images and image else image

    def _in_image(self, image: str | None, place: str) -> Base:
        from meta_agent.sandboxes import scan_image, seal_image

        if self._images is None or image is None:
            return Base(self._read(image, place, ()), image)
        engine = self._images.engine
        scan = scan_image(image, place, engine=engine)
        past = [path for path in scan.below if not SUITES.intersection(path.split("/"))]
        tree = self._read(image, scan.place, past)
        return Base(tree, seal_image(image, scan, engine=engine))

    def _read(self, image: str | None, place: str, past: Sequence[str]) -> Tree:
        sandbox = self._factory(image)
        try:
            return read_from_image(sandbox, place, "python3", past)
        finally:
            sandbox.close()
