"""How often an honest fix of a public package is unchecked: real commits, graded as rows of `swe`.

    python benchmarks/honest_fixes.py out.jsonl --rows 20 --repository NAME=FOLDER ...
    python benchmarks/honest_fixes.py out.jsonl         the figures so far

The sample of a repository are its newest commits with one parent that change Python sources (at
most 200 lines in 8 files) and tests, whatever they say, of which a changed test file has a test
that fails before and passes after. Only the changed test files are run. Each row is graded with
three patches, in sandboxes of processes:

* `own`: the commit's own change; the reference is the same;
* `later`: its files as a later commit left them, the first of ten that changes them again;
* `rewritten`: its changed functions with other local names, turned conditions and named results.

A patch that does not resolve the row is not counted: nobody is accused by it. One line a row is
appended to the file, so the command can be stopped and repeated.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from meta_agent.core.history import foreign_history
from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.swe import Tree, make_patch
from meta_agent.domains.swe._patch import Changes, overlay
from meta_agent.domains.swe.grading._grade import grade_patch
from meta_agent.domains.swe.grading._runs import LOOSE, Bench
from meta_agent.domains.swe.grading._sift import TaskFiles
from meta_agent.domains.tasks._mine import Fix, read_fixes
from meta_agent.sandboxes import open_sandbox

ARMS = ("own", "later", "rewritten")
LATER = 10
_LIMITS = SandboxLimits(memory_mb=1024, cpus=1.0, pids=128, scratch_mb=256, deadline_sec=900.0)


class Counting:
    """Opens sandboxes of processes and counts them."""

    def __init__(self) -> None:
        self.opened = 0

    def __call__(self, image: str | None) -> Sandbox:
        self.opened += 1
        return open_sandbox("process", run="honest", limits=_LIMITS, image=image)


class Rewriter(ast.NodeTransformer):
    """Writes a function otherwise: local names, the order of branches, results by name."""

    def __init__(self, function: ast.FunctionDef) -> None:
        nodes = list(ast.walk(function))
        fixed = {node.arg for node in nodes if isinstance(node, ast.arg)}
        for node in nodes:
            if isinstance(node, ast.Global | ast.Nonlocal):
                fixed.update(node.names)
            elif isinstance(node, ast.alias):
                fixed.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
                fixed.add(node.name or "")
        stored = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        self._names = {name: f"{name}_value" for name in stored - fixed}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not node.orelse:
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is None or isinstance(node.value, ast.Constant | ast.Name):
            return node
        result = ast.Name("outcome_value", ast.Store())
        return [ast.Assign([result], node.value), ast.Return(ast.Name("outcome_value", ast.Load()))]


def rewritten(before: bytes, after: bytes) -> bytes:
    """Returns `after` with its changed functions written otherwise. May raise SyntaxError."""
    known = {ast.dump(node) for node in ast.walk(ast.parse(before))}
    tree = ast.parse(after)
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.FunctionDef) and ast.dump(node) not in known:
            rewriter = Rewriter(node)
            parts = [rewriter.visit(part) for part in node.body]
            node.body = [p for part in parts for p in (part if isinstance(part, list) else [part])]
    return (ast.unparse(ast.fix_missing_locations(tree)) + "\n").encode()


def task_of(name: str, fix: Fix) -> TaskFiles | str:
    """Returns a commit as a task, or why it is none."""
    files = tuple(
        path for path in fix.tests if path.endswith(".py") and fix.tests[path] is not None
    )
    files = tuple(path for path in files if Path(path).name.startswith("test"))
    if not files:
        return "changes no test file"
    row = SweRow(
        instance_id=f"{name}-{fix.commit.id[:10]}",
        repo=name,
        base_commit=fix.commit.parent,
        problem_statement=fix.commit.subject,
        patch=fix.patch,
        test_patch=make_patch(fix.before, fix.tests),
        fail_to_pass=(),
        pass_to_pass=(),
        split="search",
        split_is_explicit=True,
        image=None,
        source=SourceSpec(
            archive="a.tar",
            sha256="0" * 64,
            python=sys.executable,
            pythonpath=("src", ".") if any(p.startswith("src/") for p in fix.before) else (".",),
        ),
        line=1,
    )
    tree = overlay(fix.before, fix.tests)
    with closing(Bench(row, Counting(), (), (), files)) as bench:
        fixed = bench.run(overlay(tree, fix.source), LOOSE).results
        found = bench.run(tree, LOOSE).results
    passing = {test for test, status in fixed.items() if status == "PASSED"}
    if not passing:
        return "no test passes with the fix"
    fails = sorted(test for test in passing if found.get(test) != "PASSED")
    if not fails:
        return "no test tells the fix"
    stays = tuple(sorted(passing - set(fails)))
    row = replace(row, fail_to_pass=tuple(fails), pass_to_pass=stays)
    return TaskFiles(row, fix.before, dict(fix.source))


def patches(fix: Fix, later: list[tuple[str, Tree]]) -> Iterator[tuple[str, Changes]]:
    yield "own", fix.source
    python = [path for path in fix.source if path.endswith(".py") and fix.source[path] is not None]
    for _, tree in later:
        newer: Changes = {path: tree.get(path) for path in python}
        if all(newer.values()) and newer != {path: fix.source[path] for path in python}:
            yield "later", {**fix.source, **newer}
            break
    texts: Changes = dict(fix.source)
    for path in python:
        texts[path] = rewritten(fix.before.get(path, b""), fix.source[path] or b"")
    yield "rewritten", texts


def graded(files: TaskFiles, changes: Changes) -> dict[str, Any]:
    factory = Counting()
    start = time.monotonic()
    end = grade_patch(files, make_patch(files.visible, changes), factory)
    return {
        "resolved": end.success,
        "flags": list(end.flags),
        "unchecked": end.detail["unchecked"],
        "sandboxes": factory.opened,
        "seconds": round(time.monotonic() - start, 1),
        **({} if end.success else {"verdict": end.detail["verdict"]}),
    }


def measure(name: str, repository: Path, out: Path, count: int, until: float) -> None:
    """Grades a repository's commits until there are `count` rows, or the time is over."""
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {line["commit"] for line in lines}
    rows = sum(line["repo"] == name and "arms" in line for line in lines)
    with foreign_history(repository, deep=True) as history:
        commits = [commit.id for commit in history.commits()]
        for fix in read_fixes(history, any_message=True):
            if rows >= count or time.monotonic() > until:
                return
            if isinstance(fix, str) or fix.commit.id in done:
                continue
            at = commits.index(fix.commit.id)
            newer = reversed(history.commits()[:at])
            after = [commit for commit in newer if set(commit.changed) & set(fix.source)]
            later = [(c.id, history.tree(c.id)) for c in after[:LATER]]
            line: dict[str, Any] = {"repo": name, "commit": fix.commit.id}
            files = task_of(name, fix)
            if isinstance(files, str):
                line["refused"] = files
            else:
                rows += 1
                line["subject"] = fix.commit.subject
                line["arms"] = {arm: graded(files, c) for arm, c in patches(fix, later)}
                line["walls"] = repr(files.walls.get("walls", "strict"))
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def figures(out: Path) -> None:
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    rows = [line for line in lines if "arms" in line]
    print(len(rows), "rows", dict(Counter(line["repo"] for line in rows)))
    print("refused", dict(Counter(line["refused"] for line in lines if "refused" in line)))
    most = max(arm["sandboxes"] for line in rows for arm in line["arms"].values())
    print("most sandboxes for one grading:", most)
    for arm in ARMS:
        ends = [(line, line["arms"][arm]) for line in rows if arm in line["arms"]]
        clean = [end for _, end in ends if end["resolved"]]
        flagged = [end for end in clean if end["flags"]]
        kinds = dict(Counter(flag for end in flagged for flag in end["flags"]))
        print(f"{arm:10} {len(ends)} tried, {len(clean)} resolved, {len(flagged)} flagged {kinds}")
        for line, end in ends:
            if end["resolved"] and end["flags"]:
                print(f"   {line['repo']} {line['commit'][:9]} {end['flags']} {end['unchecked']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repository", action="append", default=[], help="NAME=FOLDER")
    parser.add_argument("--rows", type=int, default=60, help="rows a repository")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    for repository in options.repository:
        name, _, folder = repository.partition("=")
        measure(name, Path(folder), options.out, options.rows, until)
    figures(options.out)


if __name__ == "__main__":
    main()
