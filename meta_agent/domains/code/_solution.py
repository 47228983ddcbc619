"""Takes the program that is graded out of a model's reply.

The code is the last fenced block without the tag of another language, or the whole reply if it has
no block. Programs and functions get the imports that the official evaluators of their data sets add
too, behind their own `from __future__ import`. A reply to HumanEval may be the whole function or
only its body.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.domains.formats.code_sets import CodeRow

MAX_SOURCE_CHARS: Final = 1 << 18
_FENCE = re.compile(
    r"^[ \t]*+```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE
)
_PYTHON = frozenset({"", "python", "python3", "py", "py3"})
# Star imports first, built-ins after them: `from math import *` would hide `pow`.
HEADER: Final = (
    "from collections import *\nfrom itertools import *\nfrom functools import *\n"
    "from heapq import *\nfrom bisect import *\nfrom math import *\nfrom string import *\n"
    "from operator import *\nfrom typing import *\nfrom builtins import *\n"
    "import bisect, collections, copy, datetime, functools, heapq, itertools, json, math\n"
    "import operator, random, re, statistics, string, sys, typing\n"
)


def code_in(text: str) -> str:
    """Returns the last Python code block of a reply, or the whole reply if it has none."""
    blocks = [body for tag, body in _FENCE.findall(text) if tag.lower() in _PYTHON]
    return blocks[-1] if blocks else text


def program_of(row: CodeRow, code: str) -> str:
    """Returns submitted code with the imports or the prompt's text that the task puts before it."""
    code = code.removeprefix("\ufeff")
    if row.kind != "asserts":
        return _after_future(code, HEADER)
    if not row.prelude:
        return code
    if _defines(code, row.entry_point):
        return _after_future(code, _before(row.prelude, row.entry_point) + "\n")
    return row.prelude + code


def _after_future(code: str, header: str) -> str:
    """Puts lines before a program, but after its `from __future__ import`."""
    if "__future__" not in code:
        return header + code
    try:
        body = parse_python(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return header + code
    end = max((node.end_lineno or 0 for node in body if _is_future(node)), default=0)
    lines = code.split("\n")
    return "\n".join([*lines[:end], header, *lines[end:]])


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _defines(code: str, name: str) -> bool:
    try:
        tree = parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"^def {re.escape(name)}\b", code, re.MULTILINE) is not None
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def _before(prelude: str, name: str) -> str:
    """Returns the imports and helpers that stand before the function in the prompt."""
    match = re.search(rf"^def {re.escape(name)}\b", prelude, re.MULTILINE)
    return prelude[: match.start()] if match else prelude
