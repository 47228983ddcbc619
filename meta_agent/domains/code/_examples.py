"""Runs a program on the examples that its problem shows: the tool `test` of an attempt.

Promises: only examples run that the agent can read in its task. These are a set's public tests, the
first assertion of MBPP, and the `>>>` lines of a HumanEval docstring. The program and the
comparison share a process of the attempt's own sandbox, so the result never enters a grade.
"""

from __future__ import annotations

import ast
import doctest
import json
from collections.abc import Sequence
from typing import Final

from meta_agent.core.parsing.syntax import literal_value, parse_python
from meta_agent.core.protocols import ToolResult
from meta_agent.domains._scratch import Scratch, clipped
from meta_agent.domains.code._compare import same_output
from meta_agent.domains.code._solution import program_of
from meta_agent.domains.formats.code_sets import CodeRow, ProgramTest

MAX_EXAMPLES: Final = 5
_SHOWN_CHARS: Final = 400
NONE: Final = "this problem has no examples that can be run; use run(code, stdin)"

# Runs inside the sandbox, after the program: `EXAMPLES` holds (call, expected as Python text).
_CALLS: Final = """
import sys as _sys
_failed = 0
for _call, _wanted in {examples}:
    try:
        _got = eval(_call)
        _same = repr(_got) == _wanted or _got == eval(_wanted)
    except Exception as _error:
        _got, _same = _error, False
    _failed += not _same
    print("ok  " if _same else "FAIL", _call, "gives", repr(_got)[:300], "stated", _wanted[:300])
_sys.exit(1 if _failed else 0)
"""


def has_examples(row: CodeRow) -> bool:
    """Returns whether a problem shows examples (inputs with their results) that can be run."""
    return bool(row.examples or _stated_calls(row))


def try_examples(row: CodeRow, code: str, scratch: Scratch) -> ToolResult:
    """Runs `code` in `scratch` on the examples that the problem shows, and returns the results."""
    program = program_of(row, code)
    if row.kind == "stdio" and row.examples:
        return _inputs(row.examples[:MAX_EXAMPLES], program, scratch)
    calls = _stated_calls(row)
    if not calls:
        return ToolResult(NONE, ok=False)
    return scratch.python(program + _CALLS.format(examples=repr(calls)))


def _inputs(cases: Sequence[ProgramTest], program: str, scratch: Scratch) -> ToolResult:
    lines, passed = [], 0
    for number, case in enumerate(cases, 1):
        ran = scratch.python(program, str(case.input))
        output = ran.text.rpartition("\n")[0] if ran.ok else ran.text
        same = ran.ok and same_output(str(case.expected), output)
        passed += same
        lines.append(f"example {number}: ok" if same else _differs(number, case, output))
    lines.append(f"[{passed} of {len(cases)} examples pass]")
    return ToolResult(clipped("\n".join(lines)), ok=passed == len(cases))


def _differs(number: int, case: ProgramTest, output: str) -> str:
    return (
        f"example {number}: FAIL\ninput:\n{_cut(str(case.input))}\n"
        f"stated:\n{_cut(str(case.expected))}\ngot:\n{_cut(output)}"
    )


def _stated_calls(row: CodeRow) -> list[tuple[str, str]]:
    """Returns calls and what they should give, both as Python text."""
    if row.kind == "function":
        return [(_call(row.entry_point, case), repr(case.expected)) for case in row.examples]
    stated = [(str(case.input), str(case.expected)) for case in row.examples]
    return (stated or _docstring_calls(row))[:MAX_EXAMPLES] if row.kind == "asserts" else []


def _docstring_calls(row: CodeRow) -> list[tuple[str, str]]:
    """Returns the calls of the function that docstrings show with a literal as their result."""
    parser, examples = doctest.DocTestParser(), list[doctest.Example]()
    try:
        for node in ast.walk(parse_python(row.prelude)):
            if isinstance(node, ast.FunctionDef):
                examples += parser.get_examples(ast.get_docstring(node) or "")
    except (SyntaxError, ValueError):
        return []
    calls = [(example.source.strip(), example.want.strip()) for example in examples]
    return [
        (call, want) for call, want in calls if f"{row.entry_point}(" in call and _is_literal(want)
    ]


def _is_literal(text: str) -> bool:
    try:
        literal_value(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _call(name: str, case: ProgramTest) -> str:
    """Returns Python text that calls a function with a case's input, which it reads from JSON."""
    function = f"({name} if {name!r} in globals() else Solution().{name})"
    return f"{function}(*__import__('json').loads({json.dumps(case.input)!r}))"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + " [...]"
