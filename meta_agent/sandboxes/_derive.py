"""Builds an image for a user's agent: the base image and the packages that the agent needs.

Promises: nothing of those packages runs on this machine. pip resolves and unpacks wheels only, so
there is no `setup.py`. Requirements that name a URL, a folder or an option of pip are refused. The
image is committed from a container that was never started. The same requirements on the same base
are not built again.
Does not cover: system packages (bring an image of your own: `image` in harness.toml takes any local
one with `python3` and no volumes), and markers of requirements, which pip reads for the Python that
runs this program.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError, PreflightError, SandboxError
from meta_agent.sandboxes._names import BASE_IMAGE
from meta_agent.sandboxes._open import open_sandbox

REQUIREMENTS_LABEL: Final = "ma.requirements"
SCRIPTS: Final = "usr/local/bin"
LAYOUT: Final = 2  # changes when an image of the same packages would come out differently
PYTHON: Final = "/usr/bin/env python3"
FAILURE_LINES: Final = 8
_FOR_PIP: Final = ("PIP_", "PYTHONPATH", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
GLIBC: Final = ("2014", "_2_17", "_2_24", "_2_27", "_2_28", "_2_31", "_2_34", "_2_35", "_2_36")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,\s-]+\])?\s*([<>=!~][^@;/\\]*)?(;[^@/\\]*)?")
_PLACES = (
    "import json, sys, sysconfig; "
    "print(json.dumps([list(sys.version_info[:2]), sysconfig.get_path('purelib')]))"
)

Progress = Callable[[str], None]


class Place(NamedTuple):
    """An image's Python version, and the folder of its installed packages."""

    version: tuple[int, int]
    packages: str  # the path of the folder, without the leading slash


def read_requirements(path: Path) -> list[str]:
    """Returns the requirements in a file, sorted.

    Raises ConfigError if the file is unreadable or empty, or a line could run code.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read the requirements file {path}: {error}",
            hint="give a readable text file with one package a line, such as openai==1.50.0",
        ) from error
    stripped = [line.partition(" #")[0].strip() for line in lines]
    requirements = [line for line in stripped if line and not line.startswith("#")]
    for line in requirements:
        check_requirement(line, str(path))
    if not requirements:
        raise ConfigError(f"{path} names no package; write one a line, such as openai==1.50.0")
    return sorted(requirements)


def check_requirement(line: str, where: str) -> None:
    """Raises ConfigError, naming `where`, unless a line is just a package's name and versions."""
    if not _REQUIREMENT.fullmatch(line):
        raise ConfigError(
            f"{where}: {line!r} is not NAME, NAME==VERSION or the like",
            hint="options, URLs and folders are refused; put wheels in a folder: --wheels DIR",
        )


def build_agent_image(
    requirements: Sequence[str],
    name: str,
    *,
    wheels: Path | None = None,
    base: str = BASE_IMAGE,
    engine: str = "docker",
    progress: Progress = lambda line: None,
    force: bool = False,
) -> str:
    """Builds the image `name` with the `requirements` unless it is up to date; returns its id.

    pip searches the folder `wheels` before its index. Raises ConfigError, PreflightError or
    SandboxError if the image cannot be built.
    """
    from meta_agent.sandboxes import _engine
    from meta_agent.sandboxes._containers import usable_image

    for line in requirements:
        check_requirement(line, "requirements")
    on = _engine.engine(engine)
    parent = usable_image(base, on)
    mark = _mark(parent.id, requirements, wheels)
    image = on.find_image(name)
    if image and image.labels.get(REQUIREMENTS_LABEL) == mark and not force:
        progress(f"{name} is up to date ({mark})")
        return image.id
    place = _place_in(parent.id, engine)
    with tempfile.TemporaryDirectory(prefix="meta-agent-image-") as folder:
        packages, archive = Path(folder) / "packages", Path(folder) / "layer.tar"
        _unpack(requirements, wheels, place, packages, progress)
        _compile(packages, place, progress)
        _pack(packages, place, archive)
        progress(f"adding {archive.stat().st_size >> 20} MiB to {base} as {name}")
        return on.derive_image(parent.id, archive, name, {REQUIREMENTS_LABEL: mark})


def _mark(parent_id: str, requirements: Sequence[str], wheels: Path | None) -> str:
    """Returns a hash of everything the image is built from; wheels count by content."""
    digest = hashlib.sha256(json.dumps([LAYOUT, parent_id, sorted(requirements)]).encode())
    for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
        digest.update(wheel.name.encode() + hashlib.sha256(wheel.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _place_in(image: str, engine: str) -> Place:
    sandbox = open_sandbox(engine, run="image", image=image)
    try:
        answer = sandbox.exec(["python3", "-I", "-c", _PLACES])
    finally:
        sandbox.close()
    try:
        (major, minor), packages = json.loads(answer.stdout)
    except ValueError as error:
        raise SandboxError(
            f"the image {image} has no working python3; install it, then build again: {error}",
            kind="image",
        ) from error
    return Place((int(major), int(minor)), str(packages).lstrip("/"))


def _unpack(
    requirements: Sequence[str], wheels: Path | None, place: Place, target: Path, say: Progress
) -> None:
    """Lets pip unpack the packages' wheels into a folder. Raises SandboxError if pip fails."""
    from meta_agent.sandboxes._process import stream_lines

    if find_spec("pip") is None:
        raise PreflightError("this Python has no pip", hint=f"run {sys.executable} -m ensurepip")
    argv = [sys.executable, "-m", "pip", "install", "--no-input", "--no-compile"]
    argv += ["--only-binary", ":all:", "--target", str(target), *_tags(place)]
    argv += ["--find-links", str(wheels.absolute())] if wheels else []
    last: list[str] = []
    for line in stream_lines([*argv, "--", *requirements], _FOR_PIP):
        last = [*last, line][-FAILURE_LINES:]
        say(line)
    if not any(line.startswith("Successfully installed") for line in last):
        raise SandboxError(
            "pip did not install the packages:\n" + "\n".join(last),
            kind="image",
            hint="correct the requirements, or give wheels: --wheels DIR",
        )


def _compile(packages: Path, place: Place, say: Progress) -> None:
    """Compiles the packages to byte code, since in a read-only image each attempt would do so.

    Compiling runs nothing of the packages. Files carry no dates in the image, so the byte
    code is not checked against them.
    """
    from meta_agent.sandboxes._process import stream_lines

    if place.version != sys.version_info[:2]:
        say(f"no byte code: the image has Python {place.version[0]}.{place.version[1]}")
        return
    say("compiling the packages")
    argv = [sys.executable, "-I", "-m", "compileall", "-qq", "--invalidation-mode"]
    path_in_image = f"/{place.packages}"
    for line in stream_lines(
        [*argv, "unchecked-hash", "-s", str(packages), "-p", path_in_image, str(packages)]
    ):
        say(line)


def _tags(place: Place) -> list[str]:
    """Returns pip's options for the image's Python, if it differs from this one."""
    if place.version == sys.version_info[:2] and sys.platform == "linux":
        return []
    major, minor = place.version
    tags = ["--python-version", f"{major}.{minor}", "--implementation", "cp"]
    for abi in (f"cp{major}{minor}", "abi3", "none"):
        tags += ["--abi", abi]
    for glibc in GLIBC:
        tags += ["--platform", f"manylinux{glibc}_{platform.machine()}"]
    return tags


def _pack(packages: Path, place: Place, archive: Path) -> None:
    """Writes a tar with the packages in the image's folder and their scripts on its PATH."""
    scripts = packages / "bin"
    with tarfile.open(archive, "w") as tar:
        for script in sorted(path for path in scripts.glob("*") if path.is_file()):
            _add(tar, f"{SCRIPTS}/{script.name}", _for_image(script.read_bytes()), 0o755)
        shutil.rmtree(scripts, ignore_errors=True)
        for path in sorted(packages.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = f"{place.packages}/{path.relative_to(packages).as_posix()}"
                _add(tar, name, path.read_bytes(), 0o644 | (path.stat().st_mode & 0o111))


def _for_image(script: bytes) -> bytes:
    """Returns a script that starts with the image's Python instead of this machine's."""
    first, newline, rest = script.partition(b"\n")
    ours = first.startswith(b"#!") and sys.executable.encode() in first
    return b"#!" + PYTHON.encode() + newline + rest if ours else script


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))
