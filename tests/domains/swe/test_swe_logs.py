"""Log parsers against SWE-bench's own, and logs against themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _swe_official import official_parsers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_agent.domains.swe.grading._ended import corrected, disagreement
from meta_agent.domains.swe.grading._logs import PARSERS, STATUSES

Official = dict[str, Callable[[str], dict[str, str]]]
LOGS = Path(__file__).parent / "logs"
SHARED = sorted(set(PARSERS) - {"parse_log_unittest", "parse_log_sympy"})

SUITE = """import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2, "one - two"
def test_raises(): raise KeyError("PASSED in a message")
@pytest.mark.skip(reason="FAILED to be here")
def test_skipped(): ...
@pytest.mark.skip(reason="nor here")
def test_skipped_too(): ...
@pytest.mark.xfail
def test_known(): assert False
@pytest.mark.xfail
def test_surprise(): pass
@pytest.mark.parametrize("text", ["a b", "/usr/lib/x", "c - d", "[31m", "*/x", "é"])
def test_text(text): assert "c" not in text
@pytest.fixture
def broken(): raise RuntimeError("no")
def test_setup(broken): ...
def test_prints(): print("PASSED test_suite.py::test_fails")
class TestIn:
    def test_inner(self): pass
class TestOld(unittest.TestCase):
    def test_method(self): self.assertTrue(True)
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(n, 1)
"""
UNITTEST = """import sys, unittest
class Basket(unittest.TestCase):
    def test_passes(self): pass
    def test_words(self):
        '''Counts what is in it.'''
    def test_fails(self): self.fail("no")
    def test_fails_aloud(self):
        sys.stderr.write("\\nok\\n")
        self.fail("no")
    def test_raises(self): raise KeyError
    @unittest.skip("later")
    def test_skipped(self): ...
    @unittest.expectedFailure
    def test_known(self): self.fail()
    @unittest.expectedFailure
    def test_surprise(self): ...
"""


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Official:
    return official_parsers(tmp_path_factory.mktemp("official"))


def ran(folder: Path, name: str, source: str, *argv: str) -> tuple[int, str]:
    (folder / name).write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-m", *argv],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def suite_logs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """The same suite, as the public sets run theirs."""
    folder = tmp_path_factory.mktemp("suite")
    calls = [
        ["-rA"],
        ["--no-header", "-rA", "--tb=no", "-p", "no:cacheprovider"],
        ["-rA", "-vv", "-o", "console_output_style=classic", "--tb=no"],
        ["-rA", "--tb=long", "--color=yes"],
        ["--disable-warnings", "--color=no", "--tb=no", "--verbose"],
    ]
    return [
        ran(folder, "test_suite.py", SUITE, "pytest", *options, "test_suite.py")
        for options in calls
    ]


@pytest.fixture(scope="module")
def unittest_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    folder = tmp_path_factory.mktemp("unittest")
    runner = "import sys, unittest; sys.path.insert(0, '.'); unittest.main('test_u', verbosity=2)"
    (folder / "test_u.py").write_text(UNITTEST)
    done = subprocess.run(
        [sys.executable, "-c", runner],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout


def agree(official: Official, log: str) -> None:
    """The same names with the same status. Words that only begin like a status are none to us."""
    for name in SHARED:
        theirs = {test: word for test, word in official[name](log).items() if word in STATUSES}
        assert PARSERS[name].parse(log) == theirs, name


def test_the_same_results_as_swe_bench_on_real_logs(
    official: Official, suite_logs: list[tuple[int, str]], unittest_log: tuple[int, str]
) -> None:
    logs = [log for _, log in (*suite_logs, unittest_log)]
    logs += [path.read_text(encoding="utf-8") for path in sorted(LOGS.glob("*.txt"))]
    assert len(logs) == 8
    for log in logs:
        agree(official, log)


def test_sympys_last_test_of_a_file_is_read_too(official: Official) -> None:
    log = (LOGS / "sympy.txt").read_text(encoding="utf-8")
    ours, theirs = PARSERS["parse_log_sympy"].parse(log), official["parse_log_sympy"](log)
    assert theirs == {test: ours[test] for test in theirs}
    assert ours.keys() - theirs.keys() == {"test_two"} and ours["test_two"] == "FAILED"


WORDS = [*STATUSES, "XPASS", "a.py::t", "a.py::t[x", "y]", "a.py::t[/a/b]", "[1]", "-", "ok", "..."]
WORDS += ["...  OK", "FAIL:", "ERROR:", "FAIL", "skipped", "--- PASS: t (0.1s)", "\x1b[31m", "[1m"]
WORDS += ["test_a", "F", "E", "MouseButton.LEFT", "--version is equivalent to version", "\t"]
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=12)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=LINES)
def test_the_same_results_as_swe_bench_on_generated_logs(
    official: Official, lines: list[str]
) -> None:
    # `ERROR: x` is a status to them and hides an earlier line about x, as a coloured one does (see
    # the module's docstring); a bare `FAIL:` raises in theirs.
    plain = ["".join(char for char in line if char >= " ").strip() for line in lines]
    if not any(line.startswith("ERROR:") or line == "FAIL:" for line in plain):
        agree(official, "\n".join(lines))


def test_every_log_of_a_real_run_is_believed(suite_logs: list[tuple[int, str]]) -> None:
    for code, log in suite_logs[:-1]:  # the last has no summary of passes
        for name in ("parse_log_pytest", "parse_log_pytest_v2"):
            if "\x1b" in log and name == "parse_log_pytest":
                continue  # it reads no colours, as theirs does not
            results = PARSERS[name].parse(log)
            assert disagreement("pytest", log, code, results) is None, log
            assert {"PASSED", "FAILED", "ERROR"} <= set(results.values())


def test_what_a_pytest_log_says_of_each_test(suite_logs: list[tuple[int, str]]) -> None:
    found = PARSERS["parse_log_pytest"].parse(suite_logs[1][1])
    short = {name.removeprefix("test_suite.py::"): word for name, word in found.items()}
    assert short["test_passes"] == "PASSED" and short["test_known"] == "XFAIL"
    assert short["test_fails"] == "FAILED" and short["test_setup"] == "ERROR"
    assert short["test_text[a"] == "PASSED"  # an id ends at its first blank
    assert "[2]" not in found
    assert short["TestOld::test_parts"] == "PASSED"
    log = suite_logs[1][1]
    told = corrected("pytest", log, found)
    assert told.pop("test_suite.py::TestOld::test_parts") == "FAILED" or "SUBFAIL" not in log


def test_what_a_unittest_log_says_of_each_test(unittest_log: tuple[int, str]) -> None:
    code, log = unittest_log
    parsed = PARSERS["parse_log_unittest"].parse(log)
    found = corrected("unittest", log, parsed)
    short = {name.split(" (")[0].removeprefix("test_"): word for name, word in found.items()}
    assert short == {
        "passes": "PASSED",
        "words": "PASSED",
        "fails": "FAILED",
        "fails_aloud": "FAILED",
        "raises": "ERROR",
        "skipped": "SKIPPED",
        "known": "XFAIL",
        "surprise": "FAILED",
    }
    assert disagreement("unittest", log, code, found) is None
    assert parsed != found, "a failing test that prints ok is a pass to a parser of lines"


def test_what_djangos_log_says_of_each_test() -> None:
    log = (LOGS / "django.txt").read_text(encoding="utf-8")
    found = corrected("unittest", log, PARSERS["parse_log_django"].parse(log))
    of = "(shop.tests.test_basket.BasketTests.test_"
    assert found[f"test_empty {of}empty)"] == found[f"test_prints {of}prints)"] == "PASSED"
    assert found["A basket with a docstring counts its items."] == "PASSED"
    assert found["A failing one with words."] == "FAILED"
    assert found[f"test_skipped {of}skipped)"] == "SKIPPED"
    assert disagreement("unittest", log, 1, found) is None


@pytest.mark.parametrize(
    ("family", "log", "code", "says"),
    [
        ("pytest", "PASSED a\n", 0, "last line is missing"),
        ("pytest", "PASSED a\n=== 1 passed in 0.1s ===\n", 0, ""),
        ("pytest", "PASSED a\n=== 1 passed in 65.10s (0:01:05) ===\n", 0, ""),
        ("pytest", "PASSED a\n=== 1 passed in 0.1s ===\n", 1, "no test failed"),
        ("pytest", "PASSED a\n=== 1 passed in 0.1s ===\n", 2, "exit 2"),
        ("pytest", "PASSED a\n=== 1 failed, 1 passed in 0.1s ===\n", 0, "but tests failed"),
        ("pytest", "PASSED a\nPASSED b\n=== 1 passed in 0.1s ===\n", 0, "2 passes in the log, 1"),
        ("pytest", "nothing\n", 4, "no test in the log (exit 4)"),
        ("unittest", "PASSED a\nRan 1 test in 0.1s\n\nOK\n", 0, ""),
        ("unittest", "PASSED a\nRan 1 test in 0.1s\n", 0, "last lines are missing"),
        ("unittest", "PASSED a\nRan 1 test in 0.1s\n\nFAILED (failures=1)\n", 0, "tests failed"),
        ("sympy", "PASSED a\ntests finished: 1 passed, in 0.01 seconds\n", 0, ""),
        ("sympy", "PASSED a\n", 0, "tests finished"),
    ],
)
def test_a_log_that_contradicts_itself_is_not_believed(
    family: str, log: str, code: int, says: str
) -> None:
    results = PARSERS["parse_log_pytest"].parse(log)
    told = disagreement(family, log, code, results)
    assert says in (told.why if told else "") and bool(says) == bool(told)
