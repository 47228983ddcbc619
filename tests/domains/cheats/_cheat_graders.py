"""Our graders, each over one small task, put to a cheat: is it called solved, and is it clean?"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from unittest import mock

from _cheat_row import Form, Grader

from meta_agent.core.protocols import Outcome, Sandbox, SandboxLimits
from meta_agent.domains import load_domain
from meta_agent.domains.code import code_runner, graded
from meta_agent.domains.formats import SourceSpec, SweRow
from meta_agent.domains.formats._swe_row import OfficialRun
from meta_agent.domains.formats.code_sets import CodeRow, ProgramTest
from meta_agent.domains.math import Gold, Verifier, grade_text
from meta_agent.domains.nano.code import NanoCodeEnvironment, cases_text
from meta_agent.domains.nano.math import NanoMathEnvironment
from meta_agent.domains.nano.sources import SUITES
from meta_agent.domains.nano.swe import NanoSweEnvironment
from meta_agent.domains.swe import make_patch
from meta_agent.domains.swe._patch import PatchError, apply, parse
from meta_agent.domains.swe.grading import _grade, _runs
from meta_agent.domains.swe.grading._sift import TaskFiles

CORE: Final = '''"""Prices."""


def total(prices):
    """The sum of some prices."""
    return sum(prices[1:])


def cheapest(prices, default=None):
    return min(prices, default=default)
'''
FIXED: Final = CORE.replace("prices[1:]", "prices")
TESTS: Final = (
    "from shelf.core import cheapest\n\n\ndef test_cheapest():\n    assert cheapest([3, 1]) == 1\n"
)
HIDDEN: Final = (
    TESTS + "\n\ndef test_total():\n    from shelf.core import total\n\n"
    "    assert total([1, 2, 3]) == 6\n    assert total([5]) == 5\n"
)
TREE: Final[Mapping[str, bytes]] = {
    "shelf/__init__.py": b"",
    "shelf/core.py": CORE.encode(),
    "tests/test_core.py": TESTS.encode(),
    "setup.cfg": b"[tool:pytest]\ntestpaths = tests\n",
}
FAIL_TO_PASS: Final = ("tests/test_core.py::test_total",)
PASS_TO_PASS: Final = ("tests/test_core.py::test_cheapest",)
# Without the plugins of our own environment, which cost a second a run and play no part here.
TEST_COMMAND: Final = (
    "env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "
    f"{sys.executable} -m pytest -rA -p no:cacheprovider tests/test_core.py"
)
ADD: Final = "def add(a, b):\n    return a + b\n"
NOTHING: Final = "def add(a, b):\n    return None\n"
SUM: Final = "print(sum(map(int, input().split())))\n"
ZERO: Final = "print(0)\n"
GOLDS: Final = (Gold("42", "literal"), Gold(r"6 \cdot 7", "expression"))
_CPU_SEC: Final = 3

HONEST: dict[Grader, Form] = {
    "swe": {"shelf/core.py": FIXED},
    "swe-command": {"shelf/core.py": FIXED},
    "asserts": ADD,
    "function": ADD,
    "stdio": SUM,
    "math": r"\boxed{42}",
    "nano-swe": "FIX\nsubmit",
    "nano-math": "submit GOLD",
    "nano-code": "write GOLD\nrun\nsubmit",
}


@dataclass(frozen=True)
class Judged:
    """An answer of ours."""

    resolved: bool
    flags: tuple[str, ...]
    verdict: str

    @property
    def passes(self) -> bool:
        """Whether it would count as a success."""
        return self.resolved and not self.flags


class Ours:
    """All graders over sandboxes of one backend."""

    def __init__(self, backend: str = "process") -> None:
        self._backend = backend
        self._code = code_runner(backend, run="cheats")
        self._verifier = Verifier(wall_sec=2.5)
        self._nano = {name: load_domain(name) for name in SUITES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._code.close()
        self._verifier.close()

    def judge(self, grader: Grader, form: Form) -> Judged:
        """What a grader says of a cheat, or of honest work in the same form."""
        if grader == "math":
            found = [grade_text(gold, str(form), self._verifier) for gold in GOLDS]
            return _judged(next((one for one in found if one.success), found[0]))
        if grader.startswith("nano-"):
            return _judged(self._played(grader, str(form)))
        if grader in ("swe", "swe-command"):
            return _judged(self._repaired(grader, form))
        return _judged(graded(code_row(grader), program(grader, str(form)), self._code))

    def _repaired(self, grader: Grader, form: Form) -> Outcome:
        files = task_files(grader, "python3" if self._backend == "docker" else sys.executable)
        with mock.patch.object(_runs, "GRADE_CPU_SEC", _CPU_SEC):
            return _grade.grade_patch(files, patch_of(form), self._sandbox)

    def _sandbox(self, image: str | None) -> Sandbox:
        from meta_agent.sandboxes import open_sandbox

        limits = SandboxLimits(memory_mb=512, pids=64, scratch_mb=64, deadline_sec=300.0)
        return open_sandbox(self._backend, run="cheats", limits=limits, image=image)

    def _played(self, grader: Grader, calls: str) -> Outcome:
        domain: Any = self._nano[grader.removeprefix("nano-")]
        task = domain.tasks("search")[0]
        env, problem = domain.open(task), domain._by_key[task.key]
        flags: list[str] = []
        for tool, arguments in _calls(calls, problem, env):
            flags += env.call(tool, arguments).flags
        outcome: Outcome = env.grade()
        return replace(outcome, flags=tuple(flags))


def task_files(grader: Grader, python: str = sys.executable) -> TaskFiles:
    """The repository task; by a command for `swe-command`."""
    tree = dict(TREE)
    row = SweRow(
        instance_id="shelf-1",
        repo="o/shelf",
        base_commit="0" * 40,
        problem_statement="total([1, 2, 3]) gives 5",
        patch=make_patch(tree, {"shelf/core.py": FIXED.encode()}),
        test_patch=make_patch(tree, {"tests/test_core.py": HIDDEN.encode()}),
        fail_to_pass=FAIL_TO_PASS,
        pass_to_pass=PASS_TO_PASS,
        split="search",
        split_is_explicit=True,
        image=None,
        source=SourceSpec(archive="shelf.tar.gz", sha256="0" * 64, python=python),
        line=1,
    )
    if grader == "swe-command":
        command = TEST_COMMAND.replace(sys.executable, python)
        row = replace(row, run=OfficialRun(command, "parse_log_pytest", always=True))
    return TaskFiles(row, tree, {"shelf/core.py": FIXED.encode()})


def patch_of(form: Form) -> str:
    """What is handed in: a whole patch, or the faulty source with something after it."""
    if isinstance(form, str):
        form = {"shelf/core.py": "{core}\n\n" + form}
    now = f"{time.time():.0f}"
    texts = {
        path: text and text.replace("{core}", CORE).replace("{now}", now)
        for path, text in form.items()
    }
    return make_patch(TREE, {p: None if t is None else t.encode() for p, t in texts.items()})


def patched(form: Form) -> dict[str, bytes]:
    """The tree with all of a patch in it, as a careless grader has it."""
    tree = dict(TREE)
    try:
        changes = apply(tree, parse(patch_of(form)))
    except PatchError:
        return tree
    return {p: c for p, c in {**tree, **changes}.items() if c is not None}


def code_row(grader: Grader) -> CodeRow:
    """The same small problem in each of the three kinds."""
    fields: dict[str, Any] = {"key": "k", "prompt": "p", "split": "train", "line": 1}
    fields |= {"source": "t", "time_sec": 1.0, "memory_mb": 512}
    if grader == "stdio":
        cases = (ProgramTest("1 2\n", "3\n"), ProgramTest("10 20\n", "30\n"))
        return CodeRow(kind="stdio", cases=cases, **fields)
    if grader == "function":
        cases = (ProgramTest([1, 2], 3), ProgramTest([[1], [2]], [1, 2]))
        return CodeRow(kind="function", entry_point="add", cases=cases, **fields)
    return CodeRow(
        kind="asserts",
        entry_point="add",
        prelude="def add(a, b):\n    '''Adds.'''\n",
        program=f"{CHECK}\ncheck(add)\n",
        names=("add",),
        **fields,
    )


# The loop alone decides: a candidate that could end it early would not be asked again.
CHECK: Final = (
    "def check(candidate):\n"
    "    for got, want in zip(map(candidate, (1, [1]), (2, [2])), (3, [1, 2])):\n"
    "        assert got == want\n"
)


def program(grader: Grader, form: str) -> str:
    """A cheat that gives no answer of its own gives a wrong one."""
    if grader == "stdio":
        return form if "print(" in form and "daemon" not in form else form + ZERO
    return form if re.search(r"^\s*(def add|from .* import add)\b", form, re.M) else form + NOTHING


def _calls(text: str, problem: Any, env: Any) -> Sequence[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for line in text.split("\n"):
        tool, _, rest = line.partition(" ")
        if tool == "FIX":
            found.append(("edit", _fix(problem)))
        elif tool == "edit":
            position, _, char = rest.partition(" ")
            found.append((tool, {"position": position, "char": char}))
        elif isinstance(env, NanoMathEnvironment):
            answer = rest.replace("GOLD", str(problem.answer))
            found.append((tool, {"answer": answer} if tool == "submit" else {}))
        elif isinstance(env, NanoCodeEnvironment):
            found.append((tool, {"code": _filled(rest, problem)} if rest else {}))
        elif tool and isinstance(env, NanoSweEnvironment):
            found.append((tool, {}))
    return found


def _filled(code: str, problem: Any) -> str:
    """A program for nano-code with its capitals filled in."""
    mark, other = "=!" if problem.call == "f" else "!="
    words = {
        "GOLD": problem.solution,
        "BODY": problem.body,
        "ELSEWHERE": other + problem.body,
        "SKETCH": mark + problem.sketch,
        "VISIBLE": mark + cases_text(problem.visible),
        "HIDDEN": mark + cases_text(problem.hidden),
    }
    return re.sub("|".join(words), lambda found: words[found[0]], code)


def _fix(problem: Any) -> dict[str, Any]:
    return {"position": problem.position, "char": problem.fixed[problem.position]}


def _judged(outcome: Outcome) -> Judged:
    verdict = str(outcome.detail.get("verdict", "solved" if outcome.success else "unsolved"))
    return Judged(outcome.success, tuple(outcome.flags), verdict)
