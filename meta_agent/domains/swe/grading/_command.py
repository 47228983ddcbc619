"""Grades by a set's own test command, where its tests are not pytest's or its images know better.

The command runs in the sandbox as any other would: no marks in its output, no script of the set's,
behind the same walls as our own runner (`command_guest`). What counts is what it printed, how it
ended and whether the two agree (`_logs`, `_ended`).

Promises: `by_command` decides from the row alone; ids are found the way the set wrote them down
(cut off at a blank, or with a duration in them); no results is never a pass.

Does not cover: hiding from the code under test which command runs it. Rows whose tests our own
runner can run are run by that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Final

from meta_agent.core.protocols import JSON, ExecResult, Sandbox
from meta_agent.domains.formats import SweRow
from meta_agent.domains.swe.grading._ended import COLOURS, corrected, disagreement
from meta_agent.domains.swe.grading._logs import PARSERS

_LOG_LIMIT_BYTES: Final = 16 << 20
_CPU_LIMIT_EXITS: Final = frozenset({-24, 128 + 24})  # SIGXCPU, in either way of writing it
_PASSES: Final = frozenset({"PASSED", "XFAIL"})
_STAYS: Final = frozenset({"PASSED", "XFAIL", "SKIPPED"})
_DURATIONS: Final = (
    re.compile(r"\s*[\[(]\s*\d+(?:\.\d+)?\s*m?s\s*[\])]\s*$", re.IGNORECASE),
    re.compile(r"\s+in\s+\d+(?:\.\d+)?\s+m?sec\b", re.IGNORECASE),
)
_HOOK: Final = "hook"
_NOTE: Final = re.compile(r"^(\d{1,6}) (/.+)$", re.ASCII | re.MULTILINE)
"""A line of the file `imported`. The code under test can write there as well."""
_JOINED: Final = re.compile(r"^from (?:__future__|meta_agent)\b.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a task's tests: the status of each, and whether the run is valid (`complete`)."""

    verdict: str  # "complete", or why there is nothing to believe
    results: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    imported: Mapping[str, int] = field(default_factory=dict)
    """Changed files that the run imported, and how often it opened each: an import does once."""
    unchecked: tuple[str, ...] = ()  # what keeps passed tests from being believed


def by_command(row: SweRow) -> bool:
    """Returns True if a task's own test command grades it, False if this package's runner does."""
    if row.run is None:
        return False
    parser = PARSERS.get(row.run.parser)
    of_pytest = parser is not None and parser.family == "pytest"
    return row.run.always or not of_pytest or any("::" not in test for test in row.expected_ids)


def run_command(
    row: SweRow, sandbox: Sandbox, walls: Mapping[str, JSON], *, cpu_sec: int, wall_sec: float
) -> Report:
    """Runs a task's test command in a sandbox and returns a report of its output.

    `walls` holds `texts` (of test files that are empty on the disk), `places` (folders that can be
    written) and `sources` (changed files). The limits are seconds of processor and elapsed time.
    Raises ValueError if there is no command.
    """
    guest = guest_text("walls_guest.py", "command_guest.py")
    hook = {f"{_HOOK}/sitecustomize.py": f"{guest}\ninstall()\n".encode(), "imported": b""}
    sandbox.write(hook)
    order = {**walls, "script": script(row), "hook": f"../{_HOOK}"}
    result = sandbox.exec(
        ["python3", "-I", "-c", f"{guest}\nmain()\n"],
        cwd="repo",
        stdin=json.dumps(order).encode() + b"\n",
        timeout_sec=wall_sec,
        cpu_limit_sec=cpu_sec,
        output_limit_bytes=_LOG_LIMIT_BYTES,
    )
    if ended := ended_by_limit(result, cpu_sec, wall_sec):
        return ended
    if result.truncated:
        return Report("no_results", {}, (f"more than {_LOG_LIMIT_BYTES} bytes of output",))
    report = _believed(row, result.stdout.decode("utf-8", "replace"), result.exit_code)
    text = sandbox.read(["imported"]).get("imported", b"").decode("utf-8", "replace")
    notes, counts = _NOTE.findall(text), dict[str, int]()
    for path in walls["sources"]:
        opened = [int(count) for count, place in notes if place.endswith(f"/repo/{path}")]
        counts |= {path: max(opened)} if opened else {}
    return replace(report, imported=counts)


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
    lines.append(f'export PYTHONPATH="$(dirname "$work")/{_HOOK}${{PYTHONPATH:+:$PYTHONPATH}}"')
    # Rewritten assertions would read the tests from the disk.
    lines.append('export PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="--assert=plain $PYTEST_ADDOPTS"')
    return "\n".join([*lines, 'cd "$work"', row.run.command])


@cache
def guest_text(*names: str) -> str:
    """Returns the texts of guest files of this package as one program."""
    folder = resources.files("meta_agent.domains.swe")
    texts = (_JOINED.sub("", folder.joinpath(name).read_text("utf-8")) for name in names)
    return "\n".join(("from __future__ import annotations", *texts))


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


def _plain(test: str) -> str:
    """Returns a test's name without colours and without how long the test took."""
    name = COLOURS.sub("", test)
    for pattern in _DURATIONS:
        name = pattern.sub("", name)
    return name.strip()
