"""The layers of ARCHITECTURE.md, read from the source: imports flow one way."""

import ast
import importlib
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "meta_agent"

# Lowest first. A module may import from its own layer and from those before it. A room of the core
# is named with its folder; everything else is an extension, the composition root or a door.
LAYERS = (
    (
        *(f"core.{name}" for name in ("protocols", "errors", "workspace", "resources", "config")),
        *(
            f"core.{name}"
            for name in ("durable", "settings", "capabilities", "parsing", "distribution")
        ),
        *(f"core.{name}" for name in ("chat", "skills", "evidence", "task_splits", "slices")),
        *("core.registry", "core.processes", "core"),
    ),
    (
        *(f"core.{name}" for name in ("rollouts", "history", "harness", "sandbox", "ledger")),
        "core.display",
    ),
    ("core.gate", "core.lab", "core.replay", "core.proposals"),
    ("core.loop",),
    ("sandboxes", "llm_clients", "domains"),
    ("policies", "proposers", "readers", "skills", "reports", "trackers", "executors"),
    ("composition", "strategies", "studies", "__init__"),
    ("cli", "__main__"),
)
LAYER_OF = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# These run inside a sandbox or are streamed into one, where nothing of ours is installed.
STDLIB_ONLY = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if path.parent.name == "inside" or "guest" in path.stem
)
INSTALLED_BESIDE = {"harness_code", "values_guest", "pytest", "_pytest"} | {
    *("math_verify", "sympy", "latex2sympy2_extended", "verifiers", "pydantic"),
    "reasoning_gym",
}
HEAVY = ("torch", "transformers", "trl", "datasets", "docker", "litellm", "openai", "anthropic")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    parts = module.split(".")
    if len(parts) > 1 and parts[1] == "core":
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Full names of all that a file imports anywhere: `from a import b` gives `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, path)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = path.relative_to(PACKAGE.parent).parent.parts
    base = package[: len(package) - node.level + 1]
    return ".".join((*base, *((node.module,) if node.module else ())))


def ours(path: Path) -> set[str]:
    return {name for name in imports_of(path) if name.startswith("meta_agent.")}


def file_of(module: str) -> Path | None:
    path = PACKAGE.parent.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(name_of(path)) for path in modules()}
    assert rooms <= set(LAYER_OF), "give the new room a layer here and in ARCHITECTURE.md"


def test_imports_go_down_or_sideways() -> None:
    upward = {
        f"{name_of(path)} -> {name}"
        for path in modules()
        for name in ours(path)
        if LAYER_OF.get(room_of(name), 0) > LAYER_OF[room_of(name_of(path))]
    }
    assert not upward


def test_private_modules_stay_in_their_room() -> None:
    foreign = {
        f"{name_of(path)} -> {name}"
        for path in modules()
        for name in ours(path)
        if room_of(name) != room_of(name_of(path))
        and file_of(name) is not None
        and any(part.startswith("_") for part in name.split(".")[1:])
    }
    assert not foreign


def is_core(module: str) -> bool:
    return module == "meta_agent.core" or module.startswith("meta_agent.core.")


def test_the_core_imports_no_extension() -> None:
    """An import inside a function counts, and so does one for types alone."""
    reaching_out = {
        f"{name_of(path)} -> {name}"
        for path in modules()
        if is_core(name_of(path))
        for name in ours(path)
        if file_of(name) and not is_core(name)
    }
    assert not reaching_out


def test_importing_the_loop_loads_no_extension() -> None:
    loop = [name_of(path) for path in modules() if name_of(path).startswith("meta_agent.core.loop")]
    program = "import importlib, sys\n"
    program += "".join(f"importlib.import_module({name!r})\n" for name in loop)
    program += "print(*(name for name in sys.modules if name.startswith('meta_agent.')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert loaded > set(loop)
    assert not {name for name in loaded if not is_core(name)}


def test_rooms_of_one_layer_do_not_go_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules():
        room = room_of(name_of(path))
        graph.setdefault(room, set()).update({room_of(name) for name in ours(path)} - {room})
    done: set[str] = set()

    def visit(room: str, way: tuple[str, ...]) -> None:
        assert room not in way, f"circle: {' -> '.join((*way, room))}"
        if room not in done:
            for target in sorted(graph.get(room, ())):
                visit(target, (*way, room))
            done.add(room)

    for room in sorted(graph):
        visit(room, ())


def test_files_do_not_go_in_circles() -> None:
    """Also where an import is for the type checker alone: who reads one file must not need both."""
    graph = {name_of(path): _files_read(path) for path in modules()}
    circles: list[str] = []
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            circles.append(" -> ".join((*way[way.index(module) :], module)))
        elif module not in done:
            for target in sorted(graph[module]):
                visit(target, (*way, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())
    assert not circles


def _files_read(path: Path) -> set[str]:
    """The modules of ours behind a file's imports: a package counts only for a name of its own."""
    known = {name for name in ours(path) | {"meta_agent"} & imports_of(path) if file_of(name)}
    return {
        name
        for name in known - {name_of(path)}
        if (file_of(name) or path).name != "__init__.py" or _takes_a_name(path, name)
    }


def _takes_a_name(path: Path, package: str) -> bool:
    return any(
        name.startswith(f"{package}.") and name.count(".") == package.count(".") + 1
        for name in imports_of(path)
        if file_of(name) is None
    )


ROOM_FOR_FILES = 20
LINES = 500
ROWS_OF_A_TABLE = {"readers/formats"}  # one file a format


def test_each_sdk_of_a_model_has_one_file_and_lint_says_which() -> None:
    """Without its row in `banned-api` every other file may import an SDK unseen."""
    lint = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    banned = set(lint["flake8-tidy-imports"]["banned-api"])
    theirs = (
        {
            name.split(".")[0]
            for path in (PACKAGE / "llm_clients" / "providers").glob("*.py")
            for name in imports_of(path)
        }
        - sys.stdlib_module_names
        - {"meta_agent", "jsonschema"}
    )
    assert theirs >= {"openai", "anthropic"}
    assert theirs <= banned


def test_no_folder_is_crowded() -> None:
    beside: dict[str, int] = {}
    for path in modules():
        folder = path.parent.relative_to(PACKAGE).as_posix()
        beside[folder] = beside.get(folder, 0) + 1
    crowded = {name for name, number in beside.items() if number > ROOM_FOR_FILES}
    assert not crowded - ROWS_OF_A_TABLE


def test_no_file_is_long() -> None:
    folders = (PACKAGE, PACKAGE.parent / "tests", PACKAGE.parent / "benchmarks")
    lines = {
        path.relative_to(PACKAGE.parent).as_posix(): len(path.read_bytes().splitlines())
        for folder in folders
        for path in folder.rglob("*.py")
    }
    assert not {name: number for name, number in lines.items() if number > LINES}


def test_no_agent_reaches_the_planted_faults() -> None:
    """Neither directly nor through what it imports: the answer key stays out of reach."""
    way: dict[str, str] = {}
    queue = [name_of(path) for path in (PACKAGE / "proposers").rglob("*.py")]
    for module in queue:
        path = file_of(module)
        for name in sorted(ours(path) if path else ()):
            packages = {name.rsplit(".", n)[0] for n in range(name.count("."))}
            for reached in {name, *packages}:
                if reached not in way and file_of(reached) is not None:
                    way[reached] = module
                    queue.append(reached)
    assert "meta_agent.core.protocols" in way, "the walk went nowhere"
    assert not [name for name in way if is_an_answer_key(name)], way


def is_an_answer_key(module: str) -> bool:
    """Each suite lists its faults in `<suite>_faults`, swe in `faults`; seeds plants them."""
    return module.startswith("meta_agent.domains.nano.planted")


def test_every_answer_key_is_known_as_one() -> None:
    names = {name_of(path) for path in (PACKAGE / "domains" / "nano").rglob("*.py")}
    keys = {name for name in names if is_an_answer_key(name)}
    assert {
        f"meta_agent.domains.nano.planted.{name}"
        for name in ("faults", "math_faults", "code_faults")
    } <= keys


@pytest.mark.parametrize("name", STDLIB_ONLY)
def test_what_runs_in_a_sandbox_needs_the_standard_library_alone(name: str) -> None:
    beside = {PACKAGE / one for one in STDLIB_ONLY}
    foreign = {
        one
        for one in imports_of(PACKAGE / name)
        if one.split(".")[0] not in sys.stdlib_module_names | INSTALLED_BESIDE
        and not _is_beside(one, beside)
    }
    assert not foreign


def _is_beside(module: str, beside: set[Path]) -> bool:
    """A package of ours counts only where every import from it is one of these files."""
    path = file_of(module) or file_of(module.rpartition(".")[0])
    return path in beside or (path is not None and path.name == "__init__.py")


PACKAGES = [name_of(path) for path in modules() if path.name == "__init__.py"]


@pytest.mark.parametrize("name", PACKAGES)
def test_exported_names_resolve(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert not [one for one in exported if not hasattr(module, one)]
    assert sorted(set(exported)) == sorted(exported)


def test_importing_rooms_pulls_in_nothing_heavy() -> None:
    program = "import importlib, sys\n"
    program += "".join(f"importlib.import_module({name!r})\n" for name in PACKAGES)
    program += f"print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
