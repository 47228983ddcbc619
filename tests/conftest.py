"""Marks are complete, and in CI no test is skipped for a reason that `.ci/skips.toml` lacks.

A test that does what `make test` leaves out has the mark that says so. The interpreter's audit
events tell what a test does, so that no list has to be kept: a container is started by a request to
the engine, a whole run by a process or in the test's own (`meta_agent.evolve`), and a policy child
has an event of its own. What a process of ours does in turn is not seen; those that may train are
known by their command.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import signal
import sys
import tomllib
from collections.abc import Generator, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.mark.expression import Expression

# Ctrl-C as on a terminal. Whoever starts the tests in the background hands down that it is
# ignored, to every program that is tried here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is imported and collected lives to the end: looking through it again and again took a quarter
# of the time until the first test.
gc.disable()


class Needed(NamedTuple):
    """The mark that what a test does asks for."""

    mark: str
    what: str


LEFT_OUT = tuple(f"pytest.mark.{mark}" for mark in ("docker", "train", "slow", "nightly"))
WHOLE_RUNS = frozenset({"evolve", "compare"})
EVENTS = ("http.client.send", "subprocess.Popen", "meta_agent.policy_child", "meta_agent.evolve")
_item: list[pytest.Item] = []
_breaches: list[str] = []


def _needed(event: str, args: tuple[Any, ...]) -> Needed | None:
    if event == "http.client.send":
        data = args[1]
        if isinstance(data, bytes) and data.startswith(b"POST ") and b"/containers/create" in data:
            return Needed("docker", "starts a container")
    elif event == "meta_agent.policy_child":
        return Needed("train", "starts a policy child")
    elif event == "subprocess.Popen":
        argv = [str(word) for word in args[1]] if isinstance(args[1], (list, tuple)) else []
        if "meta_agent" in argv and WHOLE_RUNS & set(argv) and "--dry-run" not in argv:
            return Needed("slow", "is a whole run")
        if any(word.startswith("vllm.") for word in argv):
            return Needed("slow", "starts a real engine")
    elif event == "meta_agent.evolve":
        return Needed("slow", "is a whole run")
    return None


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event not in EVENTS or not _item:
        return
    needed = _needed(event, args)
    if needed and not _item[0].get_closest_marker(needed.mark):
        _breaches.append(f"{needed.what} without the mark `{needed.mark}`")
        raise PermissionError(_breaches[-1])


sys.addaudithook(_watch)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file that `-m` leaves out as a whole is not imported: torch and TRL take seconds."""
    wanted = config.getoption("markexpr")
    if not wanted or collection_path.suffix != ".py":
        return None
    given = set(_marks_of_all(collection_path.read_bytes()))
    return True if given and not _may_select(wanted, given) else None


def _marks_of_all(source: bytes) -> Iterator[str]:
    """The marks that a file's `pytestmark` gives to each of its tests."""
    for node in ast.parse(source).body if b"\npytestmark = " in source else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            words = (ast.unparse(one) for one in ast.walk(node.value))
            yield from (word.removeprefix("pytest.mark.") for word in words if word in LEFT_OUT)


def _may_select(wanted: str, given: set[str]) -> bool:
    """Whether the expression holds of a test with these marks, whatever others it has."""
    expression, names = Expression.compile(wanted), [one.rpartition(".")[2] for one in LEFT_OUT]
    for more in product((False, True), repeat=len(names)):
        held = given.union(name for name, has in zip(names, more, strict=True) if has)
        if expression.evaluate(lambda name, /, held=held, **_: name in held):
            return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests live to the end, so collections of garbage leave them out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that ask for more time than others come first, so that no worker ends with one."""
    patience: dict[str, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        sec = mark.args[0] if mark else 0
        patience[item.location[0]] = max(patience.get(item.location[0], 0), sec)
    items.sort(key=lambda item: -patience[item.location[0]])


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _item[:] = [item]
    try:
        return (yield)
    finally:
        _item.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test fails even where the code that it calls took the refusal for the engine's."""
    report = yield
    if _breaches:
        report.outcome, report.longrepr = "failed", f"{item.nodeid} {'; '.join(_breaches)}"
        _breaches.clear()
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report


def pytest_configure(config: pytest.Config) -> None:
    if "CI_CHECKS" in os.environ:  # a file that is skipped without leave stops no other
        config.option.continue_on_collection_errors = True


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Where CI_CHECKS is set, fails a skip that `.ci/skips.toml` does not allow."""
    if "CI_CHECKS" not in os.environ or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not any(_allows(row, report.nodeid, reason) for row in _ci("skips")["skip"]):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} is skipped, and .ci/skips.toml lacks {reason!r}"


def _allows(row: dict[str, str], nodeid: str, reason: str) -> bool:
    """Whether the row holds of this skip. `CI_CHECKS` names the environments that are there."""
    check = row.get("check")
    if not re.match(row["reason"], reason) or check in os.environ["CI_CHECKS"].split():
        return False
    return check is None or nodeid.startswith(tuple(_ci("shards")[check]["tests"]))


@cache
def _ci(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parents[1] / f".ci/{name}.toml").read_text("utf-8"))
