"""What `[tool.importlinter]` cannot express of imports, and the sizes of folders and files."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "meta_agent"
GRAPH = grimp.build_graph("meta_agent", include_external_packages=True, cache_dir=None)
# These run inside a sandbox or are streamed into one, where nothing of ours is installed.
IN_A_SANDBOX = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.parent.name == "inside" or "guest" in path.stem
)
INSTALLED_BESIDE = {"harness_code", "values_guest", "pytest", "_pytest"} | {
    *("math_verify", "sympy", "latex2sympy2_extended", "verifiers", "pydantic"),
    "reasoning_gym",
}
HEAVY = ("torch", "transformers", "trl", "datasets", "docker", "litellm", "openai", "anthropic")
FILES_OF_A_FOLDER = 20
LINES_OF_A_FILE = 500
ROWS_OF_A_TABLE = {"readers/formats"}  # one file a format


def ours() -> set[str]:
    return {module for module in GRAPH.modules if module.split(".")[0] == "meta_agent"}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[: 3 if module.startswith("meta_agent.core.") else 2])


def test_private_modules_stay_in_their_room() -> None:
    foreign = {
        f"{importer} -> {module}"
        for module in ours()
        if any(name.startswith("_") and name != "__main__" for name in module.split("."))
        for importer in GRAPH.find_modules_that_directly_import(module)
        if room_of(importer) != room_of(module)
    }
    assert not foreign


def test_files_do_not_go_in_circles() -> None:
    """Also where an import is for the type checker alone: who reads one file must not need both."""
    files = {module: GRAPH.find_modules_directly_imported_by(module) for module in ours()}
    TopologicalSorter(files).prepare()  # raises CycleError, which names them


def test_each_sdk_of_a_model_has_one_file_and_lint_says_which() -> None:
    """Without its row in `banned-api` every other file may import an SDK unseen."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    banned = set(lint["flake8-tidy-imports"]["banned-api"])
    providers = GRAPH.find_descendants("meta_agent.llm_clients.providers")
    imported = set().union(*map(GRAPH.find_modules_directly_imported_by, providers))
    theirs = imported - ours() - sys.stdlib_module_names - {"jsonschema"}
    assert theirs >= {"openai", "anthropic"}
    assert theirs <= banned


@pytest.mark.parametrize("folder", ["meta_agent", "tests", "benchmarks"])
def test_no_folder_is_crowded_and_no_file_is_long(folder: str) -> None:
    paths = list((ROOT / folder).rglob("*.py"))
    beside: dict[str, int] = {}
    for path in paths if folder == "meta_agent" else []:
        name = path.parent.relative_to(PACKAGE).as_posix()
        beside[name] = beside.get(name, 0) + 1
    crowded = {name for name, number in beside.items() if number > FILES_OF_A_FOLDER}
    assert not crowded - ROWS_OF_A_TABLE
    lines = {path: len(path.read_bytes().splitlines()) for path in paths}
    assert not {str(path): number for path, number in lines.items() if number > LINES_OF_A_FILE}


def test_what_runs_in_a_sandbox_needs_the_standard_library_alone() -> None:
    allowed = sys.stdlib_module_names | INSTALLED_BESIDE | {*IN_A_SANDBOX}
    foreign = {
        f"{module} -> {name}"
        for module in IN_A_SANDBOX
        for name in GRAPH.find_modules_directly_imported_by(module) - allowed
    }
    assert IN_A_SANDBOX and not foreign


def test_rooms_export_what_they_name_and_import_nothing_heavy() -> None:
    """A function may import what is heavy; import-linter sees no difference, so a process tries."""
    packages = [m for m in ours() if PACKAGE.parent.joinpath(*m.split("."), "__init__.py").exists()]
    program = f"""
import importlib, sys
for name in {sorted(packages)!r}:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names)), name
    missing = [each for each in names if not hasattr(module, each)]
    assert not missing, (name, missing)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_no_test_imports_another_test() -> None:
    """What tests share is a kit: a file whose name begins with `_`, or a folder's `__init__`."""
    foreign, kits = [], 0
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for source in imported_by(path):
            kits += source.name.startswith("_")
            if not source.name.startswith("_"):
                foreign.append(f"{path.relative_to(ROOT)} -> {source.relative_to(ROOT)}")
    assert kits and not foreign


def imported_by(path: Path) -> Iterator[Path]:
    """Yields the files of `tests` that a file imports; some tests lie in folders on the path."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            above = path.parent.relative_to(ROOT).parts
            inside = above[: len(above) + 1 - node.level] if node.level else ()
            module = ".".join([*inside, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            for folder in (ROOT, path.parent) if not name.startswith("tests.") else (ROOT,):
                yield from source_of(folder, name.split("."))


def source_of(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yields the file in `tests` behind a module, or behind the module that has this name."""
    for words in (parts, parts[:-1]):
        place = folder.joinpath(*words)
        for source in (place.with_suffix(".py"), place / "__init__.py"):
            if words and source.is_file() and source.is_relative_to(ROOT / "tests"):
                yield source
                return
