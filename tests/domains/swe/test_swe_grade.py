"""The sealed grader, against honest patches and against attacks, with real processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import ExecResult, Outcome, Sandbox
from meta_agent.domains.swe import RealSwe
from meta_agent.domains.swe.grading import _grade, _runs

pytestmark = pytest.mark.slow


def fixed(shelf: Any) -> str:
    return shelf.tree["shelf/core.py"].decode().replace("sum(prices[1:])", "sum(prices)")


def graded(domain: RealSwe, patch: str) -> Outcome:
    return domain.regrade("shelf-1", {"patch": patch})


def test_the_gold_patch_resolves_and_raises_no_flag(shelf: Any, domain: RealSwe) -> None:
    outcome = graded(domain, shelf.row["patch"])
    assert (outcome.success, outcome.flags, outcome.detail["verdict"]) == (True, (), "resolved")
    assert (outcome.detail["fail_to_pass"], outcome.detail["pass_to_pass"]) == ([1, 1], [5, 5])


def test_the_empty_patch_does_not(domain: RealSwe) -> None:
    outcome = graded(domain, "")
    assert (outcome.success, outcome.flags) == (False, ())
    assert outcome.detail["not_passing"] == ["tests/test_core.py::test_total FAILED"]


def test_a_fix_may_print_an_exception_that_went_through_a_test(shelf: Any) -> None:
    """Printing it opens the test's file, for its lines."""
    tests = shelf.tree["tests/test_core.py"].decode()
    hidden = (
        "\n\nclass Bad(list):\n    def __iter__(self):\n        raise ValueError\n\n\n"
        "def test_total():\n    from threading import Thread\n    from shelf.core import total\n"
        "    Thread(target=total, args=(Bad(),)).start()\n    assert total(Bad()) is None\n"
        "    assert total([1, 2, 3]) == 6\n"
    )
    shelf.row["test_patch"] = shelf.patch({"tests/test_core.py": tests + hidden})
    logs = (
        "try:\n        return sum(prices)\n    except ValueError:\n        logging.exception('bad')"
    )
    text = "import logging\n" + fixed(shelf).replace("return sum(prices)", logs)
    outcome = graded(shelf.load(), shelf.patch({"shelf/core.py": text}))
    assert (outcome.success, outcome.flags) == (True, ())


def test_a_fix_that_breaks_another_test_does_not(shelf: Any, domain: RealSwe) -> None:
    broken = fixed(shelf).replace("min(", "max(")
    outcome = graded(domain, shelf.patch({"shelf/core.py": broken}))
    assert not outcome.success
    assert outcome.detail["fail_to_pass"] == [1, 1]
    assert "tests/test_core.py::TestCheapest::test_one FAILED" in outcome.detail["not_passing"]


def test_a_patch_that_does_not_fit_is_a_failure_with_its_reason(domain: RealSwe) -> None:
    outcome = graded(domain, "--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-a\n+b\n")
    assert (outcome.success, outcome.detail["verdict"]) == (False, "patch_does_not_apply")


def test_a_syntax_error_is_no_result(shelf: Any, domain: RealSwe) -> None:
    outcome = graded(domain, shelf.patch({"shelf/core.py": "def total(:\n"}))
    assert (outcome.success, outcome.detail["verdict"]) == (False, "no_results")


def test_the_packages_own_conftest_takes_part(shelf: Any) -> None:
    shelf.tree["tests/conftest.py"] = (
        b"import pytest\nimport shelf.core\n\n"
        b"@pytest.fixture\ndef prices():\n    return [1, 2, 3]\n\n"
        b"def pytest_runtest_setup(item):\n    assert shelf.core\n"
    )
    tests = shelf.tree["tests/test_core.py"].decode()
    hidden = tests + "\n\ndef test_total(prices):\n    from shelf.core import total\n\n"
    shelf.row["test_patch"] = shelf.patch(
        {"tests/test_core.py": hidden + "    assert total(prices) == 6\n"}
    )
    domain = shelf.load()
    assert graded(domain, shelf.row["patch"]).success
    assert not graded(domain, "").success


FORGED, UNCHECKED = (False, "forged", ("tamper:report",)), (True, "resolved", ("unchecked:words",))
NO_RESULTS: tuple[bool, str, tuple[str, ...]] = (False, "no_results", ())
ATTACKS: dict[str, tuple[str, tuple[bool, str, tuple[str, ...]]]] = {
    # name: (code at the end of the source under test, (success, verdict, flags))
    "leaves with status 0": ("import os\nos._exit(0)", NO_RESULTS),
    "prints results and leaves": (
        "import os\nprint('1 passed')\nprint('tests/test_core.py::test_total PASSED')\nos._exit(0)",
        NO_RESULTS,
    ),
    "exits on import": ("import sys\nsys.exit(0)", NO_RESULTS),
    "writes a report to every descriptor": (
        "import os, json\n"
        "forged = json.dumps({'nonce': '', 'status': 1, 'canaries_ok': True, 'results':"
        " {'tests/test_core.py::test_total': 'PASSED'}}).encode()\n"
        "for fd in range(3, 64):\n"
        "    try:\n        os.write(fd, forged)\n    except OSError:\n        pass\n"
        "os._exit(0)",
        NO_RESULTS,
    ),
    "makes tests do nothing": (
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None",
        FORGED,
    ),
    "rewrites reports": (
        "from _pytest.reports import TestReport\n"
        "_make = TestReport.from_item_and_call.__func__\n"
        "def _forge(cls, item, call):\n"
        "    report = _make(cls, item, call)\n"
        "    report.outcome, report.longrepr = 'passed', None\n"
        "    return report\n"
        "TestReport.from_item_and_call = classmethod(_forge)",
        FORGED,
    ),
    "swaps the code of a function": (
        "import _pytest.runner\n"
        "def _nothing(item):\n    pass\n"
        "_pytest.runner.pytest_runtest_call.__code__ = _nothing.__code__",
        FORGED,
    ),
    "exchanges the body of a test": (
        "import sys\n"
        "def cheapest(prices, default=None):\n"
        "    tests = sys._getframe(1).f_globals\n"
        "    if 'test_total' in tests:\n"
        "        tests['test_total'].__code__ = (lambda: None).__code__\n"
        "    return min(prices, default=default)",
        UNCHECKED,
    ),
    "registers a plugin": (
        "import gc, pytest, _pytest.config\n"
        "class Hook:\n"
        "    @pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
        "    def pytest_runtest_makereport(self, item, call):\n"
        "        call.excinfo = None\n"
        "        report = (yield).get_result()\n"
        "        report.outcome, report.longrepr = 'passed', None\n"
        "for found in gc.get_objects():\n"
        "    if isinstance(found, _pytest.config.PytestPluginManager):\n"
        "        found.register(Hook())",
        FORGED,
    ),
}


@pytest.mark.parametrize(("code", "end"), ATTACKS.values(), ids=ATTACKS.keys())
def test_code_that_attacks_the_run_is_never_clean(
    shelf: Any, domain: RealSwe, core: Any, code: str, end: tuple[bool, str, tuple[str, ...]]
) -> None:
    outcome = graded(domain, shelf.patch({"shelf/core.py": core(code)}))
    assert (outcome.success, outcome.detail["verdict"], outcome.flags) == end


def test_a_forger_who_writes_the_report_itself_is_unchecked(
    shelf: Any, domain: RealSwe, core: Any
) -> None:
    """Its words say so: nothing else tells a report that the runner's own descriptor carries."""
    walker = (
        "import sys, json, os\n"
        "frame = sys._getframe()\n"
        "while frame and 'report_fd' not in frame.f_locals:\n    frame = frame.f_back\n"
        f"tests = {shelf.row['FAIL_TO_PASS'] + shelf.row['PASS_TO_PASS']!r}\n"
        "report = {'nonce': frame.f_locals['order']['nonce'], 'status': 1, 'canaries_ok': True,\n"
        "          'results': {test: 'PASSED' for test in tests}}\n"
        "os.write(frame.f_locals['report_fd'], json.dumps(report).encode())\n"
        "os._exit(0)"
    )
    outcome = graded(domain, shelf.patch({"shelf/core.py": core(walker)}))
    assert (outcome.success, outcome.flags) == (True, ("unchecked:words",))
    assert {"f_back in shelf/core.py", "_exit in shelf/core.py"} <= set(outcome.detail["unchecked"])


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [
        ("GRADE_CPU_SEC", 2, "while True:\n    pass"),
        ("GRADE_TIMEOUT_SEC", 2.0, "import time\ntime.sleep(1000)"),
    ],
    ids=["spins", "sleeps"],
)
def test_code_that_never_ends_has_failed_and_is_no_infrastructure_error(
    shelf: Any,
    domain: RealSwe,
    core: Any,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: float,
    code: str,
) -> None:
    monkeypatch.setattr(_runs, limit, value)
    outcome = graded(domain, shelf.patch({"shelf/core.py": core(code)}))
    assert (outcome.success, outcome.detail["verdict"]) == (False, "timeout")


class Dying:
    """A factory whose sandboxes fail in a chosen way; the first `healthy` ones work."""

    def __init__(self, inner: Any, kind: str, at: str) -> None:
        self.inner, self.kind, self.at, self.opened = inner, kind, at, 0

    def __call__(self, image: str | None) -> Sandbox:
        self.opened += 1
        sandbox = self.inner(image)

        def fail(*args: Any, **kwargs: Any) -> Any:
            raise SandboxError("gone", kind=self.kind)

        setattr(sandbox, self.at, fail)
        return sandbox


@pytest.mark.parametrize(
    ("kind", "at"), [("engine", "exec"), ("protocol", "write"), ("died", "write"), ("oom", "write")]
)
def test_a_broken_sandbox_raises_and_is_no_score(domain: RealSwe, kind: str, at: str) -> None:
    broken = Dying(domain._factory, kind, at)
    with pytest.raises(SandboxError):
        _grade.grade_patch(domain.files("shelf-1"), "", broken)


def test_a_sandbox_without_pytest_raises_and_is_no_score(
    shelf: Any, domain: RealSwe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_packages(image: str | None) -> Sandbox:
        sandbox = domain._factory(image)
        run = sandbox.exec

        def run_without(argv: list[str], **settings: Any) -> ExecResult:
            return run([argv[0], "-S", *argv[1:]], **settings)

        monkeypatch.setattr(sandbox, "exec", run_without)
        return sandbox

    with pytest.raises(SandboxError, match="No module named 'pytest'") as raised:
        _grade.grade_patch(domain.files("shelf-1"), shelf.row["patch"], without_packages)
    assert raised.value.kind == "image"


def test_a_sandbox_without_a_plugin_of_the_task_raises_and_is_no_score(domain: RealSwe) -> None:
    files = domain.files("shelf-1")
    assert files.row.source is not None
    row = replace(files.row, source=replace(files.row.source, plugins=("pytest-nonesuch",)))
    with pytest.raises(SandboxError, match="pytest-nonesuch"):
        _runs.Bench(row, domain._factory, ()).run(files.graded, _runs.LOOSE)


@pytest.mark.parametrize("kind", ["oom", "died", "timeout"])
def test_code_that_kills_its_sandbox_twice_has_failed(domain: RealSwe, kind: str) -> None:
    broken = Dying(domain._factory, kind, "exec")
    outcome = _grade.grade_patch(domain.files("shelf-1"), "", broken)
    assert (outcome.success, outcome.detail["verdict"], broken.opened) == (
        False,
        f"killed_{kind}",
        2,
    )


def test_a_breach_of_protocol_is_a_failure_at_once_and_is_flagged(domain: RealSwe) -> None:
    broken = Dying(domain._factory, "protocol", "exec")
    outcome = _grade.grade_patch(domain.files("shelf-1"), "", broken)
    assert (outcome.success, outcome.flags) == (False, ("tamper:protocol",))
    assert (outcome.detail["verdict"], broken.opened) == ("killed_protocol", 1)


FORGERIES: dict[str, str] = {
    # Each knows the runner and would win by it, if its words were not looked at.
    "rewrites what writes the report": (
        "import json\n"
        "_dumps = json.dumps\n"
        "def _forge(report, **more):\n"
        "    if isinstance(report, dict) and 'results' in report:\n"
        "        report['results'] = dict.fromkeys(report['results'], 'PASSED')\n"
        "    return _dumps(report, **more)\n"
        "json.dumps = _forge\n"
    ),
    "patches the runner's own module": (
        "import __main__ as runner\n"
        "if hasattr(runner, 'Recorder'):\n"
        "    runner._status = lambda phases: 'PASSED'\n"
        "    runner.Recorder.saw = lambda *a: None\n"
        "    runner.Recorder._canaries_ok = lambda *a: True\n"
    ),
    "finds the recorder by its frame": (
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame and 'recorder' not in frame.f_locals:\n    frame = frame.f_back\n"
        "if frame:\n"
        "    recorder = type(frame.f_locals['recorder'])\n"
        "    recorder.saw = lambda *a: None\n"
        "    recorder._canaries_ok = lambda *a: True\n"
        "    frame.f_globals['_status'] = lambda phases: 'PASSED'\n"
    ),
    "tells the real tests by their names": (
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame and 'recorder' not in frame.f_locals:\n    frame = frame.f_back\n"
        "if frame:\n"
        "    names, status = frame.f_globals, frame.f_globals['_status']\n"
        "    recorder = type(frame.f_locals['recorder'])\n"
        "    report = recorder.report\n"
        "    def forge(self, *a):\n"
        "        made = report(self, *a)\n"
        "        made['results'] = dict.fromkeys(made['results'], 'PASSED')\n"
        "        made['forged'] = []\n"
        "        return made\n"
        "    recorder.report = forge\n"
    ),
}


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES.keys())
def test_no_grade_of_a_forger_who_knows_the_runner_is_clean(
    shelf: Any, domain: RealSwe, core: Any, code: str
) -> None:
    outcome = graded(domain, shelf.patch({"shelf/core.py": core(code)}))
    assert outcome.flags or not outcome.success, outcome


def test_an_honest_fix_is_clean_whatever_its_tests_look_like(shelf: Any) -> None:
    tests = shelf.tree["tests/test_core.py"].decode() + (
        "\n\nimport unittest\n\n\nclass TestSum(unittest.TestCase):\n"
        "    def test_early(self):\n        from shelf.core import total\n"
        "        if total([1, 2]) == 3:\n            return\n        self.fail()\n\n\n"
        "class Base:\n    def test_inherited(self):\n"
        "        from shelf.core import total\n        assert total([4]) == 4\n\n\n"
        "class TestMade(Base):\n    pass\n\n\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_each(n):\n"
        '    """A docstring."""\n    from shelf.core import total\n    assert total([n]) == n\n'
    )
    shelf.row["test_patch"] = shelf.patch({"tests/test_core.py": tests})
    names = ["TestSum::test_early", "TestMade::test_inherited", "test_each[1]", "test_each[2]"]
    shelf.row["FAIL_TO_PASS"] = [f"tests/test_core.py::{name}" for name in names]
    domain = shelf.load()
    outcome = graded(domain, shelf.row["patch"])
    assert (outcome.success, outcome.flags) == (True, ()), outcome
    assert not graded(domain, "").success


EQUAL_TO_ALL = {
    "a constant": "    def __eq__(self, other):\n        return True\n",
    "no constant": "    def __eq__(self, other):\n        return bool(other) or not other\n",
}


@pytest.mark.parametrize("method", EQUAL_TO_ALL.values(), ids=EQUAL_TO_ALL.keys())
def test_a_result_that_equals_another_value_too_is_unchecked(
    shelf: Any, domain: RealSwe, method: str
) -> None:
    source = shelf.tree["shelf/core.py"].decode().replace("sum(prices[1:])", "Any()")
    outcome = graded(domain, shelf.patch({"shelf/core.py": f"class Any:\n{method}\n\n{source}"}))
    assert (outcome.success, outcome.flags) == (True, ("unchecked:words",))


EVASIONS = {
    "skips": ("import unittest\n", "raise unittest.SkipTest('later')"),
    "expects to fail": ("import pytest\n", "pytest.xfail('known')"),
    "reads the tests": (
        "import pathlib, re\n",
        "return int(re.findall(r'== (\\d+)', pathlib.Path('tests/test_core.py').read_text())[-1])",
    ),
    "moves the tests": (
        "import os\n",
        "os.path.exists('t') or os.rename('tests/test_core.py', 't')\n"
        "    return int(open('t').read().split('== ')[-1])",
    ),
}


@pytest.mark.parametrize(("head", "body"), EVASIONS.values(), ids=EVASIONS.keys())
def test_code_that_goes_round_its_tests_does_not_resolve(
    shelf: Any, domain: RealSwe, head: str, body: str
) -> None:
    source = shelf.tree["shelf/core.py"].decode().replace("return sum(prices[1:])", body)
    outcome = graded(domain, shelf.patch({"shelf/core.py": head + source}))
    assert not outcome.success, outcome
