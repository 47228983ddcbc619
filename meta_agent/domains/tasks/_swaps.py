"""What is easily mistaken for what, in Python: the tables of the mutation operators."""

from __future__ import annotations

from collections.abc import Iterable


def _both(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: value for one, other in pairs for key, value in ((one, other), (other, one))}


COMPARISONS = _both([("<", "<="), (">", ">="), ("==", "!="), ("in", "not in"), ("is", "is not")])
ARITHMETIC = _both([("+", "-"), ("//", "/"), ("|", "&"), ("<<", ">>")]) | {"*": "+", "%": "//"}
LOGIC = _both([("and", "or")])
SIBLINGS = _both(
    [
        ("min", "max"),
        ("any", "all"),
        ("lower", "upper"),
        ("startswith", "endswith"),
        ("lstrip", "rstrip"),
        ("ljust", "rjust"),
        ("find", "rfind"),
        ("index", "rindex"),
        ("split", "rsplit"),
        ("partition", "rpartition"),
        ("keys", "values"),
        ("append", "appendleft"),
        ("pop", "popleft"),
        ("union", "intersection"),
        ("isdigit", "isalpha"),
        ("floor", "ceil"),
    ]
) | {"extend": "append", "sorted": "list", "reversed": "list", "set": "list", "strip": "rstrip"}
EXCEPTIONS = _both([("ValueError", "TypeError"), ("KeyError", "IndexError")]) | {
    "AttributeError": "TypeError",
    "StopIteration": "ValueError",
    "NotImplementedError": "ValueError",
    "RuntimeError": "ValueError",
    "LookupError": "ValueError",
    "OverflowError": "ValueError",
}
TYPE_CHECKS = frozenset({"isinstance", "issubclass", "getattr", "hasattr", "setattr", "delattr"})
