"""A failing test as a script that a user of the package could have sent: what it does up to the
statement that fails, with the names that this takes, and nothing of the test's frame.

Promises: only text is read here; a script is a guess until it has run (`Bench.said`), on the sound
source and on the faulty one. Does not cover: tests that live by fixtures which are more than a
value, by `self`, or by files beside them.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from meta_agent.core.parsing.syntax import parse_expression, parse_python
from meta_agent.domains.tasks._suite_source import (
    Def,
    UnreachableError,
    find_test,
    read_module,
)

_MOST_LINES = 30
_CHANGES = {one.__name__: one for one in (str.upper, str.lower, str.title, str.capitalize)}
_SHORT = 80
_ODD = (
    *(ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Assert),
    *(ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp),
)
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__"}
_Statements = Sequence[ast.stmt]


class Script(NamedTuple):
    """One script. `refuses`: the test wants an error of it. `subject`: the statement that fails.

    `expression`: what is printed, where nothing but imports stands before it. `odd`: how much of it
    no report has: loops, definitions, made-up bulk, pytest, a plain assertion.
    """

    code: str
    subject: str
    refuses: bool
    expression: str = ""
    odd: int = 0


def scripts(
    source: bytes,
    path: str,
    name: str,
    *,
    lines: Iterable[int],
    parameters: Mapping[str, str],
    root: str,
) -> list[Script]:
    """Ways to show a failure, the plainest first. `root`: where the package is imported from."""
    module = read_module(source)
    function = find_test(module, name)
    last = _failing(function, lines)
    text = _Text(source.decode().split("\n"))
    scope = _Scope(module, text, _package_of(path, root), parameters)
    before = [one for one in function.body if one.lineno < last.lineno and not _is_check(one)]
    found = []
    for ending, refuses in _endings(text, last):
        for steps in (_needed(before, ending), before):
            if script := scope.script(steps, ending, refuses):
                found.append(script)
    return list(dict.fromkeys(found))


def uses(
    source: bytes, path: str, name: str, parameters: Mapping[str, str], root: str
) -> list[Script]:
    """What a test asks in one expression: uses that a report can set beside its own."""
    module = read_module(source)
    function = find_test(module, name)
    text = _Text(source.decode().split("\n"))
    scope = _Scope(module, text, _package_of(path, root), parameters)
    found = []
    for check in filter(_is_check, function.body):
        for ending, _ in [] if isinstance(check, ast.With) else list(_endings(text, check))[:1]:
            if (script := scope.script([], ending, False)) and script.expression:
                found.append(script)
    return found


def _failing(function: Def, lines: Iterable[int]) -> ast.stmt:
    """The statement of the function's own block that failed."""
    end = function.end_lineno or function.lineno
    inside = [line for line in lines if function.body[0].lineno <= line <= end]
    if not inside:
        raise UnreachableError(f"{function.name} fails elsewhere")
    line = inside[-1]
    return next(one for one in function.body if one.lineno <= line <= (one.end_lineno or 0))


def _package_of(path: str, root: str) -> tuple[str, ...]:
    """The package that a test file lies in, for its relative imports."""
    parts = PurePosixPath(path).parts[:-1]
    return parts[1:] if root != "." and parts[:1] == (root,) else parts


class _Text:
    """Statements as they were written."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def of(self, node: ast.stmt) -> str:
        """A statement from its first column, its decorators included, its comments left out."""
        above = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in above)])
        lines = list(self._lines[first - 1 : node.end_lineno])
        if any(isinstance(one, ast.Constant) and _spans(one) for one in ast.walk(node)):
            # What is inside a string keeps its column.
            return "\n".join(_unindented(lines, node, node.col_offset))
        return textwrap.dedent("\n".join(one for one in lines if not _is_comment(one)))

    def expression(self, node: ast.expr) -> str:
        """An expression, in brackets where it takes several lines."""
        found = ast.get_source_segment("\n".join(self._lines), node)
        return found if found and "\n" not in found else ast.unparse(node)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _spans(node: ast.Constant) -> bool:
    return isinstance(node.value, str | bytes) and node.lineno != node.end_lineno


def _unindented(lines: Sequence[str], node: ast.stmt, column: int) -> Iterator[str]:
    first = node.lineno
    kept = {
        number
        for one in ast.walk(node)
        if isinstance(one, ast.Constant | ast.JoinedStr)
        for number in range(one.lineno + 1, (one.end_lineno or one.lineno) + 1)
    }
    for number, line in enumerate(lines, first):
        if number in kept:
            yield line
        elif not _is_comment(line):
            yield line[column:]


# --- what a script ends with ---------------------------------------------------------------------


def _endings(text: _Text, last: ast.stmt) -> Iterator[tuple[str, bool]]:
    """What to run in place of the failing statement, and whether an error is what is wanted."""
    if isinstance(last, ast.With) and _is_raises(last.items[0].context_expr):
        *before, final = last.body
        head = [text.of(one) for one in before]
        if isinstance(final, ast.Expr):
            yield "\n".join([*head, f"print({text.expression(final.value)})"]), True
        yield "\n".join([*head, text.of(final)]), True
        return
    call = last.value if isinstance(last, ast.Expr) else None
    if isinstance(call, ast.Call) and _is_raises(call) and len(call.args) > 1:
        inner = ast.Call(call.args[1], call.args[2:], call.keywords)
        yield f"print({ast.unparse(inner)})", True
        return
    for shown in _shown(last):
        written = text.expression(shown)
        yield f"print({written})", False
        yield f"print(repr({written}))", False
    yield text.of(last), False


def _is_raises(node: ast.expr) -> bool:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name.endswith((".raises", "assertRaises", "assertRaisesRegex")) or name == "raises"


def _shown(last: ast.stmt) -> Iterator[ast.expr]:
    """What a check is about, and then the check as a question."""
    if isinstance(last, ast.Assert):
        yield from _asked(last.test)
    elif isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        name = ast.unparse(last.value.func)
        if "assert" in name.lower():
            sides = [one for one in last.value.args[:2] if not _is_literal(one)]
            yield from sorted(sides, key=_is_name)


def _asked(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        sides = [test.left, test.comparators[0]]
        if isinstance(test.ops[0], ast.In | ast.NotIn):
            sides.reverse()
        yield from sorted((one for one in sides if not _is_literal(one)), key=_is_name)
    yield test


def _is_literal(node: ast.expr) -> bool:
    return not any(isinstance(one, ast.Call | ast.Name) for one in ast.walk(node))


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.With):
        return _is_raises(node.items[0].context_expr)
    if not isinstance(node, ast.Expr):
        return False
    called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
    return isinstance(node.value, ast.Constant) or "assert" in called.lower()


# --- the names that it takes ---------------------------------------------------------------------


def _needed(before: _Statements, ending: str) -> _Statements:
    """The statements that the ending rests on: those that bind or touch a name that it reads."""
    wanted, kept = _read(_nodes(ending)), []
    for one in reversed(before):
        if wanted & _touched(one):
            kept.append(one)
            wanted |= _read(ast.walk(one))
    return kept[::-1]


def _nodes(code: str) -> list[ast.AST]:
    try:
        return list(ast.walk(parse_python(code)))
    except SyntaxError as problem:
        raise UnreachableError(str(problem)) from problem


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    return {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for one in nodes:
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            found.add(one.id)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(one.name)
        elif isinstance(one, ast.arg):
            found.add(one.arg)
        elif isinstance(one, ast.alias):
            found.add((one.asname or one.name).split(".")[0])
        elif isinstance(one, ast.ExceptHandler) and one.name:
            found.add(one.name)
    return found


def _touched(node: ast.stmt) -> set[str]:
    """What a statement binds; of one that binds nothing, what it works on."""
    bound = _bound(ast.walk(node))
    return bound or _read(ast.walk(node)) - _BUILTINS


class _Scope:
    """The module around a test, which lends a script its names."""

    def __init__(
        self, module: ast.Module, text: _Text, package: tuple[str, ...], given: Mapping[str, str]
    ) -> None:
        self._text, self._package, self._given = text, package, given
        self._imports: dict[str, tuple[str, str]] = {}  # name: (module, what is written)
        self._stars: list[str] = []
        self._makers: dict[str, ast.stmt] = {}
        self._learn(module.body)

    def _learn(self, block: _Statements) -> None:
        for node in block:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._learn_import(node)
            elif isinstance(node, ast.If | ast.Try):
                self._learn(node.body)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef):
                targets = (
                    [node]
                    if isinstance(node, ast.FunctionDef | ast.ClassDef)
                    else [*(node.targets if isinstance(node, ast.Assign) else [node.target])]
                )
                names = _bound(
                    one
                    for target in targets
                    for one in ([target] if isinstance(target, ast.stmt) else ast.walk(target))
                )
                self._makers |= dict.fromkeys(names, node)

    def _learn_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = (alias.asname or alias.name).split(".")[0]
            if isinstance(node, ast.Import):
                self._imports[name] = ("", ast.unparse(alias))
                continue
            above = self._package[: len(self._package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            if alias.name == "*":
                self._stars.append(module)
            self._imports[name] = (module, ast.unparse(alias))

    def script(self, steps: _Statements, ending: str, refuses: bool) -> Script | None:
        """The whole script; None where a name cannot be had."""
        body = [self._text.of(one) for one in steps]
        ending = _with_values(ending, self._given, body)
        nodes = [one for part in [*body, ending] for one in _nodes(part)]
        missing = _read(nodes) - _bound(nodes) - _BUILTINS
        given = [f"{name} = {self._given[name]}" for name in sorted(missing & self._given.keys())]
        nodes += [one for line in given for one in _nodes(line)]
        missing = (_read(nodes) - _bound(nodes) - _BUILTINS) - self._given.keys()
        makers: list[ast.stmt] = []
        imports: set[tuple[str, str]] = set()
        if not self._resolve(missing, makers, imports):
            return None
        main = "\n".join([*given, *body, ending])
        if any(isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith) for one in nodes):
            imports.add(("", "asyncio"))
            main = f"async def main():\n{textwrap.indent(main, '    ')}\n\nasyncio.run(main())"
        makers.sort(key=lambda one: one.lineno)
        helpers = [self._text.of(one) for one in makers]
        parts = [_import_lines(imports), "\n".join(helpers), main]
        code = "\n\n".join(part for part in parts if part)
        if code.count("\n") >= _MOST_LINES or _is_private(imports, nodes):
            return None
        alone = main == ending and not helpers and ending.startswith("print(")
        expression = ending[len("print(") : -1] if alone and len(ending) <= _SHORT else ""
        return Script(code, ending, refuses, expression, _oddness(code))

    def _resolve(
        self, names: set[str], makers: list[ast.stmt], imports: set[tuple[str, str]]
    ) -> bool:
        for name in sorted(names):
            if name in self._imports:
                imports.add(self._imports[name])
            elif name in self._makers:
                maker = self._makers[name]
                if maker in makers:
                    continue
                if getattr(maker, "decorator_list", None):
                    return False  # a fixture, most often
                makers.append(maker)
                nodes = list(ast.walk(maker))
                if not self._resolve(_read(nodes) - _bound(nodes) - _BUILTINS, makers, imports):
                    return False
            elif self._stars:
                imports.add((self._stars[-1], name))
            else:
                return False
        return True


def _is_private(imports: Iterable[tuple[str, str]], nodes: Iterable[ast.AST]) -> bool:
    """Whether a script takes what no user does."""
    names = [part for module, alias in imports for part in f"{module}.{alias}".split(".")]
    names += [one.attr for one in nodes if isinstance(one, ast.Attribute)]
    return any(name.startswith("_") and not name.startswith("__") for name in names)


def _oddness(code: str) -> int:
    odd = 0
    for one in _nodes(code):
        made = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
        odd += isinstance(one, _ODD) or (made and isinstance(one.right, ast.Constant))  # type: ignore[attr-defined]
    return odd + len(re.findall(r"\b(?:pytest|range|mock|unittest|random)\b", code))


def _with_values(ending: str, given: Mapping[str, str], body: Sequence[str]) -> str:
    """The ending with a test's parameters in their places, where each stands there alone."""
    said = [one.id for part in (*body, ending) for one in _nodes(part) if isinstance(one, ast.Name)]
    values = {name: given[name] for name in given if said.count(name) == 1}
    if not values.keys() & set(said) or "\n" in ending:
        return ending
    return ast.unparse(_Folded().visit(_Values(values).visit(parse_python(ending))))


class _Folded(ast.NodeTransformer):
    """`'fish'.upper()` is written `'FISH'`."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        told = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(told, ast.Constant) and isinstance(told.value, str) and not node.args:
            change = _CHANGES.get(node.func.attr)  # type: ignore[attr-defined]
            return ast.Constant(change(told.value)) if change else node
        return node


class _Values(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        try:
            found = self._values.get(node.id)
            return parse_expression(found) if found else node
        except SyntaxError as problem:
            raise UnreachableError(f"{node.id} cannot be written: {problem}") from problem

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`f(*args)` with the values of `args` is `f(1, 2)`."""
        self.generic_visit(node)
        node.args = [
            part
            for one in node.args
            for part in (
                one.value.elts
                if isinstance(one, ast.Starred) and isinstance(one.value, ast.List | ast.Tuple)
                else [one]
            )
        ]
        return node


def _import_lines(imports: Iterable[tuple[str, str]]) -> str:
    taken: dict[str, list[str]] = {}
    for module, alias in sorted(imports):
        taken.setdefault(module, []).append(alias)
    plain = [f"import {alias}" for alias in taken.pop("", [])]
    return "\n".join([*plain, *(f"from {one} import {', '.join(of)}" for one, of in taken.items())])
