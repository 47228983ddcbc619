"""HumanEval's own way of judging, and mutants of its solutions.

`official` does what the official executor does with one program: prompt, completion, tests and the
call of `check` in one namespace of one forked process with a timer of 3 seconds, and "no exception"
is a pass. `mutants` changes one operator, constant, comparison or return of a solution at a time,
always in the same order.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gzip
import io
import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_SEC = 3.0


def problems(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def official(problem: dict[str, str], completion: str) -> bool:
    """Whether the official executor would call it passed."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    program = f"{problem['prompt']}{completion}\n{problem['test']}\ncheck({problem['entry_point']})"
    child = context.Process(target=_run, args=(program, theirs))
    child.start()
    theirs.close()
    passed = False
    if mine.poll(TIMEOUT_SEC + 1):
        with contextlib.suppress(EOFError):
            passed = bool(mine.recv())
    child.kill()
    child.join()
    mine.close()
    return passed


def _run(program: str, pipe: Any) -> None:
    passed = False
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, TIMEOUT_SEC)
        with contextlib.suppress(BaseException):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(program, {})  # noqa: S102
            passed = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.chdir("/")
    pipe.send(passed)
    os._exit(0)


def mutants(problem: dict[str, str]) -> Iterator[str]:
    """Whole programs that define the entry point, each with one change in its body."""
    tree = ast.parse(problem["prompt"] + problem["canonical_solution"])
    entry = problem["entry_point"]
    places = [node for node in ast.walk(tree) if _is_function(node, entry)]
    count = sum(1 for _ in _sites(places[-1]))
    for index in range(count):
        changed = copy.deepcopy(tree)
        function = [node for node in ast.walk(changed) if _is_function(node, entry)][-1]
        for number, (node, change) in enumerate(_sites(function)):
            if number == index:
                change(node)
        with contextlib.suppress(Exception):
            yield ast.unparse(ast.fix_missing_locations(changed))


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


_COMPARE = {
    ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip


def _sites(function: ast.AST) -> Iterator[tuple[Any, Any]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
            yield node, _flip_compare
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            yield node, _flip_binary
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, _next_number
        elif isinstance(node, ast.BoolOp):
            yield node, _flip_bool
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node, _return_nothing


def _flip_compare(node: ast.Compare) -> None:
    node.ops[0] = _COMPARE[type(node.ops[0])]()


def _flip_binary(node: ast.BinOp) -> None:
    node.op = _BINARY[type(node.op)]()


def _flip_bool(node: ast.BoolOp) -> None:
    node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()


def _next_number(node: ast.Constant) -> None:
    assert isinstance(node.value, int)
    node.value += 1


def _return_nothing(node: ast.Return) -> None:
    node.value = ast.Constant(None)
