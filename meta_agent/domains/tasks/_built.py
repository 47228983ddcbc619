"""Files that a build would have put beside a package's committed files, so that it can be imported.

Promises: nothing of the package runs, and no file is replaced. Generated are the version modules
that the build's settings or `.gitignore` name, as setuptools-scm or hatch-vcs write them, and the
metadata of a distribution if the sources read some.

Does not cover: other generated code, and compiled modules. Those imports still fail, with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

_SETTINGS = ("pyproject.toml", "setup.cfg", "setup.py", ".gitignore", "MANIFEST.in")
_VERSION_FILE = re.compile(r"(?<![\w/])/?((?:\w+/)*\w*version\w*\.py)\b")
_READS_METADATA = re.compile(rb"importlib.metadata|importlib_metadata|pkg_resources")


def built_files(
    tree: Mapping[str, bytes], sources: Sequence[str], root: str, name: str, version: str
) -> dict[str, bytes]:
    """The absent files by path. Imports start from the folder `root`."""
    version = version or "0"
    settings = b"\n".join(tree.get(path, b"") for path in _SETTINGS).decode("utf-8", "replace")
    packages = {str(PurePosixPath(path).parent) for path in sources} - {root}
    files = {
        path: _version_module(version)
        for path in _VERSION_FILE.findall(settings)
        if str(PurePosixPath(path).parent) in packages and path not in tree
    }
    has_metadata = any(".dist-info/" in path or ".egg-info/" in path for path in tree)
    if not has_metadata and any(_READS_METADATA.search(tree[path]) for path in sources):
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        files[str(PurePosixPath(root) / folder / "METADATA")] = text.encode()
    return files


def _version_module(version: str) -> bytes:
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    lines = f"__version__ = version = {version!r}\n__version_tuple__ = version_tuple = {numbers}\n"
    return lines.encode()
