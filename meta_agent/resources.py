"""Where the data folders are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from meta_agent.errors import PreflightError

Folder = Literal["harness_repo", "sandboxes", "skills_library", "examples/recorded-run"]


def resource_dir(folder: Folder) -> Path:
    """The path of a data folder."""
    package = Path(__file__).resolve().parent
    for path in (package / "_data" / folder, package.parent / folder):
        if path.is_dir():
            return path
    raise PreflightError(
        f"the data folder {folder!r} is missing from this installation",
        hint="pip install --force-reinstall meta-agent",
    )
