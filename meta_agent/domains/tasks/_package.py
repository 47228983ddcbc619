"""Reads a Python package without running it: its files, which are sources or tests, its archive.

The input is a source distribution (`.tar.gz`), a git repository (its committed files, never its
history) or a plain folder. The same input gives the same archive, byte for byte.

Some files that only a build makes are added, so that the package can be imported. These are the
version modules that its settings or `.gitignore` name, as setuptools-scm or hatch-vcs write them,
and the metadata of a distribution if the sources read it. No file is replaced.

Does not cover: compiled extensions and other generated code. The source distribution of such a
package holds its generated files.
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

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")
_NO_SOURCES = frozenset(
    {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "scripts", "tools", "misc"}
    | {"build", "dist", "bench", "ci"}
)
_NO_MODULES = frozenset({"setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py"})
_HAS_TESTS = re.compile(rb"^(?:async )?def test|^class \w*Test|^class .*TestCase", re.MULTILINE)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_SETTINGS = ("pyproject.toml", "setup.cfg", "setup.py", ".gitignore", "MANIFEST.in")
_VERSION_FILE = re.compile(r"(?<![\w/])/?((?:\w+/)*\w*version\w*\.py)\b")
_READS_METADATA = re.compile(rb"importlib.metadata|importlib_metadata|pkg_resources")


@dataclass(frozen=True)
class Package:
    """A Python package to make tasks of: its files, which are sources or tests, and an archive."""

    name: str
    version: str
    commit: str  # of the repository, or the first 40 digits of the archive's hash
    tree: Tree
    archive: bytes
    root: str  # the folder that imports start from: "." or "src"
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    patterns: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Patterns of test files and of sources, if a user gave some."""

    def at(self, tree: Tree, commit: str) -> Package:
        """Returns the package at another commit. ConfigError if `tree` lacks tests or sources."""
        return package_of(tree, self.name, commit, *self.patterns)

    @property
    def archive_name(self) -> str:
        return f"{self.name}-{self.version or self.commit[:12]}.tar.gz"

    @property
    def pythonpath(self) -> tuple[str, ...]:
        return (self.root,)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.archive).hexdigest()

    @cached_property
    def top_names(self) -> frozenset[str]:
        """Returns the names of the top-level modules and packages among the sources."""
        paths = (PurePosixPath(path).relative_to(self.root) for path in self.sources)
        return frozenset(path.parts[0].removesuffix(".py") for path in paths)


def read_package(
    path: Path, *, tests: Sequence[str] = (), sources: Sequence[str] = (), mined: bool = False
) -> Package:
    """Reads a package from a git repository (required if `mined`), a folder or an archive.

    `tests` and `sources` are path patterns. Raises ConfigError if no package with tests is found.
    """
    label = path.resolve().name
    if mined or (path / ".git").exists():
        with foreign_history(path) as history:
            head = history.head()
            return package_of(history.tree(head), label, head, tests, sources)
    if path.is_file() and path.name.endswith(_ARCHIVES):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        tree = read_archive(path, digest)
        return package_of(tree, path.name, digest[:40], tests, sources, archive=content)
    if not path.is_dir():
        raise ConfigError(
            f"{path} is neither a folder nor a source distribution",
            hint="give a repository, a folder or a .tar.gz: pip download --no-binary :all: NAME",
        )
    return package_of(read_folder(path), label, "", tests, sources)


def package_of(
    tree: Tree,
    label: str,
    commit: str,
    tests: Sequence[str] = (),
    sources: Sequence[str] = (),
    *,
    archive: bytes | None = None,
) -> Package:
    """Returns a package from its files. Raises `ConfigError` if it has no tests or no sources."""
    name, version = _identity(tree, label)
    in_src = any(path.startswith("src/") and path.endswith(".py") for path in tree)
    root = "src" if in_src and "src/__init__.py" not in tree else "."  # unless a package itself
    modules = _source_files(tree, root, sources)
    if generated := built_files(tree, modules, root, name, version):
        tree, archive = {**tree, **generated}, None
    content = archive or _packed(tree, name)
    commit = commit or hashlib.sha256(content).hexdigest()[:40]
    suite = suite_files(tree, tests)
    for kind, paths in (("tests", suite), ("sources", modules)):
        if not paths:
            raise ConfigError(
                f"{label} has no {kind} among its {len(tree)} files (pythonpath {root})",
                hint=f"name them: --{kind} 'PATTERN'; source distributions often leave tests out",
            )
    patterns = (tuple(tests), tuple(sources))
    return Package(name, version, commit, tree, content, root, modules, suite, patterns)


def suite_files(tree: Mapping[str, bytes], patterns: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the paths of a package's test files, by `patterns` or by their usual names."""
    return tuple(sorted(path for path in tree if _is_suite(path, tree[path], patterns)))


def built_files(
    tree: Mapping[str, bytes], sources: Sequence[str], root: str, name: str, version: str
) -> dict[str, bytes]:
    """Returns the version modules and metadata, by path, that a build of the package would add."""
    version = version or "0"
    settings = b"\n".join(tree.get(path, b"") for path in _SETTINGS).decode("utf-8", "replace")
    packages = {str(PurePosixPath(path).parent) for path in sources} - {root}
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    module = f"__version__ = version = {version!r}\n__version_tuple__ = version_tuple = {numbers}\n"
    files = {
        path: module.encode()
        for path in _VERSION_FILE.findall(settings)
        if str(PurePosixPath(path).parent) in packages and path not in tree
    }
    has_metadata = any(".dist-info/" in path or ".egg-info/" in path for path in tree)
    if not has_metadata and any(_READS_METADATA.search(tree[path]) for path in sources):
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        files[str(PurePosixPath(root) / folder / "METADATA")] = text.encode()
    return files


def _packed(tree: Mapping[str, bytes], top: str) -> bytes:
    """Returns an archive whose bytes depend on the files and the name of their folder alone."""
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
    """Returns name and version from the metadata; without metadata, a name made of `label`."""
    head = tree.get("PKG-INFO", b"").decode("utf-8", "replace").split("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version): (\S.*)$", head, re.MULTILINE))
    try:
        project = tomllib.loads(tree.get("pyproject.toml", b"").decode()).get("project", {})
    except ValueError:
        project = {}
    project = {key: value for key, value in project.items() if isinstance(value, str)}
    name = fields.get("Name") or project.get("name") or re.sub(r"(-\d.*)?\.t.*$", "", label)
    version = fields.get("Version") or project.get("version") or ""
    name = _NOT_IN_NAMES.sub("-", name.strip()).strip("-.") or "package"
    return name, _NOT_IN_NAMES.sub("-", version.strip())


def _source_files(tree: Tree, root: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Returns the files of modules and packages. Namespace packages count if no others exist."""
    prefix = "" if root == "." else f"{root}/"
    paths = sorted(
        path
        for path in tree
        if path.startswith(prefix) and path.endswith(".py")
        if not is_test_path(path) and not is_control_path(path)
    )
    if patterns:
        return tuple(path for path in paths if _matches(path, patterns))
    tops = {path: path.removeprefix(prefix).split("/")[0] for path in paths}
    modules = {path for path in paths if tops[path].endswith(".py")}
    inside = [path for path in paths if path not in modules and tops[path] not in _NO_SOURCES]
    regular = {path for path in inside if f"{prefix}{tops[path]}/__init__.py" in tree}
    alone = {path for path in modules if tops[path] not in _NO_MODULES}
    return tuple(sorted(alone | (regular or set(inside))))


def _is_suite(path: str, content: bytes, patterns: Sequence[str]) -> bool:
    if patterns:
        return path.endswith(".py") and _matches(path, patterns)
    name = PurePosixPath(path).name
    if name in ("test.py", "tests.py"):  # it may be a module that helps with tests
        return _HAS_TESTS.search(content) is not None
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
