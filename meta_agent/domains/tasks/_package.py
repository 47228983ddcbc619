"""A package as a value: its files, which of them are sources, which are tests, and its archive.

Promises: the same input gives the same archive, byte for byte; nothing of the package runs here.
Reads a source distribution (`.tar.gz`), a git repository (its committed files, never its history)
or a plain folder.

Does not cover: compiled extensions, and what a build generates beyond `_built`: give the source
distribution of such a package, which holds it.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import re
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from meta_agent.core.errors import ConfigError
from meta_agent.core.history import foreign_history, read_folder
from meta_agent.domains.swe import Tree, is_test_path, read_archive
from meta_agent.domains.swe.grading._sift import is_control_path
from meta_agent.domains.tasks._built import built_files

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")
_NO_SOURCES = frozenset(
    {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "scripts", "tools", "misc"}
    | {"build", "dist", "bench", "ci"}
)
_NO_MODULES = frozenset({"setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py"})
_HAS_TESTS = re.compile(rb"^(?:async )?def test|^class \w*Test|^class .*TestCase", re.MULTILINE)
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Package:
    """See the module."""

    name: str
    version: str
    commit: str  # of the repository, or the first 40 digits of the archive's hash
    tree: Tree
    archive: bytes
    pythonpath: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def archive_name(self) -> str:
        return f"{self.name}-{self.version or self.commit[:12]}.tar.gz"

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.archive).hexdigest()

    @cached_property
    def top_names(self) -> frozenset[str]:
        """What the tests import."""
        below = (_below(path, self.pythonpath[0]) for path in self.sources)
        return frozenset(PurePosixPath(path).parts[0].removesuffix(".py") for path in below if path)


def read_package(path: Path, *, tests: Sequence[str] = (), sources: Sequence[str] = ()) -> Package:
    """Reads a package. `tests` and `sources`: patterns of paths, instead of the usual places."""
    if path.is_file() and path.name.endswith(_ARCHIVES):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        return package_of(
            read_archive(path, digest), path.name, digest[:40], tests, sources, archive=content
        )
    if not path.is_dir():
        raise ConfigError(
            f"{path} is neither a folder nor a source distribution",
            hint="give a repository, a folder, or what `pip download --no-binary :all:` fetched",
        )
    if (path / ".git").exists():
        with foreign_history(path) as history:
            head = history.head()
            return package_of(history.tree(head), path.resolve().name, head, tests, sources)
    return package_of(read_folder(path), path.resolve().name, "", tests, sources)


def package_of(
    tree: Tree,
    label: str,
    commit: str,
    tests: Sequence[str] = (),
    sources: Sequence[str] = (),
    *,
    archive: bytes | None = None,
) -> Package:
    """A package from its files. Raises `ConfigError` where there is nothing to work with."""
    name, version = _identity(tree, label)
    roots = ("src",) if any(_is_package(path, "src") for path in tree) else (".",)
    own = tuple(sorted(path for path in tree if _is_source(path, tree, roots[0], sources)))
    if made := built_files(tree, own, roots[0], name, version):
        tree, archive = {**tree, **made}, None
    packed = archive or packed_tree(tree, name)
    digest = hashlib.sha256(packed).hexdigest()
    found = Package(
        *(name, version, commit or digest[:40], tree, packed),
        *(roots, own, suite_files(tree, tests)),
    )
    for kind, paths in (("tests", found.tests), ("sources", found.sources)):
        if not paths:
            raise ConfigError(
                f"no {kind} found in {label}: {len(tree)} files, pythonpath {roots[0]}",
                hint=f"name them: --{kind} 'PATTERN' (source distributions often leave tests out)",
            )
    return found


def suite_files(tree: Mapping[str, bytes], patterns: Sequence[str] = ()) -> tuple[str, ...]:
    """The files that hold a package's tests."""
    return tuple(sorted(path for path in tree if _is_suite(path, tree[path], patterns)))


def packed_tree(tree: Mapping[str, bytes], top: str) -> bytes:
    """The files as an archive that depends on nothing else."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(tree):
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(tree[path])
            archive.addfile(member, io.BytesIO(tree[path]))
    return buffer.getvalue()


def _identity(tree: Tree, label: str) -> tuple[str, str]:
    """Name and version, as the package states them; else the label."""
    stated = dict(
        line.split(": ", 1)
        for line in tree.get("PKG-INFO", b"")
        .decode("utf-8", "replace")
        .split("\n\n")[0]
        .split("\n")
        if re.match(r"(Name|Version): \S", line)
    )
    project = _project(tree)
    name = stated.get("Name") or project.get("name") or re.sub(r"(-\d.*)?\.t.*$", "", label)
    version = stated.get("Version") or project.get("version") or ""
    return _NAME.sub("-", name.strip()).strip("-.") or "package", _NAME.sub("-", version.strip())


def _project(tree: Tree) -> dict[str, str]:
    try:
        table = tomllib.loads(tree.get("pyproject.toml", b"").decode())
    except (ValueError, UnicodeDecodeError):
        return {}
    project = table.get("project")
    rows = project.items() if isinstance(project, dict) else ()
    return {key: value for key, value in rows if isinstance(value, str)}


def _is_package(path: str, root: str) -> bool:
    below = _below(path, root)
    return below is not None and PurePosixPath(below).name == "__init__.py" and "/" in below


def _below(path: str, root: str) -> str | None:
    if root == ".":
        return path
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _is_suite(path: str, content: bytes, patterns: Sequence[str]) -> bool:
    if patterns:
        return path.endswith(".py") and _matches(path, patterns)
    name = PurePosixPath(path).name
    if name in ("test.py", "tests.py"):  # it may be a module that helps with tests
        return _HAS_TESTS.search(content) is not None
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _is_source(path: str, tree: Tree, root: str, patterns: Sequence[str]) -> bool:
    below = _below(path, root)
    if not path.endswith(".py") or below is None or is_test_path(path) or is_control_path(path):
        return False
    if patterns:
        return _matches(path, patterns)
    first, _, rest = below.partition("/")
    if not rest:
        return first not in _NO_MODULES
    top = first if root == "." else f"{root}/{first}"
    return f"{top}/__init__.py" in tree and first not in _NO_SOURCES


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
