"""What edits of scaffolds look for in their syntax: calls, messages, and what is done to words.

A scaffold is found by what it awaits: `model.chat(messages)` and `tools.call(name, ...)`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from meta_agent.proposers.rules._surgery import Function, Surgery

_METHODS: Final = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "swapcase", "replace"}
    | {"removeprefix", "removesuffix", "zfill", "ljust", "rjust", "translate", "format", "join"}
)
_CASTS: Final = frozenset(
    {"str", "int", "float", "repr", "ord", "chr", "abs", "min", "max", "sorted"}
)
Loop = ast.For | ast.While | ast.AsyncFor


def outermost(s: Surgery, node: ast.expr) -> ast.expr:
    """The expression that is nothing but something done to a node; the node where nothing is."""
    for outer in s.around(node):
        if isinstance(outer, ast.Attribute) and isinstance(s.parents[outer], ast.Call):
            continue  # the method of a call, which is looked at next
        if not isinstance(outer, ast.expr) or isinstance(outer, ast.BinOp | ast.Await):
            break
        if core(outer, conditions=False) is not core(node, conditions=False):
            break
        node = outer
    return node


def awaited(function: Function, attribute: str) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        call = node.value if isinstance(node, ast.Await) else None
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and getattr(method, "attr", None) == attribute:
            yield call


def statements(function: Function) -> Iterable[ast.stmt]:
    found = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    return sorted(found[1:], key=lambda node: (node.lineno, node.col_offset))


def appends(function: Function, base: str) -> list[tuple[ast.Call, ast.Dict]]:
    found = []
    for node in ast.walk(function):
        method = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(method, ast.Attribute):
            continue
        if method.attr == "append" and is_name(method.value, base):
            found += [(node, each) for each in node.args if isinstance(each, ast.Dict)]
    return sorted(found, key=lambda pair: pair[0].lineno)


def always(s: Surgery, append: ast.Call) -> None:
    """Takes away a condition under which alone a message is added."""
    guard = s.parents[s.statement_of(append)]
    if isinstance(guard, ast.If) and not guard.orelse and len(guard.body) == 1:
        s.unguard(guard)


def target_of(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def calls_tool(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    call = value.value if isinstance(value, ast.Await) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "call"
    )


def in_loop_of(s: Surgery, node: ast.AST, chat: ast.Call) -> bool:
    """Whether a node is inside of a loop that the call is in as well."""
    loops = {outer for outer in s.around(chat) if isinstance(outer, Loop)}
    return any(outer in loops for outer in s.around(node))


def field(message: ast.Dict, name: str) -> ast.expr | None:
    for key, value in zip(message.keys, message.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == name:
            return value
    return None


def is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Dict) and field(node, "role") is not None


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def is_part_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Subscript) and is_name(node.value, name)


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_text_of_await(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "text"
        and isinstance(node.value, ast.Await)
    )


def core(node: ast.expr, *, conditions: bool = True) -> ast.expr:
    """The words inside what is done to them."""
    inner: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inner = node.func.value if node.func.attr in _METHODS else None
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        inner = node.args[0] if node.func.id in _CASTS or conditions else None
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        inner = node.value
    elif isinstance(node, ast.BinOp):
        sides = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
        inner = sides[0] if len(sides) == 1 else None
    elif isinstance(node, ast.IfExp) and conditions:
        inner = either(node.body, node.orelse)
    elif isinstance(node, ast.BoolOp) and conditions:
        inner = node.values[0]
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        inner = parts[0] if len(parts) == 1 else None
    return node if inner is None else core(inner, conditions=conditions)


def either(one: ast.expr, other: ast.expr) -> ast.expr | None:
    cores = [core(one), core(other)]
    said = [core for core in cores if not isinstance(core, ast.Constant)]
    same = len({ast.dump(core) for core in said}) == 1
    return said[0] if same or len(said) == 1 else None


def named_limit(node: ast.AST) -> str:
    """`[:LIMIT]`, where the text was cut by a constant of the file."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Slice):
            upper = inner.slice.upper
            if isinstance(upper, ast.Name) and upper.id.isupper() and inner.slice.lower is None:
                return f"[:{upper.id}]"
    return ""


def conversation(function: Function) -> str | None:
    """The list that messages are added to."""
    added: Counter[str] = Counter()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend") and isinstance(node.func.value, ast.Name):
                added[node.func.value.id] += 1 + 9 * any(map(is_message, ast.walk(node)))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            added[node.target.id] += 9 * any(map(is_message, ast.walk(node)))
    return added.most_common(1)[0][0] if added else None
