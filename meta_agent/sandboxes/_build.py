"""Builds the base image without a registry: `sandboxes/build-rootfs.sh`, then an import.

Promises: it is idempotent (the image carries the hash of its recipe, and the same recipe is not
built again), and the image is complete or not built at all. It needs root and debootstrap. With a
registry at hand, `docker build` makes the same image from `sandboxes/Dockerfile`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from meta_agent.core.errors import PreflightError, SandboxError
from meta_agent.core.resources import resource_dir
from meta_agent.sandboxes._names import BASE_IMAGE, CONTAINERS, RECIPE_LABEL

RECIPE_FILES = ("build-rootfs.sh", "packages.txt")
FAILURE_LINES = 8
_PROGRESS_SEC = 5.0  # between two lines about a build that nobody asked for
_FOR_DEBOOTSTRAP = ("MA_DEBIAN_", "http_proxy", "https_proxy")


def recipe_hash() -> str:
    """Returns a hash of the files from which the base image is built."""
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
    """Builds and imports the base image of sandboxes unless it is up to date; returns its id.

    `progress` receives lines of text. Raises PreflightError if a program or right is missing.
    """
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


def build_missing_image(requested: str, tell: Callable[[str], None]) -> bool:
    """Builds the base image for the engine that `--sandbox` asks for, if it alone is missing.

    Returns whether an image was built. `tell` receives a line every few seconds. Raises
    PreflightError if a program or right is missing.
    """
    engines = [name for name in CONTAINERS if requested in ("auto", name)]
    lacking = [name for name in engines if lacks_image(name)]
    if not lacking:
        return False
    tell(f"building {BASE_IMAGE}, the image of sandboxes, for {lacking[0]}: once, for minutes")
    said_at = time.monotonic()

    def progress(line: str) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > _PROGRESS_SEC:
            said_at = time.monotonic()
            tell(line)

    build_base_image(progress, engine=lacking[0])
    return True


def lacks_image(name: str) -> bool:
    """Returns True if a container engine runs here and has no base image."""
    from meta_agent.sandboxes import _engine

    try:
        return _engine.engine(name).find_image(BASE_IMAGE) is None
    except SandboxError:
        return False


def check_needs() -> None:
    """Raises PreflightError if this machine cannot build the base image; its hint is the remedy."""
    if shutil.which("debootstrap") is None:
        raise PreflightError(
            "debootstrap is not installed; the base image needs it",
            hint="run apt-get install debootstrap",
        )
    if os.geteuid() != 0:
        command = f"run sudo {sys.executable} -m meta_agent sandbox build"
        raise PreflightError("debootstrap needs root, and this user is not root", hint=command)
    if not keyring().exists():
        hint = "run apt-get install debian-archive-keyring, or set MA_DEBIAN_KEYRING=FILE"
        raise PreflightError(
            f"the keyring {keyring()} is missing, so packages' signatures cannot be checked",
            hint=hint,
        )


def keyring() -> Path:
    """Returns the path of the public keys by which Debian's packages are verified."""
    return Path(
        os.environ.get("MA_DEBIAN_KEYRING", "/usr/share/keyrings/debian-archive-keyring.gpg")
    )


def make_rootfs(archive: Path, progress: Callable[[str], None]) -> None:
    """Runs the build script, which writes the root file system to the tar `archive`.

    Raises SandboxError with the script's last lines if it fails.
    """
    from meta_agent.sandboxes._process import stream_lines

    script = resource_dir("sandboxes") / "build-rootfs.sh"
    last: list[str] = []
    for line in stream_lines(["sh", str(script), str(archive)], _FOR_DEBOOTSTRAP):
        last = [*last, line][-FAILURE_LINES:]
        progress(line)
    if not archive.exists() or archive.stat().st_size == 0:
        raise SandboxError(
            f"{script.name} failed:\n" + "\n".join(last),
            kind="image",
            hint="remove the cause that the last lines name, then run the command again",
        )
