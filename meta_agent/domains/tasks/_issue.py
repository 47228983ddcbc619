"""Issue texts: what a failing test does up to the statement that fails, and how that fails.

Promises: two runs failed as the text says. No line of the fix, no path of the package and no name
of a test stands in the text. Addresses, ports and temporary paths are taken out.

Does not cover: why somebody wants it, and helpers and fixtures of the test's file.
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


def issue_text(package: Package, tree: Tree, failures: Mapping[str, Failure]) -> str:
    """The shortest text that shows one of the failures; empty if no test can be shown."""
    texts = []
    for test, failure in failures.items():
        path, name = plain_name(test)
        try:
            code = _code(tree.get(path, b""), name, failure)
        except UnreachableError:
            continue
        message = scrubbed(failure.message).strip()
        if code.count("\n") < _MOST_LINES and len(message) <= SHOWN_CHARS:
            prefix = "" if message.startswith(failure.kind) else f"{failure.kind}: "
            texts.append(_text(package, code, prefix + message))
    return min(texts, key=lambda text: (len(text), text), default="")


def same_failures(first: Probe, second: Probe, tests: Sequence[str]) -> dict[str, Failure]:
    """Failures that two runs report alike. What varies is no symptom to report."""
    both = [test for test in tests if test in first.failures and test in second.failures]
    return {
        test: second.failures[test]
        for test in both
        if scrubbed(first.failures[test].message) == scrubbed(second.failures[test].message)
    }


def gives_away(text: str, fixed_lines: Iterable[str]) -> bool:
    """Whether a text repeats a telling line of the fix."""
    flat = " ".join(text.split())
    lines = (" ".join(line.split()) for line in fixed_lines)
    return any(line in flat for line in lines if len(line) >= _TELLING_CHARS)


def scrubbed(message: str) -> str:
    """A message without what differs from run to run."""
    return _PLACE.sub(".../", _PORT.sub(r"\1\2PORT", _ADDRESS.sub("0x...", message)))


def _code(source: bytes, name: str, failure: Failure) -> str:
    """What a test does: imports, parameters, and its statements up to the one that fails."""
    module = parsed(source)
    function = find_test(module, name) if module else None
    lines = [n for n in failure.lines if function and function.body[0].lineno <= n]
    if module is None or function is None or not lines:
        raise UnreachableError(f"{name} fails elsewhere")
    nodes = [node for node in function.body if node.lineno <= lines[-1] and not _is_text(node)]
    if not nodes or lines[-1] > (nodes[-1].end_lineno or 0):
        raise UnreachableError(f"{name} fails elsewhere")
    names = read_names(child for node in nodes for child in ast.walk(node))
    imports = [n for n in ast.walk(module) if isinstance(n, ast.Import | ast.ImportFrom)]
    for node in imports:
        node.names = [alias for alias in node.names if bound_names([alias]) & names]
    head = [ast.unparse(node) for node in imports if node.names]
    values = failure.parameters.items()
    parameters = [f"{name} = {value}" for name, value in values if name in names]
    text = source.decode("utf-8", "replace").splitlines()
    body = text[nodes[0].lineno - 1 : nodes[-1].end_lineno]
    blank = [""] if head else []
    return "\n".join([*dict.fromkeys(head), *blank, *parameters, textwrap.dedent("\n".join(body))])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(package: Package, code: str, error: str) -> str:
    about = f"{package.name} {package.version}".strip()
    title = textwrap.shorten(error.split("\n")[0], _TITLE_CHARS, placeholder=" ...")
    return (
        f"{package.name}: {title}\n\nWith {about} this should pass:\n\n```python\n{code}\n```\n\n"
        f"It ends with\n\n```\n{error}\n```\n"
    )
