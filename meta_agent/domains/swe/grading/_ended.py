"""Whether a log of a test command may be believed: its own summary, the exit status, the results.

The three have to agree. A run that was cut short has no summary; a log into which somebody printed
results has more passes than the summary counts; an exit status says whether anything failed. Any
disagreement is a `Doubt` in words, and then there are no results, which is never a pass.

Does not cover: code under test that prints a whole log with its summary and ends the process with
the status that fits. `_words` names what that takes. Our own runner (`pytest_guest`), which runs
all rows whose tests are pytest's, cannot be deceived this way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PYTEST_LINE = re.compile(
    r"^[= ]*(\d+ [a-z ]+(?:, \d+ [a-z ]+)*) in [\d.]+ ?s(?:econds)?\b", re.MULTILINE
)
_COUNT = re.compile(r"(\d+) ([a-z ]*[a-z])")
_SUBTEST = re.compile(r"^SUBFAIL(?:ED)?\S* (\S+)", re.MULTILINE)
_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_VERDICT = re.compile(r"^(OK|FAILED)(?: \(.*\))?$", re.MULTILINE)
_HEADING = re.compile(r"^(FAIL|ERROR|UNEXPECTED SUCCESS): (.+)\n(.*)$", re.MULTILINE)
_SYMPY_LINE = re.compile(r"tests finished: (.*), in [\d.]+ seconds")
_BAD: Final = ("FAILED", "ERROR")


class Doubt(NamedTuple):
    """Why a test log cannot be trusted: one word (`verdict`, such as cut_short) and a sentence."""

    verdict: str
    why: str


def disagreement(family: str, log: str, exit_code: int, results: Mapping[str, str]) -> Doubt | None:
    """Returns how log, exit code and `results` disagree, or None. `family` names the runner."""
    if not results:
        return Doubt("no_results", f"no test in the log (exit {exit_code})")
    return _RULES[family](COLOURS.sub("", log), exit_code, Counter(results.values()))


def corrected(family: str, log: str, results: Mapping[str, str]) -> dict[str, str]:
    """Returns `results`, in which tests count as failed if the log first says passed, then failed.

    unittest prints `ok` before it lists such a failure; pytest passes a test whose subtest failed.
    """
    plain = COLOURS.sub("", log)
    failed: dict[str, str] = {}
    if family == "pytest":
        failed = dict.fromkeys(_SUBTEST.findall(plain), "FAILED")
    elif family == "unittest":
        for word, name, below in _HEADING.findall(plain):
            failed |= dict.fromkeys((name, below), "ERROR" if word == "ERROR" else "FAILED")
    return {test: failed.get(test, status) for test, status in results.items()}


def _pytest(log: str, exit_code: int, statuses: Counter[str]) -> Doubt | None:
    lines = _PYTEST_LINE.findall(log)
    if not lines:
        return _cut_short("pytest's last line is missing")
    if exit_code not in (0, 1):
        return _cut_short(f"exit {exit_code}, though pytest ends with 0 or 1")
    counts = {kind.rstrip("s"): int(number) for number, kind in _COUNT.findall(lines[-1])}
    bad = counts.get("failed", 0) + counts.get("error", 0)
    return _weighed(counts.get("passed", 0), bad, exit_code, statuses)


def _unittest(log: str, exit_code: int, statuses: Counter[str]) -> Doubt | None:
    ran, verdict = _RAN.findall(log), _VERDICT.findall(log)
    if not ran or not verdict:
        return _cut_short("the runner's last lines are missing")
    return _weighed(int(ran[-1]), int(verdict[-1] == "FAILED"), exit_code, statuses)


def _sympy(log: str, exit_code: int, statuses: Counter[str]) -> Doubt | None:
    lines = _SYMPY_LINE.findall(log)
    if not lines:
        return _cut_short("the line 'tests finished' is missing")
    counts = {kind: int(number) for number, kind in _COUNT.findall(lines[-1])}
    bad = sum(count for kind, count in counts.items() if kind in ("failed", "exceptions"))
    return _weighed(counts.get("passed", 0), bad, exit_code, statuses)


def _cut_short(why: str) -> Doubt:
    return Doubt("cut_short", f"{why}: the run did not come to its end")


def _weighed(passed: int, bad: int, exit_code: int, counts: Counter[str]) -> Doubt | None:
    """Returns where a summary's counts, the results and the exit status contradict each other."""
    if counts["PASSED"] > passed:
        return Doubt("forged", f"{counts['PASSED']} passes in the log, {passed} in its summary")
    if exit_code == 0 and (bad or any(counts[status] for status in _BAD)):
        return Doubt("contradicts", "exit 0, but tests failed")
    if exit_code != 0 and not bad:
        return Doubt("contradicts", f"exit {exit_code}, but no test failed")
    return None


_RULES: Final[Mapping[str, Callable[[str, int, Counter[str]], Doubt | None]]] = {
    "pytest": _pytest,
    "unittest": _unittest,
    "sympy": _sympy,
}
