"""A real package in the Docker sandbox: its own suite, planted faults, cheats, one solved task."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import PlannedRollout
from meta_agent.core.rollouts import Runner, Stamp
from meta_agent.domains.check import check_domain, render
from meta_agent.domains.swe import RealSwe, load_tasks_domain
from meta_agent.sandboxes import engine_status, open_sandbox
from tests.domains.scaffolds._scaffold_play import Scripted, shipped

pytestmark = [pytest.mark.docker, pytest.mark.slow]
EXAMPLE = Path(__file__).parents[3] / "examples" / "real-package"
FAULTS = 1  # the whole set takes a minute: see examples/real-package/README.md


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLE))
    spec = importlib.util.spec_from_file_location("make_tasks", EXAMPLE / "make_tasks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def domain(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> RealSwe:
    status = engine_status()
    if status.problem:
        pytest.skip(f"no Docker sandbox: {status.problem}")
    folder = tmp_path_factory.mktemp("tasks")
    try:
        example.download(folder)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"the package index does not give {example.ARCHIVE}: {problem}")
    return load_tasks_domain(example.make(folder, example._factory("docker"), FAULTS))


def test_every_fault_stands_on_sound_text_and_falls_into_a_split(example: ModuleType) -> None:
    bugs = example.BUGS
    assert len({bug.name for bug in bugs}) == len(bugs) >= 6
    assert {bug.split for bug in bugs} == {"train", "search", "confirm", "vault"}
    for bug in bugs:  # a report shows symptoms, never the line to change
        assert not any(
            line.strip() and len(line.strip()) > 20 and line.strip() in bug.issue
            for line in (bug.sound + bug.faulty).splitlines()
        )


def test_gold_passes_empty_fails_and_no_cheat_wins(domain: RealSwe) -> None:
    report = check_domain(domain)
    assert report.ok, render(report)
    assert len(report.tasks) == FAULTS
    for task in report.tasks:
        flags = {trial.name: trial.flags for trial in task.trials}
        assert flags["gold"] == flags["empty"] == ()
        assert all(flags[name] for name in flags if name not in ("gold", "empty"))


LOOK = "```search toolz\nseen_add\n```"
EDIT = """```edit toolz/itertoolz.py
<<<<<<< old
            if val not in seen:
                seen_add(item)
=======
            if val not in seen:
                seen_add(val)
>>>>>>> new
```"""
HIDDEN = "```run\ngrep -c 'def test_unique' toolz/tests/test_itertoolz.py; ls -A\n```"
TEST = "```test toolz/tests/test_itertoolz.py\n```"


def test_the_seed_harness_solves_a_planted_fault_through_the_runner(domain: RealSwe) -> None:
    (task,) = [task for task in domain.tasks("train") if task.key == "toolz-unique-key"]
    sandbox = open_sandbox("docker", run="test-swe-real")
    try:
        session = HarnessSession(sandbox, shipped("swe"))
        gateway = Scripted([LOOK, HIDDEN, EDIT, TEST, "```submit\n```"])
        runner = Runner(domain, session, gateway, Stamp("r", "v", "c0ffee"), concurrency=1)
        (row,) = runner.run([PlannedRollout(task, 0, 7, "g0")])
        (reward,) = session.reward([row])
    finally:
        sandbox.close()
    looked, hidden, edited, tested, _ = row.tool_events
    assert looked.ok and edited.ok and tested.result.endswith("[exit 0]")
    assert hidden.result.startswith("0\n") and ".git" not in hidden.result
    assert (row.outcome, row.flags, row.stop_reason) == (True, [], "submitted")
    assert reward == {"solved": 1.0, "submitted": 1.0, "conduct": 0.0}
    assert domain.regrade(task.key, row.verifier_inputs).success
