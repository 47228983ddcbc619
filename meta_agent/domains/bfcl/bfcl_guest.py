"""Grades calls of functions as the Berkeley Function-Calling Leaderboard does for Python.

A reply is parsed, never evaluated: `[name(parameter=value, ...), ...]`, or the same calls as JSON.
A row holds the offered functions, and the expected calls with all values that are allowed for each
parameter; the value "" says that the parameter may be left out. Calls count in any order.

The details of a grade are shares between 0 and 1: whether the reply is a list of calls (`parsed`),
and how many calls have the right `name` and the right `arguments`; `exact` says that all is right.
A task without expected calls is solved by any reply that calls nothing.

This file uses the standard library alone: it runs in a process of its own (`domains.graded`).
"""

import ast
import json
import re
from typing import Any, NamedTuple

LIMITS = {"max_turns": 4, "max_tokens_per_turn": 1024}
PARTS = ("parsed", "name", "arguments", "exact")
MAX_CHARS = 20_000
_TYPES: dict[str, type[Any]] = {
    **{"string": str, "integer": int, "float": float, "boolean": bool, "any": str},
    **{"array": list, "tuple": list, "dict": dict},
}
_IGNORED = re.compile(r"[ ,./\-_*^]")  # when texts are compared, like the case and kind of quotes
_NO_CALLS = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)

Call = tuple[str, dict[Any, Any]]


class Grade(NamedTuple):
    """Whether an answer is right, and its parts."""

    success: bool
    detail: dict[str, float]


def grade(task: dict[str, Any], answer: str) -> Grade:
    """Returns the grade of an answer to a row of the task file."""
    calls, expected = calls_of(answer), task["expected"]
    if not expected:
        silent = bool(answer.strip()) and not calls
        return Grade(silent, dict.fromkeys(PARTS, float(silent)))
    if not calls:
        return Grade(False, dict.fromkeys(PARTS, 0.0))
    functions = {function["name"]: function for function in task["view"]["functions"]}
    rest, names, arguments = list(calls), 0, 0.0
    for call in expected:
        ((name, allowed),) = call.items()
        shares = [right_share(functions[name], allowed, other) for other in rest]
        best = max(range(len(rest)), key=lambda at: shares[at], default=None)
        if best is not None and shares[best] >= 0:
            names, arguments = names + 1, arguments + shares[best]
            del rest[best]
    most = max(len(expected), len(calls))
    exact = arguments == most
    parts = (1.0, names / most, arguments / most, float(exact))
    return Grade(exact, dict(zip(PARTS, parts, strict=True)))


# --- the reply ------------------------------------------------------------------------------------


def calls_of(text: str) -> list[Call] | None:
    """Returns the calls that a reply consists of, or None if it is something else."""
    text = text.strip("`\n ")
    if len(text) > MAX_CHARS:
        return None
    try:
        try:
            return _from_json(json.loads(text.removeprefix("json")))
        except json.JSONDecodeError:
            return _from_python(text)
    except _NO_CALLS:
        return None


def _from_json(value: Any) -> list[Call]:
    """Returns calls written as {"name", "arguments"} or {"function", "parameters"}, or a list."""
    calls = []
    for item in value if isinstance(value, list) else [value]:
        name = item["name"] if "name" in item else item["function"]
        arguments = item["arguments"] if "arguments" in item else item["parameters"]
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ValueError("no call")
        calls.append((name, arguments))
    return calls


def _from_python(text: str) -> list[Call]:
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    body = ast.parse(text, mode="eval").body
    if not isinstance(body, ast.List) or not all(isinstance(item, ast.Call) for item in body.elts):
        raise ValueError("no list of calls")
    return [_call(item) for item in body.elts if isinstance(item, ast.Call)]


def _call(node: ast.Call) -> Call:
    """Returns name and named arguments. The leaderboard ignores arguments without a name, too."""
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    arguments = {keyword.arg: _value(keyword.value) for keyword in node.keywords}
    return ".".join(reversed(parts)), arguments


def _value(node: ast.expr | None) -> Any:
    """Returns the value of a literal. A bare name, an index or a call is a text or a dict."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is ... else value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True)}
        case ast.Name(id=name):
            return name
        case ast.Call(keywords=[_, *_]):
            return dict([_call(node)])
        case ast.Call() | ast.Subscript():
            return ast.unparse(node)
    raise ValueError("not a literal")


# --- the grade ------------------------------------------------------------------------------------


def right_share(function: dict[str, Any], allowed: dict[str, list[Any]], call: Call) -> float:
    """Returns the share of right arguments among those given or needed; -1 for another function.

    It is 1 only for a call that is right as a whole.
    """
    name, arguments = call
    if name != function["name"]:
        return -1.0
    schemas = function["parameters"]["properties"]
    needed = {n for n, values in allowed.items() if "" not in values}
    needed |= set(function["parameters"]["required"]) | arguments.keys()
    right = [
        n
        for n in arguments
        if n in schemas and n in allowed and is_right(schemas[n], allowed[n], arguments[n])
    ]
    return len(right) / len(needed) if needed else 1.0


def is_right(schema: dict[str, Any], allowed: list[Any], value: Any) -> bool:
    """Returns True if a value has the schema's type, and is one of the allowed values.

    A text where the allowed values are texts but the schema is not stands for a variable.
    """
    kind, inner = _TYPES[schema["type"]], None
    if schema["type"] in ("array", "tuple"):
        inner = _TYPES[schema["items"]["type"]]
    if schema["type"] == "tuple" and isinstance(value, tuple):
        value = list(value)
    if schema["type"] == "float" and type(value) is int and abs(value) < 1 << 1000:
        value = float(value)
    if not _has_type(value, kind, inner, allowed):
        return False
    if type(value) is not kind or _type_of(allowed) not in (None, kind):
        return value in allowed
    if kind is dict:
        return any(_same_dict(value, other) for other in allowed)
    if kind is list and inner is dict:
        return any(
            len(value) == len(other) and all(map(_same_dict, value, other)) for other in allowed
        )
    if kind is str:
        return _plain(value) in map(_plain, allowed)
    if kind is list:
        return [_plain(item) for item in value] in ([_plain(i) for i in a] for a in allowed)
    return value in allowed


def _has_type(value: Any, kind: type[Any], inner: type[Any] | None, allowed: list[Any]) -> bool:
    if type(value) is not kind:
        return type(value) is _type_of(allowed)
    return inner is None or any(
        not isinstance(other, list) or all(_has_type(item, inner, None, other) for item in value)
        for other in allowed
    )


def _type_of(allowed: list[Any]) -> type | None:
    return next((type(value) for value in allowed if value != ""), None)


def _same_dict(value: Any, allowed: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(allowed, dict):
        return False
    return all(
        key in allowed and _plain(item) in map(_plain, allowed[key]) for key, item in value.items()
    ) and all(key in value or "" in options for key, options in allowed.items())


def _plain(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value
