"""`tasks check`: fit tasks pass, unfit ones are named with the reason, cheats are real cheats."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from meta_agent.core.errors import SandboxError
from meta_agent.domains import DomainOptions
from meta_agent.domains.check import check_domain, check_tasks, render
from meta_agent.domains.checking._cheats import CHEATS
from meta_agent.domains.swe import RealSwe
from meta_agent.domains.swe._patch import apply, overlay, parse

pytestmark = pytest.mark.slow

BARE = ("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1")  # plugins of our environment cost a second


def test_a_fit_task_passes_every_trial(shelf: Any) -> None:
    lines: list[str] = []
    report = check_tasks(DomainOptions("swe", shelf.write()), progress=lines.append)
    (task,) = report.tasks
    assert report.tasks[0].ok and report.lacks.startswith("one task outside the vault")
    assert lines == ["[1/1] shelf-1: fit"]
    assert [trial.name for trial in task.trials] == ["gold", "empty", *CHEATS]
    assert json.loads(json.dumps(report.to_json()))["tasks"][0]["ok"] is True
    assert "1 tasks, each fit\nevolve refuses the set" in render(report)


@pytest.mark.parametrize("name", CHEATS)
def test_each_cheat_wins_against_a_careless_grader(domain: RealSwe, name: str) -> None:
    """The positive control: a cheat that no grader falls for would prove nothing."""
    files = domain.files("shelf-1")
    changes = apply(files.visible, parse(CHEATS[name](files)))
    tree = overlay(files.graded, changes)  # official tests first, then all that the patch says
    sandbox = domain._factory(None)
    careless = [*BARE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    try:
        sandbox.write(dict(tree))
        assert sandbox.exec(careless, timeout_sec=240).exit_code == 0
        sandbox.write(dict(files.graded))
        for path in ("conftest.py", "sitecustomize.py"):
            sandbox.exec(["rm", "-f", path])
        assert sandbox.exec(careless, timeout_sec=240).exit_code == 1  # without it, the bug shows
    finally:
        sandbox.close()


def test_a_gold_patch_that_does_not_resolve_is_named(shelf: Any) -> None:
    shelf.row["patch"] = shelf.patch({"shelf/core.py": "def total(prices):\n    return 0\n"})
    (task,) = check_domain(shelf.load()).tasks
    assert not task.ok
    assert task.reasons[0].startswith("gold attempt does not resolve the task (")


def test_tests_that_pass_anyway_are_named(shelf: Any) -> None:
    shelf.row["FAIL_TO_PASS"] = [shelf.row["PASS_TO_PASS"].pop(0)]
    report = check_domain(shelf.load())
    assert any(
        reason.startswith("empty attempt resolves the task") for reason in report.tasks[0].reasons
    )
    assert "yes!" in render(report)


def test_a_missing_gold_patch_is_named(shelf: Any) -> None:
    shelf.row["patch"] = None
    assert "no gold patch" in check_domain(shelf.load()).tasks[0].reasons[-1]


@pytest.mark.parametrize(
    ("split", "says"), [("search", "the same task as shelf-1"), ("vault", "the splits overlap")]
)
def test_a_repetition_is_named(shelf: Any, split: str, says: str) -> None:
    domain = shelf.load({**shelf.row, "instance_id": "shelf-2", "split": split})
    first, second = check_domain(domain).tasks
    assert first.ok and says in second.reasons[0]


def test_a_broken_engine_is_not_an_answer(domain: RealSwe) -> None:
    def broken(image: str | None) -> Any:
        raise SandboxError("no engine", kind="engine")

    domain._factory = broken
    report = check_domain(domain)
    assert not report.ok
    assert all("not measured" in reason for reason in report.tasks[0].reasons)
    assert "infra" in render(report)
