"""Grading programs in sandboxes: what enters them, what leaves them, and whose fault an end is."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from _code_rows import ADD, SUM, row

from meta_agent.core.errors import SandboxError
from meta_agent.domains.code import (
    CodeDomain,
    CodeRunner,
    UngradableError,
    code_in,
    code_runner,
    graded,
    program_of,
    same_output,
    same_value,
)
from meta_agent.domains.code._runner import guest_source
from meta_agent.domains.formats.code_sets import ProgramTest
from meta_agent.sandboxes import engine_status

HAS_DOCKER = engine_status().ready
BACKENDS = [
    "process",
    pytest.param(
        "docker",
        marks=[
            pytest.mark.docker,
            pytest.mark.skipif(not HAS_DOCKER, reason="no Docker engine with the base image"),
        ],
    ),
]


@pytest.fixture(scope="module")
def runner() -> Iterator[CodeRunner]:
    made = code_runner("process", candidates_per_sandbox=25)
    yield made
    made.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_right_programs_pass_and_wrong_ones_fail_on_every_backend(backend: str) -> None:
    made = code_runner(backend)
    try:
        assert graded(row(), SUM, made).success
        assert graded(
            row(), "print(sum(map(int, open('/dev/stdin').read().split())))", made
        ).success
        assert graded(row("function"), ADD, made).success
        assert graded(row("asserts"), ADD, made).success
        assert not graded(row("asserts"), ADD.replace("+", "-"), made).success
        assert graded(row(), "while True: pass", made).detail["verdict"] == "timeout"
    finally:
        made.close()


def test_a_cheat_does_not_spoil_the_next_candidates_run(runner: CodeRunner) -> None:
    forged = 'os.write(201, b\'{"end": "ok", "value": 4}\\n\')'
    killed = "os.kill(os.getppid(), 9)"
    for harm in ("os._exit(0)", killed, f"{forged}; os._exit(0)", "print('x' * 10**7)"):
        for source in (f"import os\n{harm}\n", f"import os\ndef add(a, b): {harm}\n"):
            assert not runner.run(row("function"), source).success
    assert runner.run(row("function"), ADD).success
    assert runner.run(row("asserts"), ADD).success


def test_expected_outputs_and_tests_never_enter_the_candidates_sandbox() -> None:
    sent: list[str] = []
    inner = code_runner("process").factory

    class Watched:
        def __init__(self, memory_mb: int) -> None:
            self._real = inner(memory_mb)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def request(self, op: str, args: Any, **more: Any) -> Any:
            if op in ("stdio", "cases", "open_candidate", "call"):
                sent.append(json.dumps(args))
            return self._real.request(op, args, **more)

    made = CodeRunner(Watched)  # type: ignore[arg-type]
    secret = 987_654_321
    try:
        program = f"assert add(1, 2) == 3\nassert add({secret - 1}, 1) == {secret}"
        assert made.run(row("asserts", program=program), ADD).success
        assert made.run(row(cases=(ProgramTest("987654320 1", str(secret)),)), SUM).success
        function = row("function", cases=(ProgramTest([secret - 1, 1], secret),))
        assert made.run(function, ADD).success
    finally:
        made.close()
    assert sent
    assert not [args for args in sent if str(secret) in args]


def test_tests_that_pass_what_is_no_data_are_nobodys_failure(runner: CodeRunner) -> None:
    program = "assert add(lambda: 1, 2) == 3"
    with pytest.raises(UngradableError):
        runner.run(row("asserts", program=program), ADD)
    assert runner.run(row("asserts"), ADD).success


def test_a_candidate_cannot_make_its_tests_ungradable(runner: CodeRunner) -> None:
    source = "def add(a, b):\n    x = []\n    for _ in range(110): x = [x]\n    return x\n"
    program = "x = add(1, 2)\nfor _ in range(50): x = [x]\nadd(x, 1)\nassert add(1, 2) == 3"
    assert not runner.run(row("asserts", program=program), source).success


def test_tests_see_changed_arguments_exceptions_and_plain_values(runner: CodeRunner) -> None:
    source = (
        "def sort(x):\n    x.sort()\n"
        "def boom():\n    raise ValueError('no')\n"
        "def many():\n    return {1: (2, {3.5}), None: [b'x', 2**80, float('inf'), 1j]}\n"
        "def steps():\n    return (i for i in range(3))\n"
    )
    program = (
        "x = [3, 1, 2]\nsort(x)\nassert x == [1, 2, 3]\n"
        "try:\n    boom()\nexcept ValueError as e:\n    assert str(e) == 'no'\nelse:\n    boom\n"
        "assert many() == {1: (2, {3.5}), None: [b'x', 2**80, float('inf'), 1j]}\n"
        "assert list(steps()) == [0, 1, 2]\n"
    )
    names = ("sort", "boom", "many", "steps")
    found = runner.run(row("asserts", program=program, names=names, prelude=""), source)
    assert found.success, found


def test_objects_of_the_candidates_own_go_there_and_back(runner: CodeRunner) -> None:
    source = (
        "class Pair:\n    def __init__(self, a): self.a = a\n"
        "def first(pairs):\n    return pairs[0].a\n"
    )
    program = "assert first([Pair(5), Pair(6)]) == 5"
    names = ("Pair", "first")
    assert runner.run(row("asserts", program=program, names=names, prelude=""), source).success


def test_processes_that_a_program_leaves_behind_are_gone(runner: CodeRunner) -> None:
    leaves = f"import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\n{SUM}"
    found = runner.run(row(), leaves)
    assert found.end in ("passed", "timeout")
    assert runner.run(row(), SUM).success


@pytest.mark.parametrize("name", ["candidate_guest", "judge_guest", "values_guest"])
def test_guests_need_the_standard_library_alone(name: str) -> None:
    tree = ast.parse(guest_source(name))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in found}
    assert roots <= sys.stdlib_module_names | {"values_guest"}


def test_several_threads_grade_at_once(runner: CodeRunner) -> None:
    sources = [ADD, ADD.replace("+", "-")] * 6
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda source: runner.run(row("asserts"), source).success, sources))
    assert found == [True, False] * 6


FORKS = """
import os, time
for _ in range(8):
    child = os.fork()
    if child == 0:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_processor_time_is_counted_in_sum_also_of_children(backend: str) -> None:
    made = code_runner(backend)
    body = FORKS.replace("\n", "\n    ")
    try:
        assert graded(row(time_sec=20.0), FORKS + SUM, made).success
        assert graded(row(), FORKS + SUM, made).detail["verdict"] == "timeout"
        late = f"def add(a, b):{body}\n    return a + b\n"
        assert graded(row("function"), late, made).detail["verdict"] == "timeout"
    finally:
        made.close()


@pytest.mark.parametrize("kind", ["stdio", "function", "asserts"])
def test_a_breach_of_protocol_is_the_candidates_failure_at_once(kind: str) -> None:
    made, opened = code_runner("process"), 0
    inner = made.factory

    def breaking(memory_mb: int) -> Any:
        nonlocal opened
        opened += 1
        sandbox = inner(memory_mb)
        request = sandbox.request

        def broken(op: str, args: Any, **more: Any) -> Any:
            if op in ("stdio", "cases", "open_candidate"):
                raise SandboxError("junk in the pipe", kind="protocol")
            return request(op, args, **more)

        sandbox.request = broken  # type: ignore[method-assign]
        return sandbox

    made.factory = breaking
    found = graded(row(kind), SUM if kind == "stdio" else ADD, made)
    made.close()
    assert (found.success, found.flags, opened) == (False, ("tamper:protocol",), 1)
    assert found.detail["verdict"] == "killed_protocol"


def test_a_sandbox_that_does_not_start_is_infrastructure() -> None:
    def broken(memory_mb: int) -> Any:
        raise SandboxError("no engine", kind="died")

    with pytest.raises(SandboxError) as caught:
        CodeRunner(broken).run(row(), SUM)
    assert caught.value.kind == "start"


# --- comparison, extraction ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("1\n2\n", "1 \n 2", True),
        ("1.0", "1.00", True),
        ("0.1 2", "1e-1 2.0", True),
        ("1", "1.0000000001", False),
        ("1\n2", "1 2", False),
        ("1\n\n2", "1\n2", False),
        ("YES", "yes", False),
        ("nan", "NaN", False),
        ("3", "\uff13", False),
        ("10", "1_0", False),
        ("", "", True),
    ],
)
def test_output_is_compared_by_line_and_by_number(expected: str, got: str, same: bool) -> None:
    assert same_output(expected, got) is same


@pytest.mark.parametrize(
    ("expected", "got", "source", "same"),
    [
        ([1, 2], (1, 2), "t", True),
        ([[1], 2], ((1,), 2), "t", True),
        ([5], 5, "apps", True),
        ([5], [5], "apps", True),
        ([5], 5, "livecodebench", False),
        ({"a": [1]}, {"a": (1,)}, "t", True),
        (0.5, 0.5000001, "t", False),
        ("1", 1, "t", False),
    ],
)
def test_values_are_compared_as_data(expected: Any, got: Any, source: str, same: bool) -> None:
    assert same_value(expected, got, source) is same


def test_the_last_python_block_is_the_code() -> None:
    text = "```python\na = 1\n```\nno:\n```py\nb = 2\n```\n```bash\nls\n```"
    assert code_in(text) == "b = 2\n"
    assert code_in("x = 1") == "x = 1"
    assert code_in("```python\nunclosed = 1") == "unclosed = 1"


def test_programs_get_the_usual_imports_and_keep_built_ins(runner: CodeRunner) -> None:
    source = "print(Counter('aa')['a'] + pow(2, 3, 7) - 1 + int(input().split()[0]) * 0)"
    assert runner.run(row(cases=(ProgramTest("1", "2"),)), program_of(row(), source)).success


# --- the domain ----------------------------------------------------------------------------------


def test_an_attempt_runs_submits_and_is_graded_again(tmp_path: Path, runner: CodeRunner) -> None:
    path = tmp_path / "set.jsonl"
    problem = {"question": "Add.", "input_output": {"inputs": ["1 2"], "outputs": ["3"]}}
    path.write_text(json.dumps({**problem, "split": "search"}))
    domain = CodeDomain(path, runner)
    (task,) = domain.tasks("search")
    assert "outputs" not in json.dumps(dict(task.view))
    env = domain.open(task)
    try:
        assert env.call("run", {"code": SUM, "stdin": "4 5"}).text == "9\n[exit 0]"
        assert not env.call("run", {"stdin": "4 5"}).ok
        assert env.call("submit", {"text": f"Here:\n```python\n{SUM}\n```"}).done
        assert not env.call("submit", {"code": "print(3)"}).ok, "only the first one counts"
        assert env.grade().success
        assert domain.regrade(task.key, env.verifier_inputs()).success
    finally:
        env.close()
    assert domain.open(task).grade().detail == {"verdict": "no_code"}
