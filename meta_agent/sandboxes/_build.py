"""Makes the base image without a registry: `sandboxes/build-rootfs.sh`, then an import.

Promises: idempotent (the image carries the hash of its recipe; the same recipe is not built again),
and whole or not at all. Needs root and debootstrap. With a registry at hand `sandboxes/Dockerfile`
makes the same image by `docker build`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from meta_agent.core.errors import PreflightError, SandboxError
from meta_agent.core.resources import resource_dir
from meta_agent.sandboxes._names import BASE_IMAGE, RECIPE_LABEL

RECIPE_FILES = ("build-rootfs.sh", "packages.txt")
FAILURE_LINES = 8
_FOR_DEBOOTSTRAP = ("MA_DEBIAN_", "http_proxy", "https_proxy")


def recipe_hash() -> str:
    """Identifies what the base image is made of."""
    digest = hashlib.sha256()
    for name in RECIPE_FILES:
        digest.update((resource_dir("sandboxes") / name).read_bytes())
    return digest.hexdigest()[:16]


def build_base_image(
    progress: Callable[[str], None] = lambda line: None,
    *,
    engine: str = "docker",
    force: bool = False,
) -> str:
    """Builds and imports the image where needed; returns its ID. `progress` gets one line each."""
    from meta_agent.sandboxes import _engine

    recipe, on = recipe_hash(), _engine.engine(engine)
    image = on.find_image(BASE_IMAGE)
    if image and image.labels.get(RECIPE_LABEL) == recipe and not force:
        progress(f"{BASE_IMAGE} is up to date ({recipe})")
        return image.id
    check_needs()
    with tempfile.TemporaryDirectory(prefix="meta-agent-image-") as folder:
        archive = Path(folder) / "rootfs.tar"
        make_rootfs(archive, progress)
        progress(f"importing {archive.stat().st_size >> 20} MiB as {BASE_IMAGE}")
        return on.import_image(archive, BASE_IMAGE, {RECIPE_LABEL: recipe})


def check_needs() -> None:
    """Fails before the slow part, with the command that mends it."""
    if shutil.which("debootstrap") is None:
        raise PreflightError("debootstrap is not installed", hint="apt-get install debootstrap")
    if os.geteuid() != 0:
        command = f"sudo {sys.executable} -m meta_agent sandbox build"
        raise PreflightError("debootstrap needs root", hint=command)
    if not keyring().exists():
        hint = "apt-get install debian-archive-keyring, or MA_DEBIAN_KEYRING=FILE"
        raise PreflightError(
            f"{keyring()}, which says whose packages these are, is missing", hint=hint
        )


def keyring() -> Path:
    """The keys that sign what a mirror serves; `build-rootfs.sh` looks at the same place."""
    return Path(
        os.environ.get("MA_DEBIAN_KEYRING", "/usr/share/keyrings/debian-archive-keyring.gpg")
    )


def make_rootfs(archive: Path, progress: Callable[[str], None]) -> None:
    """Runs the recipe; its last lines are in the error when it fails."""
    from meta_agent.sandboxes._process import stream_lines

    script = resource_dir("sandboxes") / "build-rootfs.sh"
    last: list[str] = []
    for line in stream_lines(["sh", str(script), str(archive)], _FOR_DEBOOTSTRAP):
        last = [*last, line][-FAILURE_LINES:]
        progress(line)
    if not archive.exists() or archive.stat().st_size == 0:
        raise SandboxError(f"{script.name} failed:\n" + "\n".join(last), kind="image")
