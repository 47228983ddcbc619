"""A package without a fault: what its tests say, which functions they call, what its documentation
shows.

Promises: what varies from run to run decides nothing. Does not cover: documentation outside of
docstrings and the readme.
"""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON
from meta_agent.domains.swe import Report
from meta_agent.domains.tasks._bench import Bench, Said
from meta_agent.domains.tasks._journal import Journal
from meta_agent.domains.tasks._names import defined_names, parsed
from meta_agent.domains.tasks._package import Package
from meta_agent.domains.tasks._stable import Stable, repeated, together, without_results

_WHY_CHARS = 300
_MOST_EXAMPLES = 100  # docstrings that show something
_EXAMPLES = """import importlib
try:
    globals().update(vars(importlib.import_module({module!r})))
except Exception:
    pass
for one in {sources!r}:
    try:
        exec(compile(one, "example", "single"))
    except Exception as error:
        print(type(error).__name__, error)
"""


@dataclass(frozen=True, slots=True)
class Sound:
    """See the module. `examples`: scripts of the documentation, and what each prints."""

    stable: Stable
    covering: Mapping[tuple[str, int], tuple[str, ...]]
    names: frozenset[str]
    tests: tuple[str, ...]
    waiting: frozenset[str] = frozenset()
    examples: Mapping[str, Said] = field(default_factory=dict)

    def about(self) -> str:
        """In a sentence."""
        text = f"{len(self.stable.passing)} stable tests call {len(self.covering)} functions"
        out = {"flaky": self.stable.flaky, "racing their own threads": self.waiting}
        left = [f"; {why} and left out: {sorted(tests)}" for why, tests in out.items() if tests]
        return text + "".join(left)


def read_sound(bench: Bench, repeats: int, journal: Journal) -> Sound:
    """Measures the sound source: repeatedly by the grader's runner, once by the telling one."""

    def suite() -> JSON:
        report = bench.suite(bench.package.tree)
        told = "" if report.verdict == "complete" else _why(report)
        return [told, dict(report.results)]

    number = iter(range(repeats))
    runs = repeated(lambda: tuple(journal.once(f"sound {next(number)}", suite)), repeats)
    tests = tuple(sorted({test.split("::", 1)[0] for run in runs for test in run}))
    traced = journal.once("traced", lambda: _traced(bench, tests))
    waiting = frozenset(traced["waiting"])
    stable = together([*runs, traced["results"]]).without(waiting)
    covering: dict[tuple[str, int], list[str]] = {}
    for test, calls in sorted(traced["calls"].items()):
        for path, line in calls if test in stable.passing else ():
            covering.setdefault((path, line), []).append(test)
    shown = journal.once("examples", lambda: _shown(bench))
    return Sound(
        stable,
        {place: tuple(found) for place, found in covering.items()},
        defined_names(bench.package.tree[path] for path in bench.package.sources),
        tests,
        waiting,
        {code: Said(*said) for code, said in shown.items()},
    )


def _why(report: Report) -> str:
    said = " ".join(" ".join(report.evidence).split())[-_WHY_CHARS:]
    return f"{without_results(report.verdict)}: {said}"


def _traced(bench: Bench, tests: tuple[str, ...]) -> JSON:
    package = bench.package
    found = bench.probe(package.tree, trace=package.sources, tests=tests)
    if found.problem:
        raise ConfigError(
            f"the tests give no results while their calls are watched: {found.problem}"
        )
    calls = {test: sorted(one) for test, one in found.calls.items()}
    return {"results": dict(found.results), "calls": calls, "waiting": sorted(found.waiting)}


def _shown(bench: Bench) -> JSON:
    """What the documentation's examples print, alike in two runs."""
    codes = list(_examples(bench.package))[:_MOST_EXAMPLES]
    if not codes:
        return {}
    said = [bench.said(bench.package.tree, codes) for _ in range(2)]
    return {code: list(one) for code, one, two in zip(codes, *said, strict=False) if one == two}


def _examples(package: Package) -> Iterator[str]:
    """One script for each text that shows something at a prompt."""
    root = package.pythonpath[0]
    first = min(package.top_names, key=len)
    readmes = (path for path in package.tree if path.upper().startswith("README"))
    texts = [(first, package.tree[path].decode("utf-8", "replace")) for path in sorted(readmes)]
    for path in package.sources:
        module = PurePosixPath(path).relative_to(root).with_suffix("")
        name = ".".join(module.parts).removesuffix(".__init__")
        texts += [(name, text) for text in _docstrings(package.tree[path])]
    for name, text in texts:
        try:
            found = [one.source for one in doctest.DocTestParser().get_examples(text)]
        except ValueError:  # its prompts are indented anyhow
            continue
        if found:
            yield _EXAMPLES.format(module=name, sources=found)


def _docstrings(source: bytes) -> Iterator[str]:
    tree = parsed(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text
