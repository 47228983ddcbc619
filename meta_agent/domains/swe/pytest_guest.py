"""Runs pytest beside code that may want to cheat and reports what happened (in the sandbox).

The host passes this file's text, behind that of `walls_guest`, to `python3 -I -c` and one JSON
document on stdin: `nonce`, `files`, `pythonpath`, `noconftest`, `sources` (files that the patch
changed), `texts` (test files whose texts are not on the disk), `places` (folders of the tree that
the tests write to; "." for all), `plugins` (packages of the image whose plugins take part; the
tree's never do by themselves), `own` (names that pytest may have imported from the image, and the
tests have to find in the tree). Stdlib and pytest only. A report that carries the nonce was written
here, after the session ended by itself, or before it began: then `unready` says what the image
lacks. These forgeries show in it:

* printed results: file descriptor 1 belongs to the report alone; tests write to another one;
* ending the process early: then there is no report, and no report is never a pass;
* hooks and patches that turn failures into passes: canary tests with random names that must fail
  stand between the real ones, and pytest's own functions are compared with what they were before
  the code was imported;
* reports that disagree with what the test raised: the exception is read before any other hook sees
  it;
* code that skips its tests: who raised is asked, and a skip from a changed file is a failure;
* patches of what writes the report: this module is not to be found under `__main__`, and it writes
  with functions of C that it took before the code was imported.

Does not cover: code that singles out tests by name, restores what it patched and knows this file.
Both live in one process, so this is detection. Such code needs words that `_words` names.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import pdb
import random
import re
import sys
import types
from _json import encode_basestring_ascii, make_encoder
from pathlib import Path
from typing import Any
from unittest import SkipTest

from meta_agent.domains.swe.walls_guest import REALPATH, Opened, Texts, make_read_only

_WATCHED = ("_pytest", "pluggy", "unittest.case", "builtins")
_WRITE, _EXIT = os.write, os._exit
_ENCODER = make_encoder(None, repr, encode_basestring_ascii, None, ":", ",", False, False, True)


def main() -> None:
    """Reads the host's request (JSON) from stdin, runs pytest, writes a report, and exits."""
    order = json.loads(sys.stdin.buffer.readline())
    report_fd = _private_stdout()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    try:
        pytest = _import_runner()
        sys.modules["__main__"] = types.ModuleType("__main__")
        plugins = Plugins(order["plugins"])
    except (ImportError, LookupError) as problem:  # the image's fault: no code of the tree has run
        _send(report_fd, {"nonce": order["nonce"], "unready": str(problem), "results": {}})
        return
    watched = _WATCHED + plugins.modules
    before = _fingerprint(watched)
    sources = frozenset(REALPATH(path) for path in order["sources"])
    recorder = Recorder(pytest, order["nonce"], sources, reruns=bool(plugins.modules))
    sys.meta_path.insert(0, Texts(order.pop("texts")))
    make_read_only(["."], order["places"])
    opened = Opened(order["sources"])
    forget(order["own"])
    sys.path[:0] = [str(Path(path).resolve()) for path in order["pythonpath"]]
    status = _run(pytest, order, recorder, plugins)
    report = recorder.report(status, _changed(before, watched))
    report["imported"] = opened.imported(order["sources"])
    _send(report_fd, {"nonce": order["nonce"], **report})
    _EXIT(0)  # nothing registered to run at exit gets a say


def _private_stdout() -> int:
    """Returns a descriptor of stdout for the report. All other output then goes to stderr."""
    report_fd = os.dup(1)
    os.set_inheritable(report_fd, False)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    return report_fd


def _hide(config: Any, set_trace: Any) -> None:
    """Takes the runner's own objects out of what code under test can reach by attributes.

    Whoever has them edits reports. Rewritten assertions, the debugger and marks each keep one; what
    is left are frames and the garbage collector, which `_words` names.
    """
    assertion = config.pluginmanager.get_plugin("assertion")
    if assertion is not None:  # its option is read by now
        config.pluginmanager.unregister(assertion)
    pdb.set_trace = set_trace
    debugger = getattr(sys.modules.get("_pytest.debugging"), "pytestPDB", None)
    for owner in (debugger, sys.modules["pytest"].mark):
        for name in ("_config", "_pluginmanager"):
            if hasattr(owner, name):
                setattr(owner, name, None)


def _import_runner() -> Any:
    """Imports every built-in plugin now, so that all of them are in the fingerprint."""
    import pytest
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    vars(sys.modules["_pytest.runner"])["_update_current_test_var"] = _hide_name
    _install_witness()
    return pytest


def _hide_name(item: Any, when: str | None) -> None:
    """Sets PYTEST_CURRENT_TEST without the test's name, which may hold the expected value."""
    os.environ["PYTEST_CURRENT_TEST"] = f"a test ({when})"
    if when is None:
        del os.environ["PYTEST_CURRENT_TEST"]
    linecache.clearcache()  # lines of the tests, which a traceback left there


class Plugins:
    """A pytest plugin that registers the image's plugins, loaded before any code of the task."""

    def __init__(self, names: list[str]) -> None:
        from importlib.metadata import distributions

        entries = {
            entry.name: (_plain(distribution.metadata["Name"]), entry)
            for distribution in (distributions() if names else ())
            for entry in distribution.entry_points
            if entry.group == "pytest11"
        }
        plugins = {_plain(name) for name in names}
        if missing := plugins - {owner for owner, _ in entries.values()}:
            raise LookupError(f"install pytest plugins in the image: {sorted(missing)}")
        chosen = {name: entry for name, (owner, entry) in entries.items() if owner in plugins}
        self._loaded = {name: entry.load() for name, entry in chosen.items()}
        self.modules = tuple(entry.value.split(":")[0] for entry in chosen.values())

    def pytest_addoption(self, pluginmanager: Any) -> None:
        """Registers the image's plugins before pytest reads its options."""
        for name, plugin in self._loaded.items():
            pluginmanager.register(plugin, name)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Settings:
    """A pytest plugin that drops options of the task's settings whose plugin is not installed.

    Without pytest-cov, `addopts = --cov=...` would keep pytest from starting. No test's result
    depends on such an option.
    """

    def __init__(self, pytest: Any, argv: list[str]) -> None:
        @pytest.hookimpl(trylast=True)  # type: ignore[untyped-decorator]  # conftest.py has spoken
        def drop(parser: Any, args: list[str]) -> None:
            words = args[: len(args) - len(argv)]
            unknown = parser.parse_known_and_unknown_args(words)[1]
            if unknown:  # what follows one may be its value
                args[:] = [*_without(words, unknown), *argv]

        self.pytest_load_initial_conftests = drop


def _without(words: list[str], unknown: list[str]) -> list[str]:
    options: list[str] = []
    dropping = False
    for word in words:
        dropping = word in unknown or (dropping and not word.startswith("-"))
        options += [] if dropping else [word]
    return options


def _run(pytest: Any, order: dict[str, Any], recorder: Recorder, plugins: Plugins) -> int:
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        "--tb=line",
        "--assert=plain",  # the rewriting finder of imports would lead to the session
        "--rootdir=.",
    ]
    if order["noconftest"]:
        options.append("--noconftest")
    argv = [*options, *order["files"]]
    try:
        return int(pytest.main(argv, plugins=[plugins, recorder, Settings(pytest, list(argv))]))
    except BaseException as problem:  # SystemExit while a module is collected ends up here
        recorder.broken = f"{type(problem).__name__}: {problem}"[:500]
        return -1


def forget(roots: list[str]) -> None:
    """Removes modules below `roots` from `sys.modules`, so that imports find the task's files."""
    for name in list(sys.modules):
        if name.split(".")[0] in roots:
            del sys.modules[name]


def _send(fd: int, report: dict[str, Any]) -> None:
    """Writes a report as JSON. The `json` module may be the candidate's by now."""
    data = "".join(_ENCODER(report, 0)).encode()
    while data:
        data = data[_WRITE(fd, data) :]


def _fingerprint(watched: tuple[str, ...]) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Returns the functions of the runner, by place: the object and its code."""
    prints: dict[tuple[str, str], tuple[Any, Any]] = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in watched or name in watched:
            _fingerprint_names(name, vars(module), prints)
    return prints


def _fingerprint_names(
    place: str, names: Any, prints: dict[tuple[str, str], tuple[Any, Any]]
) -> None:
    for name, value in list(names.items()):
        if isinstance(value, type) and value.__module__ == place:
            prints[place, name] = (value, None)
            _fingerprint_names(f"{place}.{name}", vars(value), prints)
        elif isinstance(
            value,
            (types.FunctionType, types.BuiltinFunctionType, property, staticmethod, classmethod),
        ):
            prints[place, name] = (value, getattr(value, "__code__", None))


def _changed(before: dict[tuple[str, str], tuple[Any, Any]], watched: tuple[str, ...]) -> list[str]:
    now = _fingerprint(watched)
    return sorted(
        f"{place}.{name}"
        for (place, name), (value, code) in before.items()
        if not _same(now.get((place, name)), value, code)
    )[:20]


def _same(now: tuple[Any, Any] | None, value: Any, code: Any) -> bool:
    return now is not None and now[0] is value and now[1] is code


def _canaries(nonce: str) -> dict[str, tuple[bool, Any]]:
    """Returns test functions by name: whether each must pass, and its body."""

    def compares() -> None:
        assert [nonce] == []

    def raises() -> None:
        raise KeyError(nonce)

    def exits() -> None:
        raise SystemExit(0)

    def passes() -> None:
        assert nonce

    chance = random.Random(nonce)
    bodies = [(False, compares), (False, raises), (False, exits), (True, passes)]
    return {f"test_{chance.getrandbits(48):012x}": body for body in bodies}


class Recorder:
    """A pytest plugin that adds canaries (tests of known result) and records every test."""

    def __init__(
        self, pytest: Any, nonce: str, sources: frozenset[str], *, reruns: bool = False
    ) -> None:
        self.broken = ""
        self._reruns = reruns  # only plugins run a test again, pytest itself does not
        self._set_trace = pdb.set_trace
        self._sources = sources
        self._evaded: set[str] = set()
        self._nonce = nonce
        self._canaries = _canaries(nonce)
        self._raised: dict[str, bool] = {}
        self._phases: dict[str, list[list[Any]]] = {}
        self._collect_errors: list[str] = []
        self._collected: list[str] = []
        self._pytest = pytest
        self._skips = (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)

    def pytest_collection_modifyitems(self, session: Any, items: list[Any]) -> None:
        """Puts the canaries at random places among the real tests."""
        if not items:
            return
        self._collected = [item.nodeid for item in items]
        chance = random.Random(self._nonce)
        for name, (_, body) in self._canaries.items():
            neighbour = chance.randrange(len(items))
            module = items[neighbour].getparent(self._pytest.Module)
            if module is not None:
                items.insert(
                    neighbour, self._pytest.Function.from_parent(module, name=name, callobj=body)
                )

    def pytest_collectreport(self, report: Any) -> None:
        """Keeps the names of modules that could not be collected."""
        if report.failed:
            self._collect_errors.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Records pytest's report of each phase of a test (setup, call, teardown) or subtest."""
        expected_failure = hasattr(report, "wasxfail")
        self._phases.setdefault(report.nodeid, []).append(
            [report.when, report.outcome, expected_failure]
        )

    def saw(self, item: Any, call: Any) -> None:
        """Records whether a phase of a test raised, before other code can rewrite the report."""
        raised = call.excinfo is not None and not isinstance(call.excinfo.value, self._skips)
        if call.excinfo is not None and not raised:
            self._look_into(item.nodeid, call)
        again = self._reruns and call.when == "setup"  # a new attempt of the same test
        self._raised[item.nodeid] = raised or (not again and self._raised.get(item.nodeid, False))

    def _look_into(self, test: str, call: Any) -> None:
        """Notes a skip that a changed file raised."""
        files = {REALPATH(str(entry.path)) for entry in call.excinfo.traceback}
        self._evaded |= {test} if files & self._sources else set()

    def report(self, status: int, changed: list[str]) -> dict[str, Any]:
        """Returns the report for the host: results, errors, canary checks and signs of forgery."""
        results = {test: _status(phases) for test, phases in self._phases.items()}
        results |= dict.fromkeys(self._evaded & results.keys(), "FAILED")
        canaries = {
            test: results.pop(test) for test in list(results) if _last(test) in self._canaries
        }
        forged = [
            test
            for test, result in results.items()
            if result == "PASSED" and self._raised.get(test)
        ]
        return {
            "status": status,
            "broken": self.broken,
            "results": results,
            "collected": len(self._collected),
            "collect_errors": self._collect_errors[:50],
            "canaries_ok": self._canaries_ok(canaries),
            "canaries_seen": len(canaries),
            "changed": changed,
            "forged": forged[:20],
        }

    def _canaries_ok(self, statuses: dict[str, str]) -> bool:
        expected = {
            name: "PASSED" if passes else "FAILED" for name, (passes, _) in self._canaries.items()
        }
        return {_last(test): result for test, result in statuses.items()} == expected


def _last(test: str) -> str:
    return test.rsplit("::", 1)[-1]


def _status(phases: list[list[Any]]) -> str:
    """Returns the status of a test, from pytest's reports on its phases.

    If a plugin reran the test, its last attempt counts. A failed subtest fails the test. An attempt
    that did not come to its end is an ERROR.
    """
    attempt = _last_attempt(phases)
    ends = {when: (outcome, xfail) for when, outcome, xfail in attempt if when != "call"}
    calls = [(outcome, xfail) for when, outcome, xfail in attempt if when == "call"]
    if ends.keys() != {"setup", "teardown"} or len(ends) + len(calls) != len(attempt):
        return "ERROR"
    if "failed" in (ends["setup"][0], ends["teardown"][0]):
        return "ERROR"
    if any(outcome == "failed" for outcome, _ in calls):
        return "FAILED"
    outcome, expected = calls[-1] if calls else ends["setup"]
    if outcome == "skipped":
        return "XFAIL" if expected else "SKIPPED"
    return "PASSED" if calls and outcome == "passed" else "ERROR"


def _last_attempt(phases: list[list[Any]]) -> list[list[Any]]:
    """Returns the reports of the last attempt, which ends with a teardown or a rerun."""
    attempt: list[list[Any]] = []
    for phase in phases:
        if attempt and (attempt[-1][0] == "teardown" or attempt[-1][1] == "rerun"):
            attempt = []
        attempt.append(phase)
    return attempt


def _install_witness() -> None:
    """Gives the recorder its marked hooks; here, so that this file imports without pytest."""
    import pytest

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self: Recorder, item: Any, call: Any) -> Any:
        self.saw(item, call)
        yield

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self: Recorder, config: Any) -> None:
        _hide(config, self._set_trace)

    Recorder.pytest_runtest_makereport = pytest_runtest_makereport  # type: ignore[attr-defined]
    Recorder.pytest_configure = pytest_configure  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
