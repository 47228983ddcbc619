"""Edits that remove what a scaffold does to words on their way to the policy or the environment.

A scaffold is recognised by what it awaits: `model.chat(messages)` and `tools.call(name, ...)`.
Anything between the words and where they go (a slice, a method of strings, arithmetic, a condition)
is removed. Each function edits a `Surgery` and leaves alone what it does not recognise.

Not covered: scaffolds that keep messages in objects of their own, or build calls at run time.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

from meta_agent.proposers.rules._source import Function, Surgery

_METHODS: Final = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "swapcase", "replace"}
    | {"removeprefix", "removesuffix", "zfill", "ljust", "rjust", "translate", "format", "join"}
)
_CASTS: Final = frozenset(
    ["str", "int", "float", "repr", "ord", "chr", "abs", "min", "max", "sorted"]
)
_FORGETTING: Final = frozenset({"pop", "clear", "remove", "reverse", "sort"})

# --- the edits ----------------------------------------------------------------------------------


def keep_conversation(s: Surgery) -> None:
    """Edits the scaffold so that the model gets the whole conversation, with replies unchanged."""
    for function in s.functions():
        messages, chats = _conversation(function), list(_awaited(function, "chat"))
        for chat in chats if messages else ():
            if chat.args and not _is_name(chat.args[0], messages):
                s.replace(chat.args[0], str(messages))
        if messages and chats:
            for node in ast.walk(function):
                if isinstance(node, ast.stmt) and _forgets(node, messages):
                    s.remove(node)
            _keep_replies(s, function, messages, s.statement_of(chats[0]))


def _forgets(statement: ast.stmt, messages: str) -> bool:
    """Returns whether a statement takes messages out of the list."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=words)):
            return name == messages and _is_name(words, messages)
        case ast.Delete(targets=targets) | ast.Assign(targets=targets):
            parts = (target for target in targets if isinstance(target, ast.Subscript))
            return any(_is_name(part.value, messages) for part in parts)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=words, attr=method))):
            return _is_name(words, messages) and method in _FORGETTING
    return False


def _keep_replies(s: Surgery, function: Function, messages: str, chat: ast.stmt) -> None:
    """Adds the policy's replies as its own words, whole."""
    reply = _target_of(chat)
    dicts = [node for node in ast.walk(function) if isinstance(node, ast.Dict)]
    quotes = [d for d in dicts if s.source(_field(d, "content") or d) == f"{reply}.content"]
    for _, message in _appends(function, messages):
        role, content = _field(message, "role"), _field(message, "content")
        if role is None or content is None:
            continue
        inner = {s.source(node) for node in ast.walk(content)}
        if s.source(role) == '"assistant"' or f"{reply}.content" in inner:
            s.replace(role, '"assistant"')
            s.replace(content, f"{reply}.content")
            quotes.append(message)
    if reply and not quotes:
        later = [a for a, _ in _appends(function, messages) if s.precedes(chat, a)]
        line = f'{messages}.append({{"role": "assistant", "content": {reply}.content}})'
        first = s.statement_of(later[0]) if later else None
        block = s.block_of(first) if first else []
        before = block[block.index(first) - 1] if first and first is not block[0] else chat
        s.append(line, after=before)


def show_results(s: Surgery) -> None:
    """Edits the scaffold so that only a named constant may limit how much of a result is shown."""
    for function in s.functions():
        for call in _awaited(function, "call"):
            statement = s.statement_of(call)
            result = _target_of(statement)
            for node in ast.walk(function) if result else ():
                if isinstance(node, ast.Return) and node.value and s.precedes(statement, node):
                    _return_whole(s, node.value, f"{result}.text")


def _return_whole(s: Surgery, value: ast.expr, words: str) -> None:
    pair = isinstance(value, ast.Tuple) and bool(value.elts)
    text = value.elts[0] if pair else value  # type: ignore[attr-defined]
    if pair or (words in s.source(text) and ".done" not in s.source(text)):
        s.replace(text, words + _named_limit(text))


def show_task(s: Surgery) -> None:
    """Edits the scaffold so that only a named constant may limit how much of a task is shown."""
    assigned = (node for node in ast.walk(s.file.tree) if isinstance(node, ast.Assign))
    views = {"view", *(_target_of(n) for n in assigned if s.source(n.value).endswith(".view"))}
    for node in ast.walk(s.file.tree):
        match node:
            case ast.Subscript(slice=ast.Slice()):
                continue
            case ast.Subscript(value=ast.Attribute(attr=name) | ast.Name(id=name)) if name in views:
                outer = _outermost(s, node)
                limit = _named_limit(outer) if outer is not node else ""
                s.replace(outer, s.source(node) + limit)


def act_as_written(s: Surgery) -> None:
    """Edits the scaffold so that tools get their arguments exactly as the policy wrote them."""
    for function in s.functions():
        for chat in _awaited(function, "chat"):
            reply = _target_of(s.statement_of(chat))
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and s.source(node) == f"{reply}.content":
                    s.replace(_outermost(s, node), s.source(node))
        for value in _arguments(function):
            words = _core(value)
            s.replace(value, s.source(words))
            for node in ast.walk(function) if isinstance(words, ast.Name) else ():
                if isinstance(node, ast.Assign) and _target_of(node) == s.source(words):
                    bound = _core(node.value, conditions=False)
                    if not isinstance(bound, ast.Constant):
                        s.replace(node.value, s.source(bound))


def _arguments(function: Function) -> Iterator[ast.expr]:
    """Yields values that are handed to tools: by keyword, or in a `(name, arguments)` pair."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="call"), keywords=keywords):
                yield from (keyword.value for keyword in keywords if keyword.arg)
            case ast.Tuple(elts=[*_, ast.Dict(values=values)]):
                yield from values


def go_on(s: Surgery) -> None:
    """Edits the scaffold so that a loop ends only on the environment's `done`."""
    for node in ast.walk(s.file.tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            done = [value for value in node.values if s.source(value).endswith("done")]
            if len(done) == 1:
                s.replace(node, s.source(done[0]))


# --- what to look for ---------------------------------------------------------------------------


def _awaited(function: Function, method: str) -> Iterator[ast.Call]:
    """Yields the calls of a method that a function awaits."""
    for node in ast.walk(function):
        match node:
            case ast.Await(value=ast.Call(func=ast.Attribute(attr=name)) as call):
                if name == method:
                    yield call


def _appends(function: Function, messages: str) -> list[tuple[ast.Call, ast.Dict]]:
    """Returns the calls that append a message to a list, each with the message."""
    pairs = []
    for node in ast.walk(function):
        match node:
            case ast.Call(
                func=ast.Attribute(value=words, attr="append"), args=[ast.Dict() as item]
            ):
                pairs += [(node, item)] if _is_name(words, messages) else []
    return sorted(pairs, key=lambda pair: pair[0].lineno)


def _conversation(function: Function) -> str | None:
    """Returns the name of the list that messages are added to, or None."""
    votes: Counter[str] = Counter()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")):
                votes[name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                pass
            case _:
                continue
        dicts = (inner for inner in ast.walk(node) if isinstance(inner, ast.Dict))
        votes[name] += 9 * any(_field(message, "role") for message in dicts)
    return votes.most_common(1)[0][0] if votes else None


def _target_of(statement: ast.stmt) -> str | None:
    """Returns the one name that a statement assigns, or None."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def _field(message: ast.Dict, name: str) -> ast.expr | None:
    """Returns the value of a message's field, or None."""
    for key, value in zip(message.keys, message.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == name:
            return value
    return None


def _is_name(node: ast.AST, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _core(node: ast.expr, *, conditions: bool = True) -> ast.expr:
    """Returns what calls and slices act on in the end: `x`, of `str(x).strip()[:4]`."""
    inner: ast.expr | None = None
    match node:
        case ast.Call(func=ast.Attribute(value=words, attr=method)):
            inner = words if method in _METHODS else None
        case ast.Call(func=ast.Name(id=name), args=[words, *_]):
            inner = words if name in _CASTS or conditions else None
        case ast.Subscript(value=words, slice=ast.Slice()):
            inner = words
        case ast.BinOp():
            inner = _only([s for s in (node.left, node.right) if not isinstance(s, ast.Constant)])
        case ast.IfExp() if conditions:
            inner = _same_core(node.body, node.orelse)
        case ast.BoolOp() if conditions:
            inner = node.values[0]
        case ast.JoinedStr():
            inner = _only([v.value for v in node.values if isinstance(v, ast.FormattedValue)])
    return node if inner is None else _core(inner, conditions=conditions)


def _only(nodes: list[ast.expr]) -> ast.expr | None:
    return nodes[0] if len(nodes) == 1 else None


def _same_core(*branches: ast.expr) -> ast.expr | None:
    cores = [core for core in map(_core, branches) if not isinstance(core, ast.Constant)]
    return cores[0] if len({ast.dump(core) for core in cores}) == 1 else None


def _outermost(s: Surgery, node: ast.expr) -> ast.expr:
    """Returns the outermost expression that only does something to a node; else the node."""
    for outer in s.around(node):
        if isinstance(outer, ast.Attribute) and isinstance(s.parents[outer], ast.Call):
            continue  # the method of a call, which is looked at next
        if not isinstance(outer, ast.expr) or isinstance(outer, ast.BinOp | ast.Await):
            break
        if _core(outer, conditions=False) is not _core(node, conditions=False):
            break
        node = outer
    return node


def _named_limit(node: ast.AST) -> str:
    """Returns `[:LIMIT]` where a constant of the file cuts the text, else nothing."""
    for inner in ast.walk(node):
        match inner:
            case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Name(id=name))):
                return f"[:{name}]" if name.isupper() else ""
    return ""
