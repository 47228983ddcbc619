"""Runs a package's tests and says how each one failed (in the sandbox; stdlib and pytest only).

The grader's runner (`domains/swe/pytest_guest.py`, whose text comes with the order) only says pass
or fail. This runner uses its parts and adds where and how a test failed, with which parameters, and
which functions of the package the test called.

Does not cover: tests that forge their results. The grader's own runner runs them again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

_TEXT_CHARS = 4000
_VALUE_CHARS = 300


def main() -> None:
    """Reads the host's request (JSON) from stdin, runs pytest and writes a JSON report."""
    order = json.loads(sys.stdin.buffer.readline())
    runner: Any = types.ModuleType("runner")
    exec(order["runner"], vars(runner))  # noqa: S102 - the grader's runner, sent by the host
    report_fd = runner._private_stdout()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    pytest = runner._import_runner()
    plugins = runner.Plugins(order["plugins"])
    watcher = Watcher(order, runner._status)
    order["files"].insert(0, "--assert=rewrite")  # errors then state the values of an assertion
    runner.forget(order["own"])
    sys.path[:0] = [str(Path(path).resolve()) for path in order["pythonpath"]]
    runner._run(pytest, order, watcher, plugins)
    report = {"nonce": order["nonce"], **watcher.report()}
    runner._send(report_fd, report)
    os._exit(0)


class Watcher:
    """A pytest plugin that notes what happened to each test."""

    def __init__(self, order: dict[str, Any], status: Any) -> None:
        self.broken = ""
        self._only = set(order["only"]) if order["only"] is not None else None
        self._traced = {str(Path(path).resolve()): path for path in order["trace"]}
        self._status = status
        self._phases: dict[str, list[list[Any]]] = {}
        self._failures: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, set[tuple[str, int]]] = {}
        self._calls_of_test: set[tuple[str, int]] = set()
        self._collect_errors: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Drops the tests that the host's request does not name. Without names all stay."""
        if self._only is not None:
            items[:] = [item for item in items if item.nodeid in self._only]

    def pytest_collectreport(self, report: Any) -> None:
        """Notes the last line of the error of each module that could not be collected."""
        if report.failed:
            reason = str(report.longrepr).strip().split("\n")[-1]
            self._collect_errors.append(f"{report.nodeid}: {reason[:_VALUE_CHARS]}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Starts to trace the calls of one test."""
        if self._traced:
            self._calls_of_test = self._calls.setdefault(nodeid, set())
            threading.settrace(self._on_call)
            sys.settrace(self._on_call)

    def pytest_runtest_logfinish(self) -> None:
        """Stops tracing."""
        if self._traced:
            sys.settrace(None)
            threading.settrace(None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Records pytest's report of each phase of a test: setup, call and teardown."""
        expected_failure = hasattr(report, "wasxfail")
        phase = [report.when, report.outcome, expected_failure]
        self._phases.setdefault(report.nodeid, []).append(phase)

    def note_failure(self, item: Any, call: Any, report: Any) -> None:
        """Records how a test failed. Later failures of the same test are ignored."""
        if report.outcome != "failed" or item.nodeid in self._failures:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = getattr(crash, "message", None) or str(call.excinfo.value)
        own_file = [entry for entry in call.excinfo.traceback if str(entry.path) == str(item.path)]
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        self._failures[item.nodeid] = {
            "kind": call.excinfo.typename,
            "message": str(message)[:_TEXT_CHARS],
            "lines": [entry.lineno + 1 for entry in own_file],
            "parameters": {name: _expression(value) for name, value in parameters.items()},
        }

    def report(self) -> dict[str, Any]:
        """Returns the results, failures, calls and collection errors as JSON for the host."""
        return {
            "broken": self.broken,
            "results": {test: self._status(phases) for test, phases in self._phases.items()},
            "failures": self._failures,
            "calls": {test: sorted(calls) for test, calls in self._calls.items()},
            "collect_errors": self._collect_errors[:50],
        }

    def _on_call(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        path = self._traced.get(code.co_filename)
        if path is not None:
            self._calls_of_test.add((path, code.co_firstlineno))


def _expression(value: Any) -> str:
    try:
        return repr(value)[:_VALUE_CHARS]
    except Exception:
        return "..."


def _install_hook() -> None:
    """Adds the watcher's hook wrapper, which needs pytest; the rest of this file does not."""
    import pytest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self: Watcher, item: Any, call: Any) -> Any:
        self.note_failure(item, call, (yield).get_result())

    Watcher.pytest_runtest_makereport = pytest_runtest_makereport  # type: ignore[attr-defined]


if __name__ == "__main__":
    _install_hook()
    main()
