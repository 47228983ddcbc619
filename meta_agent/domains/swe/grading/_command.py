"""Grades by a set's own test command, where its tests are not pytest's or its images know better.

The command runs in the sandbox as any other would: no marks in its output, no script of the set's.
What counts is what it printed, how it ended and whether the two agree (`_logs`, `_ended`).

Promises: `by_command` decides from the row alone; ids are found the way the set wrote them down
(cut off at a blank, or with a duration in them); no results is never a pass.

Does not cover: hiding from the code under test which command runs it. Rows whose tests our own
runner can run are run by that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.protocols import ExecResult, Sandbox
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe._tree import Tree
from meta_agent.domains.swe.grading._ended import corrected, disagreement
from meta_agent.domains.swe.grading._logs import PARSERS

_LOG_LIMIT_BYTES: Final = 16 << 20
_CPU_LIMIT_EXITS: Final = frozenset({-24, 128 + 24})  # SIGXCPU, in either way of writing it
_PASSES: Final = frozenset({"PASSED", "XFAIL"})
_STAYS: Final = frozenset({"PASSED", "XFAIL", "SKIPPED"})
_DURATIONS: Final = (
    re.compile(r"\s*[\[(]\s*\d+(?:\.\d+)?\s*m?s\s*[\])]\s*$", re.IGNORECASE),
    re.compile(r"\s+in\s+\d+(?:\.\d+)?\s+m?sec\b", re.IGNORECASE),
)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a task's tests: the status of each, and whether the run is valid (`complete`)."""

    verdict: str  # "complete", or why there is nothing to believe
    results: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()  # changed files that a test read
    strangers: tuple[
        str, ...
    ] = ()  # methods of compared values, and conduct, that need a reference
    unchecked: tuple[str, ...] = ()  # deciding tests of which no twin could say anything


def by_command(row: SweRow) -> bool:
    """Returns True if a task's own test command grades it, False if this package's runner does."""
    if row.run is None:
        return False
    parser = PARSERS.get(row.run.parser)
    of_pytest = parser is not None and parser.family == "pytest"
    return row.run.always or not of_pytest or any("::" not in test for test in row.expected_ids)


def run_command(row: SweRow, sandbox: Sandbox, *, cpu_sec: int, wall_sec: float) -> Report:
    """Runs a task's test command in a fresh sandbox and returns a report of its output.

    The limits are seconds of processor and elapsed time. Raises ValueError if there is no command.
    """
    if row.run is None:
        raise ValueError(f"the row {row.instance_id} has no test command: add the field `run`")
    result = sandbox.exec(
        ["bash", "-c", script(row)],
        cwd="repo",
        timeout_sec=wall_sec,
        cpu_limit_sec=cpu_sec,
        output_limit_bytes=_LOG_LIMIT_BYTES,
    )
    if ended := ended_by_limit(result, cpu_sec, wall_sec):
        return ended
    if result.truncated:
        return Report("no_results", {}, (f"more than {_LOG_LIMIT_BYTES} bytes of output",))
    return _believed(row, result.stdout.decode("utf-8", "replace"), result.exit_code)


def ended_by_limit(result: ExecResult, cpu_sec: int, wall_sec: float) -> Report | None:
    """Returns a report if a time, processor or memory limit ended the run, else None."""
    if result.timed_out or result.exit_code in _CPU_LIMIT_EXITS:
        limit = f"no end within {wall_sec:.0f} s, or more than {cpu_sec} s of processor time"
        return Report("timeout", evidence=(limit,))
    return Report("killed_oom", evidence=("the tests ran out of memory",)) if result.oom else None


def script(row: SweRow) -> str:
    """Returns the shell script that runs a row's test command. Raises ValueError if it has none."""
    if row.run is None or row.source is None:
        raise ValueError(f"the row {row.instance_id} needs the fields `run` and `source`: add them")
    lines = ["exec 2>&1", 'work="$PWD"', row.run.prelude]
    if row.source.archive is not None:  # nothing of it is installed
        paths = ":".join(f"$work/{path}" for path in row.source.pythonpath)
        lines.append(f'export PYTHONPATH="{paths}"')
    return "\n".join([*lines, 'cd "$work"', row.run.command])


def _believed(row: SweRow, log: str, exit_code: int) -> Report:
    name = row.run.parser if row.run else ""
    parse, family = PARSERS[name]
    results = corrected(family, log, parse(log))
    doubt = disagreement(family, log, exit_code, results)
    if doubt is None:
        return Report("complete", results, ())
    return Report(doubt.verdict, {}, (doubt.why, log[-300:]))


def unmet(row: SweRow, results: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Returns the tests of FAIL_TO_PASS, and those of PASS_TO_PASS, that did not end as required.

    By SWE-bench's rule the former must pass or xfail; the latter may be skipped as well.
    """
    only = row.run is not None and row.run.only_passed
    plain_statuses = {_plain(test): status for test, status in results.items()} if only else results
    passes, stays = (frozenset({"PASSED"}),) * 2 if only else (_PASSES, _STAYS)
    return (
        [test for test in row.fail_to_pass if status_of(test, plain_statuses, only) not in passes],
        [test for test in row.pass_to_pass if status_of(test, plain_statuses, only) not in stays],
    )


def status_of(test: str, results: Mapping[str, str], plain: bool = False) -> str:
    """Returns a test's status in `results`, or `MISSING`.

    A test id that is cut off inside its parameters takes the status of the ids that begin with it,
    if all or none of these pass. `plain` ignores colours and durations in ids.
    """
    name = _plain(test) if plain else test
    if name in results:
        return results[name]
    if name.count("[") > name.count("]"):
        statuses = [status for test_name, status in results.items() if test_name.startswith(name)]
        if statuses and len({status in _PASSES for status in statuses}) == 1:
            return statuses[0]
    return "MISSING"


def whole_map(row: SweRow, results: Mapping[str, str]) -> bool:
    """Returns True if all statuses are the expected ones, or if the row does not require that."""
    return row.run is None or not row.run.whole or is_whole_map(row.expected, results)


def is_whole_map(expected: Mapping[str, str], results: Mapping[str, str]) -> bool:
    """Returns whether `results` has exactly the expected tests with the expected statuses."""
    return bool(expected) and _by_name(expected) == _by_name(results)


def _by_name(statuses: Mapping[str, str]) -> dict[str, str]:
    """Returns statuses by test name, without colours and what pytest adds after ` - `."""
    clean = {_COLOURS.sub("", name): status for name, status in statuses.items()}
    return {name.split(" - ", 1)[0].strip(): status for name, status in clean.items()}


def deciding_tests(row: SweRow, tree: Tree) -> tuple[str, ...]:
    """Returns the tests that a fix must make pass, as `file::name`.

    R2E-Gym's rows name no file, so each of their tests is returned for every hidden test file.
    """
    if not row.expected:
        return row.fail_to_pass
    hidden = tuple(f"{name}/" for name in (row.source.hidden if row.source else ()))
    files = [path for path in tree if path.endswith(".py") and path.startswith(hidden)]
    names = [name.split("[")[0] for name, status in row.expected.items() if status == "PASSED"]
    return tuple(f"{path}::{'::'.join(name.split('.'))}" for path in files for name in names)


def statuses_of(row: SweRow, test: str, results: Mapping[str, str]) -> list[str]:
    """Returns the statuses in `results` of a test `file::name`, one for each parameter set."""
    name = ".".join(test.split("::")[1:]) if row.expected else _plain(test)
    base = name.split("[")[0]
    return [
        status for test_name, status in results.items() if _plain(test_name).split("[")[0] == base
    ]


def _plain(test: str) -> str:
    """Returns a test's name without colours and without how long the test took."""
    name = _COLOURS.sub("", test)
    for pattern in _DURATIONS:
        name = pattern.sub("", name)
    return name.strip()
