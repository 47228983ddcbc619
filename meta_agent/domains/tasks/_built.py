"""What a build would have put beside a package's committed files, without which nothing imports it.

Promises: nothing of the package runs; a file that is there is never replaced. Made are a module
that the sources import, that is absent, and that the build's settings or `.gitignore` name (the
version, as setuptools-scm, hatch-vcs and their like write it); and the metadata of an installed
distribution, where the sources ask for some.

Does not cover: other generated code, and compiled modules: those imports still fail, and say so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from meta_agent.domains.tasks._names import parsed

_SETTINGS = ("pyproject.toml", "setup.cfg", "setup.py", ".gitignore", "MANIFEST.in")
_USUAL = frozenset({"__version__", "version", "__version_tuple__", "version_tuple"})
_METADATA = frozenset({"importlib.metadata", "importlib_metadata", "pkg_resources"})
UNKNOWN = "0"  # a version that every parser of versions reads


def built_files(
    tree: Mapping[str, bytes], sources: Sequence[str], root: str, name: str, version: str
) -> dict[str, bytes]:
    """The absent files; `root` is where the package is imported from."""
    version = version or UNKNOWN
    said = b"\n".join(tree.get(one, b"") for one in _SETTINGS).decode("utf-8", "replace")
    packages = {PurePosixPath(path).parent for path in sources} - {PurePosixPath(root)}
    wanted: dict[str, set[str]] = {}
    asks = False
    for path in sources:
        for module, names in _imports(path, tree[path], root):
            asks |= module in _METADATA
            file = PurePosixPath(root) / f"{module.replace('.', '/')}.py"
            if file.parent in packages and file.name in said and not _is_there(tree, str(file)):
                wanted.setdefault(str(file), set()).update(names)
    made = {file: _assigned(names, version) for file, names in sorted(wanted.items())}
    if asks and not any(_is_metadata(path) for path in tree):
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        made[str(PurePosixPath(root) / folder / "METADATA")] = told.encode()
    return made


def _is_there(tree: Mapping[str, bytes], file: str) -> bool:
    folder = file.removesuffix(".py")
    return any(path == file or path.startswith((f"{folder}/", f"{folder}.")) for path in tree)


def _is_metadata(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return len(parts) > 1 and parts[-2].endswith((".dist-info", ".egg-info"))


def _imports(path: str, source: bytes, root: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Modules, by their full names, and what is taken from them."""
    package = PurePosixPath(path).relative_to(root).parts[:-1]
    tree = parsed(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from ((alias.name, frozenset()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            yield module, frozenset(alias.name for alias in node.names)
            yield from ((f"{module}.{alias.name}", frozenset()) for alias in node.names)


def _assigned(names: set[str], version: str) -> bytes:
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    values = {name: numbers if "tuple" in name else version for name in _USUAL | names - {"*"}}
    return "".join(f"{name} = {value!r}\n" for name, value in sorted(values.items())).encode()
