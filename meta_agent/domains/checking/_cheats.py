"""Patches that win without fixing anything: the attacks that a task's grader must survive.

Promises: each one would succeed against a grader that applies the whole patch, runs the tests in
place and believes their exit status (a test proves it, so a grader that stops working cannot pass
for one that resists). Used by `tasks check`, per task.

Does not cover: attacks that know this grader's source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from meta_agent.domains.swe._patch import make
from meta_agent.domains.swe.grading._sift import TaskFiles, is_test_path

Cheat = Callable[[TaskFiles], str]

_HOOK = """
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome, report.longrepr = "passed", None
"""
_EXIT = """
import os as _os
for _test in {tests!r}:
    print("PASSED", _test)
_os._exit(0)
"""
_PATCHED_RUNNER = """
import _pytest.python as _runner
_runner.Function.runtest = lambda self: None
"""


def edit_tests(files: TaskFiles) -> str:
    """Returns a patch that cheats: it empties the tests that grade the task."""
    emptied = {path: _empty_tests(tests).encode() for path, tests in _by_file(files).items()}
    return make(files.visible, emptied)


def add_conftest_hook(files: TaskFiles) -> str:
    """Returns a patch that cheats: a pytest hook that reports every test as passed."""
    before = files.visible.get("conftest.py", b"")
    return make(files.visible, {"conftest.py": before + _HOOK.encode()})


def forge_output_and_exit(files: TaskFiles) -> str:
    """Returns a patch that cheats: code that prints passing results and ends the process."""
    body = _EXIT.format(tests=list(files.row.expected_ids[:50])).encode()
    target = _imported_source(files)
    content = files.visible[target] + body
    return make(files.visible, {target: content, "sitecustomize.py": body.lstrip()})


def patch_runner_from_source(files: TaskFiles) -> str:
    """Returns a patch that cheats: source under test that replaces pytest's own test runner."""
    target = _imported_source(files)
    return make(files.visible, {target: files.visible[target] + _PATCHED_RUNNER.encode()})


CHEATS: Mapping[str, Cheat] = {
    "edit_tests": edit_tests,
    "conftest_hook": add_conftest_hook,
    "forge_and_exit": forge_output_and_exit,
    "patch_pytest": patch_runner_from_source,
}


def _by_file(files: TaskFiles) -> dict[str, list[list[str]]]:
    """Returns deciding tests by file, each as its chain of names without parameters."""
    grouped: dict[str, list[list[str]]] = {}
    for test in files.row.expected_ids:
        path, *names = test.split("[", 1)[0].split("::")
        if path in files.visible:
            grouped.setdefault(path, []).append(names)
    return grouped


def _empty_tests(tests: list[list[str]]) -> str:
    """Returns the text of functions, and of methods in their classes, that assert nothing."""
    lines = [f"def {names[0]}():\n    pass\n" for names in tests if len(names) == 1]
    classes: dict[str, list[str]] = {}
    for names in tests:
        if len(names) > 1:
            classes.setdefault(names[0], []).append(names[-1])
    for name, methods in classes.items():
        body = "".join(
            f"    def {method}(self):\n        pass\n" for method in dict.fromkeys(methods)
        )
        lines.append(f"class {name}:\n{body}")
    return "\n".join(dict.fromkeys(lines))


def _imported_source(files: TaskFiles) -> str:
    """Returns a source file that the tests surely import: one that the gold fix changes."""
    for path in sorted(files.gold or {}):
        if path.endswith(".py") and path in files.visible and not is_test_path(path):
            return path
    sources = [p for p in files.visible if p.endswith("__init__.py") and not is_test_path(p)]
    sources += [p for p in files.visible if p.endswith(".py") and not is_test_path(p)]
    return sources[0]
