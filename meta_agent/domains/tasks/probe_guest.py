"""Runs a package's tests and tells what each one met (in the sandbox; stdlib and pytest only).

Where the grader's runner (`domains/swe/pytest_guest.py`, whose text comes along in the order and
whose parts are used here) says only pass or fail, this also says which functions of the package a
test called, where and how a test failed, and whether it waited while other threads ran: material
for choosing mutants and deciding tests, and for issue texts.

Does not cover: distrust. What becomes FAIL_TO_PASS is measured again by the grader's own runner.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

_TEXT_CHARS = 4000
_VALUE_CHARS = 300


def main() -> None:
    """One run: read the order, run pytest, write the report, leave."""
    order = json.loads(sys.stdin.buffer.readline())
    runner: Any = types.ModuleType("runner")
    exec(order["runner"], vars(runner))  # noqa: S102 - the grader's runner, sent by the host
    report_fd = runner._private_stdout()
    resource.setrlimit(resource.RLIMIT_CPU, (order["cpu_sec"], order["cpu_sec"] + 5))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    pytest = runner._import_runner()
    plugins = runner.Plugins(order["plugins"])
    probe = Probe(order, runner._status)
    runner.forget(order["own"])
    sys.path[:0] = [str(Path(path).resolve()) for path in order["pythonpath"]]
    status = runner._run(pytest, order, probe, plugins)
    report = {"nonce": order["nonce"], "status": status, **probe.report()}
    runner._write_all(report_fd, json.dumps(report).encode())
    os._exit(0)


class Probe:
    """A pytest plugin that watches."""

    def __init__(self, order: dict[str, Any], status: Any) -> None:
        self.broken = ""
        self._only = set(order["only"]) if order["only"] is not None else None
        self._traced = {str(Path(path).resolve()): path for path in order["trace"]}
        self._status = status
        self._phases: dict[str, list[list[Any]]] = {}
        self._failures: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, set[tuple[str, int]]] = {}
        self._here: set[tuple[str, int]] = set()
        self._given: dict[str, dict[str, str]] = {}
        self._test = ""
        self._waiting: set[str] = set()
        if self._traced:
            self._watch_waits()
        self._collect_errors: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keeps the tests that were asked for."""
        if self._only is not None:
            items[:] = [item for item in items if item.nodeid in self._only]
            self._given = {item.nodeid: _parameters(item) for item in items}

    def pytest_collectreport(self, report: Any) -> None:
        """Keeps which modules could not be collected, and the last that was said of each."""
        if report.failed:
            said = str(report.longrepr).strip().split("\n")[-1]
            self._collect_errors.append(f"{report.nodeid}: {said[:_VALUE_CHARS]}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Starts watching calls for one test."""
        if self._traced:
            self._test = nodeid
            self._here = self._calls.setdefault(nodeid, set())
            threading.settrace(self._on_call)
            sys.settrace(self._on_call)

    def pytest_runtest_logfinish(self) -> None:
        """Stops watching."""
        if self._traced:
            sys.settrace(None)
            threading.settrace(None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keeps each phase as reported."""
        expected = hasattr(report, "wasxfail")
        self._phases.setdefault(report.nodeid, []).append([report.when, report.outcome, expected])

    def saw(self, item: Any, call: Any, report: Any) -> None:
        """Keeps how a test failed, the first time."""
        if report.outcome != "failed" or item.nodeid in self._failures:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = getattr(crash, "message", None) or str(call.excinfo.value)
        self._failures[item.nodeid] = {
            "kind": call.excinfo.typename,
            "message": str(message)[:_TEXT_CHARS],
            "lines": [
                entry.lineno + 1
                for entry in call.excinfo.traceback
                if str(entry.path) == str(item.path)
            ],
            "parameters": _parameters(item),
        }

    def report(self) -> dict[str, Any]:
        """What the host gets."""
        return {
            "broken": self.broken,
            "results": {test: self._status(phases) for test, phases in self._phases.items()},
            "failures": self._failures,
            "calls": {test: sorted(calls) for test, calls in self._calls.items()},
            "waiting": sorted(self._waiting),
            "given": self._given,
            "collect_errors": self._collect_errors[:50],
        }

    def _watch_waits(self) -> None:
        """Notes tests that sleep or open connections beside other threads: they race them."""
        sleep = time.sleep

        def watched(seconds: Any) -> None:
            self._waits()
            sleep(seconds)

        time.sleep = watched
        sys.addaudithook(lambda event, _: self._waits() if event == "socket.connect" else None)

    def _waits(self) -> None:
        if threading.active_count() > 1:
            self._waiting.add(self._test)

    def _on_call(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        path = self._traced.get(code.co_filename)
        if path is not None:
            self._here.add((path, code.co_firstlineno))


def _parameters(item: Any) -> dict[str, str]:
    given = getattr(getattr(item, "callspec", None), "params", {})
    return {name: _shown(value) for name, value in given.items()}


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_VALUE_CHARS]
    except Exception:
        return "..."


def _install_witness() -> None:
    """Gives the probe its hookwrapper; here, so that this file imports without pytest."""
    import pytest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self: Probe, item: Any, call: Any) -> Any:
        self.saw(item, call, (yield).get_result())

    Probe.pytest_runtest_makereport = pytest_runtest_makereport  # type: ignore[attr-defined]


if __name__ == "__main__":
    _install_witness()
    main()
