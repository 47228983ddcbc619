"""What the policy is shown, as it was: what was said before, what tools answered, and the task.

Promises: each function edits a `Surgery` and leaves alone what it does not recognise. Not covered:
scaffolds that keep messages in objects of their own.
"""

from __future__ import annotations

import ast
from typing import Final

from meta_agent.proposers.rules._surgery import Function, Surgery, precedes
from meta_agent.proposers.rules._words import (
    always,
    appends,
    awaited,
    calls_tool,
    conversation,
    field,
    in_loop_of,
    is_message,
    is_name,
    is_part_of,
    is_text_of_await,
    named_limit,
    outermost,
    statements,
    target_of,
)

_MEMORY: Final = frozenset({"pop", "clear", "remove", "reverse", "sort"})


# --- what the policy sees of what went before ----------------------------------------------------


def keep_conversation(s: Surgery) -> None:
    """Each call gets all messages, the policy's own replies among them as they were written."""
    for function in s.functions():
        chats = list(awaited(function, "chat"))
        if not chats:
            continue
        given = chats[0].args[0] if chats[0].args else None
        base = conversation(function) or (given.id if isinstance(given, ast.Name) else None)
        if base is None:
            continue
        for chat in chats:
            if chat.args and not is_name(chat.args[0], base):
                s.replace(chat.args[0], base)
        for statement in statements(function):
            _keep_all(s, statement, base, chats[0])
        _keep_replies(s, function, base, chats[0])


def _keep_all(s: Surgery, statement: ast.stmt, base: str, chat: ast.Call) -> None:
    if isinstance(statement, ast.Delete):
        if any(is_part_of(target, base) for target in statement.targets):
            s.remove(statement)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        own = isinstance(call.func, ast.Attribute) and is_name(call.func.value, base)
        forgets = own and isinstance(call.func, ast.Attribute) and call.func.attr in _MEMORY
        given = not own and any(is_name(argument, base) for argument in call.args)
        if forgets or given:
            s.remove(statement)
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if is_part_of(target, base):
            s.remove(statement)
        elif is_name(target, base) and in_loop_of(s, statement, chat):
            _keep_rebound(s, statement, base)


def _keep_rebound(s: Surgery, statement: ast.Assign, base: str) -> None:
    """`messages = <some of them and new ones>` becomes all of them and the new ones."""
    value = statement.value
    extends = (isinstance(value, ast.BinOp) and is_name(value.left, base)) or (
        isinstance(value, ast.List)
        and value.elts
        and isinstance(value.elts[0], ast.Starred)
        and is_name(value.elts[0].value, base)
    )
    if extends:
        return
    new = [s.source(node) for node in ast.walk(value) if is_message(node)]
    if new:
        s.replace(value, f"[*{base}, {', '.join(new)}]")
    else:
        s.remove(statement)


def _keep_replies(s: Surgery, function: Function, base: str, chat: ast.Call) -> None:
    reply = target_of(s.statement_of(chat))
    if reply is None:
        return
    said, own = f"{reply}.content", False
    for append, message in appends(function, base):
        role, content = field(message, "role"), field(message, "content")
        if role is None or content is None:
            continue
        is_own = isinstance(role, ast.Constant) and role.value == "assistant"
        quotes = any(s.source(node) == said for node in ast.walk(content))
        if not (is_own or quotes):
            continue
        own = True
        s.replace(role, '"assistant"')
        s.replace(content, said)
        always(s, append)
    own = own or any(_says(s, node, said) for node in ast.walk(function))
    if not own:
        line = f'{base}.append({{"role": "assistant", "content": {said}}})'
        later = [a for a, _ in appends(function, base) if precedes(s, s.statement_of(chat), a)]
        if later:
            s.insert(line, before=s.statement_of(later[0]))
        else:
            s.append(line, after=s.statement_of(chat))


def _says(s: Surgery, node: ast.AST, said: str) -> bool:
    """Whether a message is the reply, wherever it is added."""
    content = field(node, "content") if isinstance(node, ast.Dict) else None
    return content is not None and s.source(content) == said


# --- what the policy sees of what was answered ---------------------------------------------------


def show_results(s: Surgery) -> None:
    """What a tool answered is what the next message says, cut at most by a named limit."""
    for function in s.functions():
        results = [target_of(s.statement_of(call)) for call in awaited(function, "call")]
        for name in dict.fromkeys(filter(None, results)):
            _return_whole(s, function, name)
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                inner = [n for n in ast.walk(node.value) if is_text_of_await(n)]
                if inner and not isinstance(node.value, ast.Tuple):
                    s.replace(node.value, s.source(inner[0]))
        for chat in awaited(function, "chat"):
            _append_whole(s, function, chat)
            break


def _return_whole(s: Surgery, function: Function, result: str) -> None:
    bound = [n for n in statements(function) if target_of(n) == result and calls_tool(n)]
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        if not any(precedes(s, statement, node) for statement in bound):
            continue
        pair = isinstance(node.value, ast.Tuple) and bool(node.value.elts)
        told = node.value.elts[0] if pair else node.value  # type: ignore[attr-defined]
        said = s.source(told)
        if not pair and (is_name(told, result) or ".done" in said or ".ok" in said):
            continue
        if not (pair or f"{result}.text" in said):
            continue
        s.replace(told, f"{result}.text{named_limit(told)}")


def _append_whole(s: Surgery, function: Function, chat: ast.Call) -> None:
    base = conversation(function)
    step = _step(s, function, chat)
    if base is None or step is None:
        return
    statement, told = step
    found = False
    for append, message in appends(function, base):
        role, content = field(message, "role"), field(message, "content")
        if content is None or not precedes(s, statement, append):
            continue
        if isinstance(role, ast.Constant) and role.value in ("tool", "user"):
            found = True
            limit = named_limit(content)
            s.replace(content, told if limit == "" else f"{told}{limit}")
            always(s, append)
    if not found:
        line = f'{base}.append({{"role": "tool", "content": {told}}})'
        later = [a for a, _ in appends(function, base) if precedes(s, statement, a)]
        after = s.statement_of(later[-1]) if later else statement
        s.append(line, after=after)


def _step(s: Surgery, function: Function, chat: ast.Call) -> tuple[ast.stmt, str] | None:
    """The statement that carries out a reply, and the name of what is told then."""
    asked = s.statement_of(chat)
    for statement in statements(function):
        if not isinstance(statement, ast.Assign) or statement is asked:
            continue
        if not isinstance(statement.value, ast.Await) or not precedes(s, asked, statement):
            continue
        target = statement.targets[0]
        first = target.elts[0] if isinstance(target, ast.Tuple) else target
        if isinstance(first, ast.Name):
            text = ".text" if calls_tool(statement) and target is first else ""
            return statement, first.id + text
    return None


# --- what the policy sees of the task ------------------------------------------------------------


def show_task(s: Surgery) -> None:
    """What the task gives goes into the first message as it is."""
    views = {"view"}
    for node in ast.walk(s.file.tree):
        if isinstance(node, ast.Assign) and s.source(node.value).endswith(".view"):
            views |= {name for name in [target_of(node)] if name}
    for node in ast.walk(s.file.tree):
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
            continue
        of = node.value
        given = (isinstance(of, ast.Attribute) and of.attr == "view") or (
            isinstance(of, ast.Name) and of.id in views
        )
        if given:
            outer = outermost(s, node)
            limit = named_limit(outer) if outer is not node else ""
            s.replace(outer, s.source(node) + limit)
