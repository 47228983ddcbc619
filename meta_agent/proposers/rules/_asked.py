"""What the environment is asked, as it was written: every reply, whole, and nothing else.

What stands between a reply and the environment and does something to the words (a slice, a method
of strings, arithmetic, a condition) is taken away.

Promises: each function edits a `Surgery` and leaves alone what it does not recognise. Not covered:
scaffolds that build calls at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from meta_agent.proposers.rules._surgery import Function, Surgery
from meta_agent.proposers.rules._words import (
    awaited,
    core,
    in_loop_of,
    is_none,
    outermost,
    statements,
    target_of,
)

_PREDICATES: Final = frozenset(
    {"isalnum", "isalpha", "isdigit", "isdecimal", "isnumeric", "islower", "isupper", "isascii"}
    | {"startswith", "endswith", "isidentifier", "isspace", "istitle", "isprintable"}
)
_OTHER_END: Final = {"partition": "rpartition", "find": "rfind", "index": "rindex"}


# --- what the environment is asked ---------------------------------------------------------------


def act_as_written(s: Surgery) -> None:
    """Arguments are what was written, and every reply of a known form is carried out."""
    for function in s.functions():
        for chat in awaited(function, "chat"):
            reply = target_of(s.statement_of(chat))
            if reply is not None:
                _read_whole(s, function, f"{reply}.content")
        for value in _arguments(function):
            _plain(s, function, value)
        _in_order(s, function)


def hear_replies(s: Surgery) -> None:
    """Conditions on what a reply looks like, and on anything but its form, turn none away."""
    for function in s.functions():
        acts = any(awaited(function, "call"))
        for node in ast.walk(function):
            if isinstance(node, ast.IfExp) and is_none(node.orelse):
                _relaxed(s, node.test, ast.And)
            elif isinstance(node, ast.If) and len(node.body) == 1:
                only = node.body[0]
                if not isinstance(only, ast.Return):
                    continue
                if only.value is None or is_none(only.value):
                    _relaxed(s, node.test, ast.Or)
                elif acts and not node.orelse and _turns_away(s, node.test, only.value):
                    s.remove(node)
            elif (
                isinstance(node, ast.Slice) and isinstance(node.lower, ast.Constant) and node.upper
            ):
                s.replace(node, f"{s.source(node.lower)}:")


def _turns_away(s: Surgery, test: ast.expr, answer: ast.expr) -> bool:
    """Whether an action is answered without being carried out, for no reason of form."""
    told = s.source(test)
    said = answer.elts if isinstance(answer, ast.Tuple) else [answer]
    plain = all(isinstance(each, ast.Constant) for each in said)
    return (
        plain
        and "None" not in told
        and not any(isinstance(node, ast.Name) and node.id.isupper() for node in ast.walk(test))
    )


def _in_order(s: Surgery, function: Function) -> None:
    """Arguments that are places of one text are taken in the order of the text."""
    groups = [list(node.values) for node in ast.walk(function) if isinstance(node, ast.Dict)]
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            groups.append([keyword.value for keyword in node.keywords])
    for values in groups:
        placed = [value for value in values if _place(value) is not None]
        texts = {s.source(value.value) for value in placed if isinstance(value, ast.Subscript)}
        if len(placed) > 1 and len(texts) == 1 and all((_place(v) or 0) >= 0 for v in placed):
            ordered = sorted(placed, key=lambda value: _place(value) or 0)
            for value, wanted in zip(placed, ordered, strict=True):
                s.replace(value, s.source(wanted))


def _place(value: ast.expr) -> int | None:
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return value.slice.value if type(value.slice.value) is int else None
    return None


def _read_whole(s: Surgery, function: Function, said: str) -> None:
    """Where the reply goes through slices and methods on its way, it goes without them."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and s.source(node) == said:
            outer = outermost(s, node)
            if outer is not node:
                s.replace(outer, said)


def _arguments(function: Function) -> Iterator[ast.expr]:
    """Values that are handed to tools: by keyword, or in a `(name, arguments)` pair."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "call":
                yield from (keyword.value for keyword in node.keywords if keyword.arg)
        elif isinstance(node, ast.Tuple) and node.elts and isinstance(node.elts[-1], ast.Dict):
            yield from node.elts[-1].values


def _plain(s: Surgery, function: Function, value: ast.expr) -> None:
    words = core(value)
    if words is not value:
        s.replace(value, s.source(words))
    if isinstance(words, ast.Name):
        for statement in statements(function):
            if isinstance(statement, ast.Assign) and target_of(statement) == words.id:
                bound = core(statement.value, conditions=False)
                if bound is not statement.value and not isinstance(bound, ast.Constant):
                    s.replace(statement.value, s.source(bound))


def _relaxed(s: Surgery, test: ast.expr, joined: type[ast.boolop]) -> None:
    """Takes conditions on what a text looks like out of several, if any other is left."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, joined):
        return
    rest = [value for value in test.values if not _is_look(value)]
    if rest and len(rest) < len(test.values):
        word = " and " if joined is ast.And else " or "
        s.replace(test, word.join(s.source(value) for value in rest))


def _is_look(test: ast.expr) -> bool:
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    return (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr in _PREDICATES
    )


def read_the_other_end(s: Surgery) -> None:
    """What is looked for from the front is looked for from the back, and the first is the last."""
    for node in ast.walk(s.file.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            other = _OTHER_END.get(node.func.attr)
            if other:
                s.replace(node.func, f"{s.source(node.func.value)}.{other}")
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            method = node.value.func
            many = isinstance(method, ast.Attribute) and method.attr in ("split", "findall")
            if many and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
                s.replace(node.slice, "-1")


def drop_unwritten(s: Surgery) -> None:
    """Calls that the scaffold makes on its own, beside those of the policy, are left out."""
    for function in s.functions():
        calls = list(awaited(function, "call"))
        own = [call for call in calls if call.args and isinstance(call.args[0], ast.Constant)]
        if len(own) == len(calls):
            continue
        for call in own:
            statement = s.statement_of(call)
            if isinstance(statement, ast.Expr | ast.Assign):
                s.remove(statement)


def plain_limits(s: Surgery) -> None:
    """Limits are the constants that stand for them, with nothing taken off."""
    for function in s.functions():
        for chat in awaited(function, "chat"):
            for keyword in chat.keywords:
                if keyword.arg == "max_tokens":
                    _as_constant(s, keyword.value)
            for outer in s.around(chat):
                if isinstance(outer, ast.For) and isinstance(outer.iter, ast.Call):
                    for argument in outer.iter.args[-1:]:
                        _as_constant(s, argument)


def _as_constant(s: Surgery, value: ast.expr) -> None:
    names = [n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id.isupper()]
    if len(set(names)) == 1:
        s.replace(value, names[0])


# --- when it is over -------------------------------------------------------


def go_on(s: Surgery) -> None:
    """An attempt is over when the environment says so, and not before."""
    for function in s.functions():
        for node in ast.walk(function):
            if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
                done = [value for value in node.values if s.source(value).endswith("done")]
                if len(done) == 1:
                    s.replace(node, s.source(done[0]))
        for chat in awaited(function, "chat"):
            _no_early_end(s, function, chat)


def _no_early_end(s: Surgery, function: Function, chat: ast.Call) -> None:
    for node in ast.walk(function):
        if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
            continue
        if not isinstance(node.body[0], ast.Return | ast.Break) or not in_loop_of(s, node, chat):
            continue
        test = s.source(node.test)
        if "done" not in test and "None" not in test and not test.startswith("not "):
            s.remove(node)
