"""Readers of code data sets: HumanEval, MBPP, APPS/TACO and LiveCodeBench.

Promises: a row that comes out has a problem and at least one test. Other rows are refused by line
and counted. Private tests of LiveCodeBench are unpacked without an unpickler (see `_pickled.py`).

Does not cover: other languages than Python, interactive problems, files as input or output, and
problems whose set brings a checker for several right answers. Such a row is refused, since
comparing with one stored output would fail right answers.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from meta_agent.core.parsing.strict import document
from meta_agent.core.parsing.syntax import parse_python
from meta_agent.core.protocols import JSON, Split
from meta_agent.domains.formats._pickled import PackedError, unpacked
from meta_agent.domains.formats.rows import (
    Fields,
    RefusedRowError,
    TaskFile,
    collected,
    split_of,
    stream_rows,
)

CodeKind = Literal["asserts", "stdio", "function"]
DEFAULT_TIME_SEC: Final = 6.0
_MAX_TIME_SEC: Final = 60.0


@dataclass(frozen=True, slots=True)
class ProgramTest:
    """A test of a program: its input and expected output, as text, or as JSON for a function."""

    input: JSON
    expected: JSON


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One programming problem. An agent never sees its tests (`cases`, `program`) or `gold`."""

    key: str
    prompt: str
    kind: CodeKind
    split: Split
    line: int
    source: str
    entry_point: str = ""
    starter: str = ""
    cases: tuple[ProgramTest, ...] = ()
    examples: tuple[
        ProgramTest, ...
    ] = ()  # tests that the problem states anyway; `asserts`: Python texts
    prelude: str = ""  # `asserts`: what stands before the tests, and before a bare completion
    program: str = ""  # `asserts`: the data set's own test code
    names: tuple[str, ...] = ()  # what that code calls of the candidate's
    gold: tuple[str, ...] = ()
    time_sec: float = DEFAULT_TIME_SEC
    memory_mb: int = 1024
    extra: Mapping[str, JSON] = field(default_factory=dict)


Reader = Callable[[Fields], CodeRow]


def read_code(path: Path, mapping: Mapping[str, str] | None = None) -> TaskFile[CodeRow]:
    """Returns a file's problems; `mapping` renames fields. Raises ConfigError if it has none."""
    readers: list[Reader] = []

    def read(fields: Fields) -> CodeRow:
        readers[:] = readers or [_reader_of(fields)]
        return readers[0](fields)

    return collected(
        path, stream_rows(path, mapping), read, lambda row: _key(row.prompt), lambda row: row.prompt
    )


def _key(prompt: str) -> str:
    return hashlib.sha256(" ".join(prompt.split()).encode()).hexdigest()


def _row(fields: Fields, source: str, label: str | None, prompt: str, **more: JSON) -> CodeRow:
    if fields.row.get("checker") or fields.row.get("generated_checker"):
        raise RefusedRowError("its data set judges it by a checker, which is not run: try --grade")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label or "").strip("-.")[:100]
    return CodeRow(
        key=f"{source}-{name or _key(prompt)[:12]}",
        prompt=prompt,
        split=split_of(fields, _key(prompt)),
        line=fields.line,
        source=source,
        **more,
    )


# --- test code of the set's own ------------------------------------------------------------------


def _humaneval(fields: Fields) -> CodeRow:
    prompt, entry = fields.text("prompt"), fields.text("entry_point")
    solution = fields.text("canonical_solution", "")
    return _row(
        fields,
        "humaneval",
        fields.text("task_id"),
        prompt,
        kind="asserts",
        entry_point=entry,
        starter=prompt,
        prelude=prompt,
        program=f"{fields.text('test')}\n\ncheck({entry})\n",
        names=(entry,),
        gold=(prompt + solution,) if solution.strip() else (),
    )


def _mbpp(fields: Fields) -> CodeRow:
    asserts = [*fields.texts("test_list"), *fields.texts("challenge_test_list", ())]
    code = fields.text("code", "")
    setup = [fields.text("test_setup_code", ""), *fields.texts("test_imports", ())]
    program = "\n".join([*setup, *asserts])
    names = _called(program, code)
    if not names:
        raise RefusedRowError("no test calls a function that the solution defines: fix test_list")
    prompt = fields.optional_text("prompt", "text")
    if prompt is None:
        raise fields.need("text", "the problem's text")
    with_test = f"{prompt}\nYour code should pass this test:\n{asserts[0]}"
    return _row(
        fields,
        "mbpp",
        str(fields.row.get("task_id", "")),
        with_test,
        kind="asserts",
        entry_point=names[0],
        examples=_stated(asserts[0]),
        program=program,
        names=tuple(names),
        gold=(code,) if code else (),
    )


def _called(program: str, code: str) -> list[str]:
    """Returns the names that the solution defines and the tests use, in order of use."""
    try:
        tests, solution = parse_python(program), parse_python(code)
    except (SyntaxError, ValueError) as problem:
        raise RefusedRowError(
            "the tests or the solution are not valid Python 3: correct them"
        ) from problem
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined = {node.name for node in ast.walk(solution) if isinstance(node, kinds)}
    loaded = [node.id for node in ast.walk(tests) if isinstance(node, ast.Name)]
    if not code:
        calls = [node.func for node in ast.walk(tests) if isinstance(node, ast.Call)]
        defined = {func.id for func in calls if isinstance(func, ast.Name)} - set(dir(builtins))
    return [name for name in dict.fromkeys(loaded) if name in defined]


def _stated(assertion: str) -> tuple[ProgramTest, ...]:
    """Returns `assert f(1) == 2` as a call and its result. Other forms give no example."""
    body = parse_python(assertion).body
    test = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
    if not isinstance(test, ast.Compare) or [type(op) for op in test.ops] != [ast.Eq]:
        return ()
    return (ProgramTest(ast.unparse(test.left), ast.unparse(test.comparators[0])),)


# --- inputs and outputs --------------------------------------------------------------------------


def _apps(fields: Fields) -> CodeRow:
    pairs = _object(fields, "input_output")
    if not pairs:
        raise RefusedRowError("the field input_output is empty, so there are no tests: add some")
    kind, cases = _pairs(pairs)
    return _row(
        fields,
        "apps",
        fields.label("problem_id", "id", "name"),
        fields.text("question"),
        kind=kind,
        entry_point=str(pairs.get("fn_name") or ""),
        starter=fields.text("starter_code", ""),
        cases=cases,
        gold=tuple(_solutions(fields)),
        time_sec=_seconds(fields.row.get("time_limit")),
    )


def _solutions(fields: Fields) -> Iterator[str]:
    value = fields.row.get("solutions")
    if isinstance(value, str):
        try:
            value = document(value) if value.strip() else []
        except ValueError:
            value = []
    yield from (text for text in value or () if isinstance(text, str))


def _object(fields: Fields, name: str) -> dict[str, JSON]:
    """Returns an object, which the field holds as itself or as JSON text."""
    value = fields.row.get(name)
    if isinstance(value, str):
        try:
            value = document(value) if value.strip() else None
        except ValueError as problem:
            raise RefusedRowError(f"the field {name} is not JSON: write a JSON object") from problem
    if not isinstance(value, dict | None):
        raise RefusedRowError(f"the field {name} is not a JSON object: make it one")
    return value or {}


def _pairs(pairs: Mapping[str, JSON]) -> tuple[CodeKind, tuple[ProgramTest, ...]]:
    """Returns the kind of the tests in `{inputs, outputs, fn_name?}`, and the tests themselves."""
    inputs, outputs = pairs.get("inputs"), pairs.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or not inputs:
        raise RefusedRowError("the fields inputs and outputs hold no tests: add lists of them")
    if len(inputs) != len(outputs):
        raise RefusedRowError("the fields inputs and outputs differ in length: pair them")
    pairs_of = list(zip(inputs, outputs, strict=True))
    if pairs.get("fn_name"):  # some rows store the single argument bare
        return "function", tuple(
            ProgramTest(a if isinstance(a, list) else [a], b) for a, b in pairs_of
        )
    return "stdio", tuple(ProgramTest(_joined(a), _joined(b)) for a, b in pairs_of)


def _joined(value: JSON) -> str:
    """Returns input or output as one text. Some sets store it as a list of lines."""
    if isinstance(value, list):
        return "\n".join(map(_joined, value))
    return value if isinstance(value, str) else json.dumps(value)


def _livecodebench(fields: Fields) -> CodeRow:
    tests: list[JSON] = []
    n_shown = 0
    for name in ("public_test_cases", "private_test_cases"):
        try:
            tests += unpacked(fields.text(name, "[]"))
        except PackedError as problem:
            raise RefusedRowError(f"the field {name} cannot be read: {problem}") from problem
        n_shown = len(tests) if name == "public_test_cases" else n_shown
    kinds = {test.get("testtype") for test in tests if isinstance(test, dict)}
    if len(kinds) != 1 or not kinds <= {"stdin", "functional"}:
        raise RefusedRowError("the tests must all have the testtype stdin, or all functional")
    metadata = _object(fields, "metadata")
    functional = kinds == {"functional"}
    cases = tuple(_case(test, functional) for test in tests)
    if functional and not metadata.get("func_name"):
        raise RefusedRowError("the tests call a function: name it in metadata.func_name")
    return _row(
        fields,
        "livecodebench",
        fields.text("question_id"),
        f"{fields.text('question_title', '')}\n\n{fields.text('question_content')}".strip(),
        kind="function" if functional else "stdio",
        entry_point=str(metadata.get("func_name") or ""),
        starter=fields.text("starter_code", ""),
        cases=cases,
        examples=cases[:n_shown],
        extra={n: fields.row[n] for n in ("contest_date", "difficulty") if n in fields.row},
    )


def _case(test: Mapping[str, JSON], functional: bool) -> ProgramTest:
    """Returns a test. The arguments of a function stand one a line, each as JSON."""
    argument_text, expected = str(test.get("input", "")), str(test.get("output", ""))
    if not functional:
        return ProgramTest(argument_text, expected)
    try:
        arguments = [document(line) for line in argument_text.split("\n") if line.strip()]
        return ProgramTest(arguments, document(expected))
    except ValueError as problem:
        raise RefusedRowError(
            "a test's arguments or result are not JSON: write one value a line"
        ) from problem


def _seconds(value: JSON) -> float:
    """Returns a time limit, doubled since Python is slow, from 6.0, "2 seconds" or an object."""
    if isinstance(value, dict):
        value = float(value.get("seconds") or 0) + float(value.get("nanos") or 0) / 1e9
    if isinstance(value, str):
        number = re.search(r"\d+(?:\.\d+)?", value)
        value = float(number[0]) if number else None
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        return DEFAULT_TIME_SEC
    return min(_MAX_TIME_SEC, max(DEFAULT_TIME_SEC, 2 * float(value)))


# (name, the fields that tell it, reader): the first form whose fields are all there, and of several
# the one that uses most of what `--map` names.
_FORMS: Final[tuple[tuple[str, tuple[str, ...], Reader], ...]] = (
    ("humaneval", ("task_id", "prompt", "entry_point", "test"), _humaneval),
    ("mbpp", ("test_list",), _mbpp),
    ("livecodebench", ("question_content", "public_test_cases"), _livecodebench),
    ("apps", ("question", "input_output"), _apps),
)


def _reader_of(fields: Fields) -> Reader:
    complete = [form for form in _FORMS if all(name in fields.row for name in form[1])]
    if complete:
        return max(complete, key=lambda form: len(fields.mapped.intersection(form[1])))[2]
    forms = "; ".join(f"{name} ({', '.join(marks)})" for name, marks, _ in _FORMS)
    raise fields.refused(
        f"no known code data set has the fields {fields.names}", hint=f"known forms: {forms}"
    )
