"""Which tests can decide: those that say the same each time.

Promises: a test that ever said two things about the same tree decides nothing. Does not cover: a
test that is flaky more rarely than the repetitions can show (`without` takes out suspects).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meta_agent.core.errors import ConfigError

Results = Mapping[str, str]
_ENDINGS = {
    "timeout": "the tests do not end in time",
    "killed_timeout": "the tests do not end in time",
    "killed_oom": "the tests run out of memory",
    "not_collected": "the tests cannot be imported",
    "forged": "the grader takes what the tests do for a forgery",
}


@dataclass(frozen=True, slots=True)
class Stable:
    """Repeated results of one tree, taken together."""

    passing: frozenset[str]  # passed every time
    failing: frozenset[str]  # failed every time, or were not there
    flaky: frozenset[str]

    def without(self, tests: frozenset[str]) -> Stable:
        return Stable(self.passing - tests, self.failing - tests, self.flaky - tests)


def without_results(verdict: str) -> str:
    """Why a run decides nothing, in words."""
    return _ENDINGS.get(re.split("[: ]", verdict)[0], "the tests end without results")


def together(runs: Sequence[Results]) -> Stable:
    """Sorts tests by what all runs say. Skipped ones and expected failures decide nothing."""
    tests = frozenset(test for run in runs for test in run)
    said = {test: {run.get(test, "MISSING") for run in runs} for test in tests}
    bad = {"FAILED", "ERROR", "MISSING"}
    return Stable(
        frozenset(test for test in tests if said[test] == {"PASSED"}),
        frozenset(test for test in tests if said[test] <= bad),
        frozenset(test for test in tests if len(said[test]) > 1 and not said[test] <= bad),
    )


def repeated(run: Callable[[], tuple[str, Results]], times: int) -> list[Results]:
    """Runs a suite several times; raises `ConfigError` where one run gives no results."""
    found = []
    for _ in range(times):
        problem, results = run()
        if problem:
            raise ConfigError(
                f"there are no results on the sound source: {problem}",
                hint="dependencies and pytest's plugins come from an image: meta-agent sandbox "
                "image; then --image TAG and --plugin NAME",
            )
        found.append(results)
    return found
