"""Issue texts of tasks, written from failing tests.

`issue_text` shows the statements of a test up to the one that fails, and its error, which two runs
gave alike. No text may hold a
line of the fix, a path of the source or the name of a deciding test. Addresses, ports and temporary
paths are replaced.

Does not cover: helpers and fixtures of a test's file.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from meta_agent.domains.swe import Tree
from meta_agent.domains.tasks._bench import Failure, Probe
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._source import (
    UnreachableError,
    bound_names,
    find_test,
    parsed,
    plain_name,
    read_names,
)

SHOWN_CHARS = 900
_MOST_LINES = 40
_TITLE_CHARS = 80
_TELLING_CHARS = 12  # shorter lines (`return x`, `else:`) give nothing away
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_PLACE = re.compile(r"/(?:tmp|var|home|root|work|repo|usr|opt|private)(/[\w.~-]+)*/")
_PORT = re.compile(r"\b(localhost|127(?:\.\d+){3})(:|['\"]?, (?:port=)?)\d{4,5}\b")


def issue_text(
    package: Package, tree: Tree, failures: Mapping[str, Failure], *, every: bool = False
) -> str:
    """Returns an issue text that shows the shortest failing test; empty if none can be shown.

    With `every`, the text shows one failure of each test function that can be shown.
    """
    by_function: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for test, failure in failures.items():
        path, name = plain_name(test)
        try:
            code = _code(tree.get(path, b""), name, failure)
        except UnreachableError:
            continue
        message = scrubbed(failure.message).strip()
        if code.count("\n") < _MOST_LINES and len(message) <= SHOWN_CHARS:
            prefix = "" if message.startswith(failure.kind) else f"{failure.kind}: "
            by_function.setdefault((path, name), []).append((code, prefix + message))
    shortest = (min(symptoms, key=_length) for symptoms in by_function.values())
    symptoms = sorted(shortest, key=_length)[: None if every else 1]
    return _text(package, symptoms) if symptoms else ""


def _length(symptom: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    return sum(map(len, symptom)), symptom


def same_failures(first: Probe, second: Probe, tests: Sequence[str]) -> dict[str, Failure]:
    """Returns the failures of `tests`, by id, that both runs report with the same message."""
    both = [test for test in tests if test in first.failures and test in second.failures]
    return {
        test: second.failures[test]
        for test in both
        if scrubbed(first.failures[test].message) == scrubbed(second.failures[test].message)
    }


def gives_away(text: str, fixed_lines: Iterable[str]) -> bool:
    """Returns whether a text repeats a line of the fix of 12 characters or more."""
    flat = " ".join(text.split())
    lines = (" ".join(line.split()) for line in fixed_lines)
    return any(line in flat for line in lines if len(line) >= _TELLING_CHARS)


def scrubbed(message: str) -> str:
    """Returns a message with placeholders for addresses, ports and paths, which vary by run."""
    return _PLACE.sub(".../", _PORT.sub(r"\1\2PORT", _ADDRESS.sub("0x...", message)))


def _code(source: bytes, name: str, failure: Failure) -> str:
    """Returns a test's code up to the statement that fails, with its imports and parameters."""
    module = parsed(source)
    function = find_test(module, name) if module else None
    lines = [n for n in failure.lines if function and function.body[0].lineno <= n]
    if module is None or function is None or not lines:
        raise UnreachableError(f"the test {name} fails outside its own code")
    nodes = [node for node in function.body if node.lineno <= lines[-1] and not _is_text(node)]
    if not nodes or lines[-1] > (nodes[-1].end_lineno or 0):
        raise UnreachableError(f"the test {name} fails outside its own code")
    names = read_names(child for node in nodes for child in ast.walk(node))
    imports = [n for n in ast.walk(module) if isinstance(n, ast.Import | ast.ImportFrom)]
    for node in imports:
        node.names = [alias for alias in node.names if bound_names([alias]) & names]
    head = [ast.unparse(node) for node in imports if node.names]
    values = failure.parameters.items()
    parameters = [f"{name} = {value}" for name, value in values if name in names]
    blank = [""] if head else []
    return "\n".join([*dict.fromkeys(head), *blank, *parameters, *_dedented(source, nodes)])


def _dedented(source: bytes, nodes: Sequence[ast.stmt]) -> list[str]:
    """Returns the lines of statements without their indentation. Lines in a string keep theirs."""
    margin = nodes[0].col_offset
    parts = (part for node in nodes for part in ast.walk(node))
    strings = (part for part in parts if isinstance(part, ast.Constant | ast.JoinedStr))
    inside = {
        line
        for string in strings
        for line in range(string.lineno + 1, (string.end_lineno or 0) + 1)
    }
    lines = enumerate(source.decode("utf-8", "replace").splitlines(), start=1)
    return [
        line if number in inside or line[:margin].strip() else line[margin:]
        for number, line in lines
        if nodes[0].lineno <= number <= (nodes[-1].end_lineno or 0)
    ]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(package: Package, symptoms: Sequence[tuple[str, str]]) -> str:
    about = f"{package.name} {package.version}".strip()
    title = textwrap.shorten(symptoms[0][1].split("\n")[0], _TITLE_CHARS, placeholder=" ...")
    openings = [f"With {about} this should pass:", *["This should pass too:"] * (len(symptoms) - 1)]
    parts = [
        f"{opening}\n\n```python\n{code}\n```\n\nIt ends with\n\n```\n{error}\n```\n"
        for opening, (code, error) in zip(openings, symptoms, strict=True)
    ]
    return "\n".join([f"{package.name}: {title}\n", *parts])
