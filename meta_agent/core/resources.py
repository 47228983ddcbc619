"""Finds the data folders of this package, and reads the harnesses that it ships.

The folders are beside the package in a checkout, and inside it in a wheel. Files that harnesses
share are stored once, in the folder `shared` above them. Files for all harnesses of one name are in
a folder of that name. A file nearer to a harness replaces one above. The folder name `agent` stands
for the harness's own package, such as `swe`. Files of the folder `adapters` replace others for a
policy whose adapters are trained.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Literal

from meta_agent.core.distribution import install
from meta_agent.core.errors import PreflightError

Folder = Literal["harness_repo", "sandboxes", "skills_library", "examples/recorded-run"]


def resource_dir(folder: Folder) -> Path:
    """Returns the path of a data folder of this package. Raises PreflightError if it is missing."""
    package = Path(__file__).resolve().parents[1]
    for path in (package / "_data" / folder, package.parent / folder):
        if path.is_dir():
            return path
    raise PreflightError(
        f"the data folder {folder!r} is missing from this installation",
        hint=f"{install()} --force-reinstall",
    )


def cache_folder(content: str) -> Path:
    """Returns the path of the user's cache folder named `content`; it may not exist yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "meta-agent" / content


def shipped_harness(name: str, *, adapters: bool = False) -> dict[str, bytes]:
    """Returns the files by path of a shipped harness. `name` is its folder, such as `chat/swe`.

    With `adapters`, its recipe is the one for training adapters instead of all weights.
    """
    root = resource_dir("harness_repo")
    home = root / name
    (package,) = (path.name for path in home.iterdir() if path.is_dir())
    above = home.parents[: len(PurePosixPath(name).parts)]
    files: dict[str, bytes] = {}
    folders = [
        above_home / part for above_home in reversed(above) for part in ("shared", home.name)
    ]
    for folder in [*folders, *([home.parent / "adapters"] if adapters else [])]:
        for path, content in _files(folder):
            parts = (package, *path.parts[1:]) if path.parts[0] == "agent" else path.parts
            files["/".join(parts)] = content
    return dict(sorted(files.items(), key=lambda file: PurePosixPath(file[0])))


def _files(folder: Path) -> list[tuple[PurePosixPath, bytes]]:
    return [
        (PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
