"""Grading programs: what passes, how each failure is told, and every cheat that fails."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

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
from meta_agent.domains.formats.code_sets import Case, CodeRow
from meta_agent.readers.formats import read_rollouts
from meta_agent.sandboxes import engine_status

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
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


def row(kind: Any = "stdio", **more: Any) -> CodeRow:
    fields: dict[str, Any] = {
        "key": "k", "prompt": "p", "split": "train", "line": 1, "source": "t", "time_sec": 1.0,
    }  # fmt: skip
    if kind == "stdio":
        fields["cases"] = (Case("1 2\n", "3\n"), Case("10 20\n", "30\n"))
    elif kind == "function":
        fields |= {"entry_point": "add", "cases": (Case([1, 2], 3), Case([[1], [2]], [1, 2]))}
    else:
        tests = "def check(f):\n    assert f(1, 2) == 3\n    assert f([1], [2]) == [1, 2]\n"
        fields |= {
            "entry_point": "add",
            "prelude": "def add(a, b):\n    '''Adds.'''\n",
            "program": f"{tests}\ncheck(add)\n",
            "names": ("add",),
        }
    return CodeRow(kind=kind, **{**fields, **more})


ADD = "def add(a, b):\n    return a + b\n"
SUM = "print(sum(map(int, input().split())))"


@pytest.mark.parametrize("backend", BACKENDS)
def test_right_programs_pass_and_wrong_ones_fail_on_every_backend(backend: str) -> None:
    made = code_runner(backend)
    try:
        assert graded(row(), SUM, made).success
        assert graded(row(), PROGRAMS["reads a device"][0], made).success
        assert graded(row("function"), ADD, made).success
        assert graded(row("asserts"), ADD, made).success
        assert not graded(row("asserts"), ADD.replace("+", "-"), made).success
        assert graded(row(), "while True: pass", made).detail["verdict"] == "timeout"
    finally:
        made.close()


PROGRAMS: dict[str, tuple[str, str]] = {
    "sum": (SUM, "passed"),
    "reads the buffer": (
        "import sys\na = sys.stdin.buffer.read().split()\nprint(int(a[0]) + int(a[1]))",
        "passed",
    ),
    "reads the descriptor": ("import os\nprint(sum(map(int, os.read(0, 99).split())))", "passed"),
    "reads a device": ("print(sum(map(int, open('/dev/stdin').read().split())))", "passed"),
    "main guard": (f"if __name__ == '__main__':\n    {SUM}", "passed"),
    "a thread that nobody joins": (
        f"import threading\ndef main():\n    {SUM}\nthreading.Thread(target=main).start()",
        "passed",
    ),
    "an exit function": (f"import atexit\natexit.register(lambda: {SUM})", "passed"),
    "leaves with 0": (f"import sys\n{SUM}\nsys.exit()", "passed"),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n    return n and 1 + f(n - 1)\n"
        f"f(20000)\n{SUM}",
        "passed",
    ),
    "wrong": ("print(4)", "wrong_answer"),
    "silent": ("pass", "wrong_answer"),
    "more than asked": (f"{SUM}\nprint(1)", "wrong_answer"),
    "no program": ("def (", "no_program"),
    "raises": ("1/0", "crashed"),
    "right, then an error": (f"{SUM}\nraise ValueError", "crashed"),
    "right, then status 3": (f"import sys\n{SUM}\nsys.exit(3)", "crashed"),
    "right, then killed": (
        f"import os, signal\n{SUM.replace('print(', 'print(flush=True, *[')[:-1]}])\n"
        "os.kill(os.getpid(), signal.SIGKILL)",
        "killed",
    ),
    "spins": ("while True: pass", "timeout"),
    "floods": ("while True: print('x' * 10000)", "too_much_output"),
    "takes all memory": ("x = 'x' * (8 << 30)", "out_of_memory"),
}


@pytest.mark.parametrize(("source", "end"), PROGRAMS.values(), ids=PROGRAMS)
def test_each_ending_of_a_program_has_its_word(source: str, end: str, runner: CodeRunner) -> None:
    found = runner.run(row(), source)
    assert (found.end, found.success) == (end, end == "passed"), found


EQUAL = "class Same({base}):\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    __hash__ = None\n"  # noqa: E501
FUNCTION_CHEATS: dict[str, str] = {
    "always equal object": EQUAL.format(base="object") + "def add(a, b):\n    return Same()\n",
    "always equal int": EQUAL.format(base="int") + "def add(a, b):\n    return Same(0)\n",
    "always equal list": EQUAL.format(base="list") + "def add(a, b):\n    return Same()\n",
    "reads the caller's frame": (
        "import sys\ndef add(a, b):\n    f = sys._getframe(1)\n    while f:\n"
        "        for v in f.f_locals.values():\n"
        "            if isinstance(v, dict) and 'expected' in v: return v['expected']\n"
        "        f = f.f_back\n    return None\n"
    ),
    "looks through the heap": (
        "import gc\ndef add(a, b):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and o.get('program'): os._exit(0)\n    return None\n"
    ),
    "leaves with 0 while loading": "import os\nos._exit(0)\n",
    "leaves with 0 when called": "import os\ndef add(a, b):\n    os._exit(0)\n",
    "raises SystemExit": "def add(a, b):\n    raise SystemExit(0)\n",
    "writes a reply of its own": (
        "import os\nfor fd in range(3, 300):\n    try: os.write(fd, b'{\"end\": \"passed\"}\\n')\n"
        "    except OSError: pass\ndef add(a, b): return None\n"
    ),
    "says that it passed when called": (
        "import os\ndef add(a, b):\n    os.write(201, b'{\"end\": \"passed\"}\\n')\n"
        "    os._exit(0)\n"
    ),
    "forges a value": (
        "import os, json\ndef add(a, b):\n"
        "    os.write(201, json.dumps({'end': 'ok', 'value': 4}).encode() + b'\\n')\n"
        "    os._exit(0)\n"
    ),
    "patches assertions": (
        "import builtins as b\nb.AssertionError = Exception\nb.isinstance = lambda *a: True\n"
        "def add(a, b): return None\n"
    ),
    "overwrites the tests": (
        "import sys\nfor m in list(sys.modules.values()):\n"
        "    for n in ('judge', 'check', 'answer', 'same_value'):\n"
        "        try: setattr(m, n, lambda *a, **k: {'end': 'ok', 'value': 3})\n"
        "        except Exception: pass\ndef add(a, b): return None\n"
    ),
    "special-cases the first test": "def add(a, b):\n    return 3\n",
    "edits its arguments": "def add(a, b):\n    if isinstance(a, list): a.clear(); b.clear()\n    return a\n",  # noqa: E501
    "endless iterator": "import itertools\ndef add(a, b):\n    return itertools.count()\n",
    "deep value": "def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x\n",
    "kills the worker": (
        "import os, signal\ntry: os.kill(os.getppid(), signal.SIGKILL)\nexcept OSError: pass\n"
        "def add(a, b): return None\n"
    ),
    "writes into the worker": (
        "import os\ntry:\n    with open(f'/proc/{os.getppid()}/mem', 'r+b') as f: f.read(1)\n"
        "    stolen = True\nexcept OSError: stolen = False\n"
        "def add(a, b): return a + b if stolen else None\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["function", "asserts"])
@pytest.mark.parametrize("source", FUNCTION_CHEATS.values(), ids=FUNCTION_CHEATS)
def test_no_cheat_passes(kind: str, source: str, runner: CodeRunner) -> None:
    assert not runner.run(row(kind), source).success


def test_a_cheat_does_not_spoil_the_next_candidates_run(runner: CodeRunner) -> None:
    for source in FUNCTION_CHEATS.values():
        runner.run(row("function"), source)
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
        assert made.run(row(cases=(Case("987654320 1", str(secret)),)), SUM).success
        function = row("function", cases=(Case([secret - 1, 1], secret),))
        assert made.run(function, ADD).success
    finally:
        made.close()
    assert sent
    assert not [args for args in sent if str(secret) in args]


def test_tests_that_never_call_the_candidate_are_no_pass(runner: CodeRunner) -> None:
    assert runner.run(row("asserts", program="assert True"), ADD).end == "never_called"


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
    assert runner.run(row(cases=(Case("1", "2"),)), program_of(row(), source)).success


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


# what our grader says of each stored rollout, and why where it is not the stored reward: nowhere
def test_the_rewards_of_nemo_gyms_rollouts_are_reproduced(runner: CodeRunner) -> None:
    tasks, rollouts = (DATA / f"nemo_gym_code_example{end}.jsonl" for end in ("", "_rollouts"))
    if not tasks.is_file():
        pytest.skip("no shared sample nemo_gym_code_example.jsonl")
    domain = CodeDomain(tasks, runner)
    by_prompt = {" ".join(one.prompt.split()): one for one in domain.rows.values()}
    seen = {}
    for rollout in read_rollouts(rollouts):
        asked = "\n\n".join(m["content"] for m in rollout.messages if m["role"] != "assistant")
        task = by_prompt[" ".join(asked.split())]
        outcome = graded(task, code_in(rollout.messages[-1]["content"]), runner)
        assert outcome.success is (rollout.total_reward == 1.0), task.key
        stored = rollout.verifier_inputs["result"]
        passed, total = outcome.detail["tests"]
        assert passed == sum(result is True for result in stored), task.key
        seen[task.key] = (outcome.detail["verdict"], passed, total)
    assert sorted(seen.values()) == [
        ("passed", 82, 82),
        ("wrong_answer", 0, 1),
        ("wrong_answer", 0, 3),
        ("wrong_answer", 0, 97),
        ("wrong_answer", 2, 100),
    ]


def test_swe_rollouts_of_nemo_gym_hold_no_tests_to_grade_with() -> None:
    """Each of the five is a miss for one reason: the file has a patch, no repository, no tests."""
    path = DATA / "nemo_gym_swebench_example_rollouts.jsonl"
    if not path.is_file():
        pytest.skip("no shared sample nemo_gym_swebench_example_rollouts.jsonl")
    for rollout in read_rollouts(path):
        assert set(rollout.verifier_inputs) == {"model_patch"}
        assert rollout.error is not None or rollout.outcome is (rollout.total_reward == 1.0)
