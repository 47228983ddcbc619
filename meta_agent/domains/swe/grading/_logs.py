"""Reads the output of test commands that are not ours: a status for every test that it names.

The ids of public rows were made by their own evaluators' parsers, with all their habits (a pytest
id ends at its first blank, a colour code goes but for its escape character). To find those ids
again a parser here must give the same names, so each is compared with SWE-bench 5's parser of that
name (tests/domains/swe/test_swe_logs.py), on logs of real runs and on generated ones.

Promises: a status is one of `STATUSES` or the line says nothing (SWE-bench records any first word
that *begins* like a status, such as `ERROR:` of a usage message, and then counts that test neither
as passed nor as failed). A name that no parser has is refused while a file is loaded.

Does not cover: whether a log is whole or honest (`_ended.py`), and other languages than Python. A
row in such a language is refused by its parser's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

Statuses = dict[str, str]
Parser = Callable[[str], Statuses]

STATUSES: Final = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_SKIP_COUNT = re.compile(r"\[\d+\]")
_COLOUR_TAIL = re.compile(r"\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_OPTION = re.compile(r"(.*?)\[(.*)\]")


class LogParser(NamedTuple):
    """A function that parses a test log, and the kind of runner that prints it, such as pytest."""

    parse: Parser
    family: str


# --- pytest ------------------------------------------------------------------------------------


def pytest(log: str) -> Statuses:
    """Returns statuses by test from pytest's `-rA` lines, `STATUS id`. An id ends at a blank."""
    statuses: Statuses = {}
    for line in log.split("\n"):
        words = (line.replace(" - ", " ") if line.startswith("FAILED") else line).split()
        states = len(words) > 1 and words[0] in STATUSES and line.startswith(words[0])
        if states and not _counts_skips(words):
            statuses[words[1]] = words[0]
    return statuses


def pytest_options(log: str) -> Statuses:
    """Returns statuses by test from pytest's log; absolute paths in ids are cut to file names."""
    return {_short_option(name): status for name, status in pytest(log).items()}


def matplotlib(log: str) -> Statuses:
    """Returns statuses by test from pytest's lines; named mouse buttons in ids become numbers."""
    return pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def pytest_v2(log: str) -> Statuses:
    """Returns statuses by test from lines `STATUS id` or `id STATUS`. Ids may contain blanks."""
    statuses: Statuses = {}
    for raw in log.split("\n"):
        line = _COLOUR_TAIL.sub("", raw).translate(_CONTROL)
        result = line.split(" - ", 1)[0] if line.startswith("FAILED") else line
        words = result.split()
        if len(words) < 2:
            continue
        if line.startswith(STATUSES):
            if words[0] in STATUSES and not _counts_skips(words):
                statuses[" ".join(words[1:])] = words[0]
        elif words[-1] in STATUSES and line.endswith(words[-1]):
            statuses[" ".join(words[:-1])] = words[-1]
    return statuses


def _counts_skips(words: list[str]) -> bool:
    """Returns whether a line sums up skipped places, and so names no test."""
    return words[0] == "SKIPPED" and _SKIP_COUNT.fullmatch(words[1]) is not None


def _short_option(name: str) -> str:
    match = _OPTION.search(name)
    if not match:
        return name
    test, option = match.groups()
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rsplit("/", 1)[-1]
    return f"{test}[{option}]"


def seaborn(log: str) -> Statuses:
    """Returns statuses by test from seaborn's lines: `FAILED id`, `PASSED id` or `id PASSED`."""
    statuses: Statuses = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            statuses[words[1]] = "FAILED"
        elif " PASSED " in line:
            if words[1] == "PASSED":
                statuses[words[0]] = "PASSED"
        elif line.startswith("PASSED"):
            statuses[words[1]] = "PASSED"
    return statuses


# --- unittest and runners that print like it ----------------------------------------------------

_ENDINGS: Final = (
    (" ... ok", "PASSED"),
    (" ... OK", "PASSED"),
    (" ...  OK", "PASSED"),
    (" ... FAIL", "FAILED"),
    (" ... ERROR", "ERROR"),
)
_HEADS: Final = (("FAIL:", "FAILED"), ("ERROR:", "ERROR"))
# A migration's own dots run into the name of the test that comes after it.
_MIGRATION = "Applying sites.0002_alter_domain_unique...test_no_migrations"
_VERSION = "--version is equivalent to version"
# What the runner prints between a test's name and its `ok`, over more than one line.
_INTERRUPTED: Final = tuple(
    re.compile(rf"^(.*?)\s\.\.\.\s{between}\nok$", re.MULTILINE)
    for between in (
        r"Testing against Django installed in (?s:.*?) silenced\)\.",
        r"Internal Server Error: /.*/",
        r"System check identified no issues \(0 silenced\)",
    )
)


def django(log: str) -> Statuses:
    """Returns statuses by test from Django's lines `test ... status`, also if output splits one."""
    statuses: Statuses = {}
    open_test: str | None = None
    for line in map(str.strip, log.split("\n")):
        if " ... " in line:
            open_test = line.split(" ... ")[0]
        statuses.update(_django_line(line))
        if line.startswith("ok") and open_test is not None:
            statuses[open_test] = "PASSED"
    for pattern in _INTERRUPTED:
        statuses.update({match.group(1): "PASSED" for match in pattern.finditer(log)})
    return statuses


def _django_line(line: str) -> Iterator[tuple[str, str]]:
    if _VERSION in line:
        yield _VERSION, "PASSED"
    if " ... skipped" in line:
        yield line.split(" ... skipped")[0], "SKIPPED"
    for ending, status in _ENDINGS:
        if line.endswith(ending):
            is_migration = status == "PASSED" and line.startswith(_MIGRATION)
            whole = line.split("...", 1)[-1].strip() if is_migration else line
            cut = whole.rsplit if status == "PASSED" else whole.split
            yield cut(ending, 1)[0], status
            break
    for head, status in _HEADS:
        if line.startswith(head) and len(line.split()) > 1:
            yield line.split()[1], status


_UNITTEST = re.compile(r"^(?P<name>\w+ \([\w.]+\))(?P<rest>.*)$")
_UNITTEST_END = re.compile(
    r"(?:^|\.\.\. )(?P<word>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$"
)
_UNITTEST_WORDS: Final = {
    "ok": "PASSED",
    "FAIL": "FAILED",
    "ERROR": "ERROR",
    "expected failure": "XFAIL",
    "unexpected success": "FAILED",
}


def unittest(log: str) -> Statuses:
    """Returns statuses by test (`name (module.Class)`) from the output of `unittest -v`."""
    statuses: Statuses = {}
    name: str | None = None
    for line in log.split("\n"):
        head = _UNITTEST.match(line)
        name = head.group("name") if head else name
        end = _UNITTEST_END.search(line)
        if name is not None and end:
            statuses[name] = _UNITTEST_WORDS.get(end.group("word"), "SKIPPED")
            name = None
    return statuses


# --- others ------------------------------------------------------------------------------------

_SYMPY_FAILURE = re.compile(r"(_*) (.*)\.py:(.*) (_*)")
_SYMPY_WORDS: Final = {"E": "ERROR", "F": "FAILED", "ok": "PASSED"}
_SYMPY_MARK = re.compile(r"\s*\[(?:OK|FAIL)\]$")  # at a file's last test


def sympy(log: str) -> Statuses:
    """Returns statuses by test from SymPy's log: lines `test_name ok|F|E` and headings of failures.

    It also reads a file's last test, as SWE-rebench V2's parser does and SWE-bench's does not.
    """
    statuses = {f"{match[1]}.py:{match[2]}": "FAILED" for match in _SYMPY_FAILURE.findall(log)}
    for line in (_SYMPY_MARK.sub("", raw.strip()) for raw in log.split("\n")):
        if line.startswith("test_") and " " in line and line.rsplit(" ", 1)[-1] in _SYMPY_WORDS:
            statuses[line.split()[0]] = _SYMPY_WORDS[line.rsplit(" ", 1)[-1]]
    return statuses


_PYTEST = LogParser(pytest, "pytest")
_OPTIONS = LogParser(pytest_options, "pytest")
_V2 = LogParser(pytest_v2, "pytest")

PARSERS: Final[Mapping[str, LogParser]] = {
    "parse_log_pytest": _PYTEST,
    "parse_log_pytest_options": _OPTIONS,
    "parse_log_pytest_v2": _V2,
    "parse_log_matplotlib": LogParser(matplotlib, "pytest"),
    "parse_log_seaborn": LogParser(seaborn, "pytest"),
    "parse_log_django": LogParser(django, "unittest"),
    "parse_log_unittest": LogParser(unittest, "unittest"),
    "parse_log_sympy": LogParser(sympy, "sympy"),
    **{
        f"parse_log_{name}": _PYTEST
        for name in ("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff")
    },
    "parse_log_xarray": _PYTEST,
    **{f"parse_log_{name}": _OPTIONS for name in ("pydicom", "requests", "pylint")},
    **{f"parse_log_{name}": _V2 for name in ("astropy", "scikit", "sphinx")},
}
