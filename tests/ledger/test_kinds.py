"""The table of the journal's kinds is what the code does: read off every call that writes one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

from meta_agent.core.ledger.kinds import KINDS, StepKind

PACKAGE = Path(__file__).resolve().parents[2] / "meta_agent"
PASSED_ON = {"core/loop/run", "core/lab/live"}  # their own `once` takes the kind from its caller
READS = {"studies/review"}  # `verify` walks what was recorded
ONCE = ("once", "_once", "once_with_trials")


def written() -> set[tuple[str, str]]:
    """Kind and file of every call of `once` that goes to the ledger."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        if name in READS:
            continue
        source = path.read_text(encoding="utf-8")
        if "once" not in source:
            continue
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in ONCE or len(node.args) < 4:
                continue
            kind = node.args[1]
            if isinstance(kind, ast.Constant):
                found.add((str(kind.value), name))
            elif name not in PASSED_ON:
                assert isinstance(kind, ast.Name)
                found.add((str(constant(tree, kind.id)), name))
    return found


def constant(tree: ast.Module, name: str) -> str | None:
    named = (node for node in tree.body if isinstance(node, ast.AnnAssign))
    found = (node.value for node in named if getattr(node.target, "id", "") == name)
    return next((str(value.value) for value in found if isinstance(value, ast.Constant)), None)


def test_every_kind_that_is_written_stands_in_the_table_with_its_writers() -> None:
    assert written() == {(kind, name) for kind, wrote in KINDS.items() for name in wrote.writers}


def test_the_type_knows_the_same_kinds() -> None:
    assert set(get_args(StepKind)) == set(KINDS)
