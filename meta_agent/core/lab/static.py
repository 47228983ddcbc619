"""Static checks: what can be said of a candidate without running a line of it.

Sources are untrusted text here: they are parsed with a size limit and never imported. A finding is
a veto if the candidate could not work or left its bounds, and a warning if a reader should look.
Harness code runs in a sandbox, so an odd import is suspicious but no breach.

Not covered: whether the code does what its hypothesis says (contract tests, replay, live).
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from meta_agent.core.errors import CandidateError
from meta_agent.core.gate import Finding, Severity
from meta_agent.core.harness import HarnessContract
from meta_agent.core.parsing.syntax import parse_python
from meta_agent.core.protocols import Factor, HarnessTree

MAX_FILE_BYTES: Final = 256 * 1024
MAX_TREE_BYTES: Final = 4 * 1024 * 1024
MAX_FILES: Final = 500

SUSPECT_IMPORTS: Final = frozenset(
    {"os", "subprocess", "socket", "ctypes", "multiprocessing", "threading", "signal", "urllib"}
    | {"http", "importlib", "pickle", "marshal", "shutil", "pty", "gc", "inspect", "builtins"}
)
SUSPECT_NAMES: Final = frozenset(
    {"__import__", "eval", "exec", "compile", "globals", "__subclasses__", "__globals__"}
    | {"__builtins__", "_getframe", "f_back", "tb_frame", "_exit", "settrace", "setprofile"}
)
REQUIRED_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "reward.py": ("reward", "WEIGHTS"),
    "filter.py": ("keep",),
    "curriculum.py": ("order",),
}
DIAGNOSTIC_NAMES: Final = ("NAME", "LAYER", "THRESHOLDS", "measure")


def static_check(
    base: HarnessTree,
    candidate: HarnessTree,
    contract: HarnessContract,
    *,
    factors: tuple[Factor, ...] = (),
) -> list[Finding]:
    """Returns findings about the change from `base` to `candidate`, vetoes first. No code is run.

    `contract` is the base's, so a candidate cannot loosen its own bounds. `factors` are the groups
    of files that a combined change may touch; without them it may touch one group only.
    """
    changed = changed_paths(base, candidate)
    present = {path: candidate.files[path] for path in changed if path in candidate.files}
    findings = [
        *_bounds(changed, contract, factors),
        *_sizes(candidate),
        *_parsed(present, contract),
        *_removed_but_required(base, candidate, changed, contract),
        *_same_meaning(base, candidate, changed),
    ]
    return sorted(findings, key=lambda finding: finding.severity != "veto")


def changed_paths(base: HarnessTree, candidate: HarnessTree) -> list[str]:
    """Returns the paths of the files that a candidate added, edited or removed, sorted."""
    both = set(base.files) | set(candidate.files)
    return sorted(path for path in both if base.files.get(path) != candidate.files.get(path))


def _finding(code: str, severity: Severity, message: str, lines: Iterable[str] = ()) -> Finding:
    return Finding(f"static.{code}", severity, message, tuple(lines))


# --- bounds -------------------------------------------------------------------------------------


def _bounds(
    changed: list[str], contract: HarnessContract, factors: tuple[Factor, ...]
) -> Iterator[Finding]:
    """Yields a veto if a path is not editable, or of a factor that may not change."""
    try:
        contract.check_paths(changed)
        if factors:
            contract.require_factors(changed, factors)
        else:
            contract.factor_of(changed)
    except CandidateError as error:
        yield _finding(error.reason, "veto", str(error), changed[:10])


def _sizes(tree: HarnessTree) -> Iterator[Finding]:
    for path, data in sorted(tree.files.items()):
        if len(data) > MAX_FILE_BYTES:
            size = f"{path} has {len(data)} bytes, the limit is {MAX_FILE_BYTES}"
            yield _finding("file_too_large", "veto", size)
    total = sum(map(len, tree.files.values()))
    if total > MAX_TREE_BYTES or len(tree.files) > MAX_FILES:
        message = (
            f"{len(tree.files)} files of {total} bytes in all; "
            f"the limits are {MAX_FILES} and {MAX_TREE_BYTES}"
        )
        yield _finding("tree_too_large", "veto", message)


# --- parsing ------------------------------------------------------------------------------------


def _parsed(present: Mapping[str, bytes], contract: HarnessContract) -> Iterator[Finding]:
    for path, data in present.items():
        if len(data) > MAX_FILE_BYTES:
            continue
        try:
            text = data.decode("utf-8")
            read_as = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except (UnicodeDecodeError, SyntaxError) as error:
            yield _finding("not_text", "veto", f"{path} is not UTF-8: {error}")
            continue
        if path.endswith(".py") and not read_as.startswith("utf-8"):  # comments may hold code
            yield _finding("not_text", "veto", f"{path} asks to be read as {read_as}, not UTF-8")
            continue
        yield from _parsed_file(path, text, contract)


def _parsed_file(path: str, text: str, contract: HarnessContract) -> Iterator[Finding]:
    if path.endswith(".py"):
        tree = _python(text)
        if isinstance(tree, str):
            yield _finding("python_syntax", "veto", f"{path}: {tree}")
        else:
            missing = [name for name in _required(path, contract) if name not in _top_level(tree)]
            if missing:
                message = f"{path} does not define {', '.join(missing)}"
                yield _finding("missing_name", "veto", message)
            places = [f"line {line}: {what}" for line, what in sorted(_odd_nodes(tree))]
            if places:
                message = f"{path} reaches outside its part: {places[0]}"
                yield _finding("suspect_code", "warn", message, places[:10])
    else:
        yield from _data_file(path, text)


def _data_file(path: str, text: str) -> Iterator[Finding]:
    readers: dict[str, Callable[[str], object]] = {"toml": tomllib.loads, "json": json.loads}
    reader = readers.get(path.rsplit(".", 1)[-1])
    if reader is None:
        return
    try:
        reader(text)
    except (ValueError, RecursionError) as error:
        yield _finding("data_syntax", "veto", f"{path}: {error}")


def _python(text: str) -> ast.Module | str:
    """Returns the syntax tree, or a sentence on what is wrong with the text."""
    try:
        return parse_python(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def _required(path: str, contract: HarnessContract) -> tuple[str, ...]:
    name = path.rsplit("/", 1)[-1]
    if contract.entry is not None and path == contract.entry[0]:
        return (contract.entry[1],)
    factors = contract.factors_matching(path)
    if "diagnostics" in factors and not name.startswith("_"):
        return DIAGNOSTIC_NAMES
    return REQUIRED_NAMES.get(name, ()) if factors else ()


def _top_level(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name) for alias in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names


def _odd_nodes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = {alias.name.split(".")[0] for alias in node.names}
            yield from ((node.lineno, f"imports {m}") for m in modules & SUSPECT_IMPORTS)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            if module in SUSPECT_IMPORTS:
                yield node.lineno, f"imports {module}"
        elif isinstance(node, ast.Name) and node.id in SUSPECT_NAMES:
            yield node.lineno, f"uses {node.id}"
        elif isinstance(node, ast.Attribute) and node.attr in SUSPECT_NAMES:
            yield node.lineno, f"uses .{node.attr}"


# --- the change as a whole ----------------------------------------------------------------------


def _removed_but_required(
    base: HarnessTree, candidate: HarnessTree, changed: list[str], contract: HarnessContract
) -> Iterator[Finding]:
    removed = [path for path in changed if path in base.files and path not in candidate.files]
    for path in removed:
        if _required(path, contract) and "diagnostics" not in contract.factors_matching(path):
            yield _finding("file_removed", "veto", f"{path} is needed and was removed")


def _same_meaning(
    base: HarnessTree, candidate: HarnessTree, changed: list[str]
) -> Iterator[Finding]:
    """Yields a veto if only comments or layout changed, which cannot move any metric."""
    if changed and all(_same_code(base.files.get(p), candidate.files.get(p), p) for p in changed):
        yield _finding("no_effect", "veto", "the change leaves every program and setting as it was")


def _same_code(before: bytes | None, after: bytes | None, path: str) -> bool:
    if before is None or after is None:
        return False
    kind = path.rsplit(".", 1)[-1]
    readers: dict[str, Callable[[bytes], object]] = {
        "py": lambda data: ast.dump(parse_python(data)),
        "toml": lambda data: tomllib.loads(data.decode()),
    }
    if kind not in readers or max(len(before), len(after)) > MAX_FILE_BYTES:
        return False
    try:
        return readers[kind](before) == readers[kind](after)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
