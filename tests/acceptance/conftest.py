"""Whole runs through the CLI: real sandboxes, real git, real HTTP, simulated models.

The task set is made once for all workers, by the script a user would run, of as many faults as the
largest run takes. Set ACCEPTANCE_TASKS to a folder to keep it between sessions.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.acceptance._cli import Cli
from tests.acceptance.brains import Fix, fixes_of

MOST = {"train": 1, "search": 3, "confirm": 8, "vault": 1}
EXAMPLE = Path(__file__).parents[2] / "examples" / "real-package"


@pytest.fixture(scope="session")
def example() -> ModuleType:
    sys.path.insert(0, str(EXAMPLE))
    try:
        spec = importlib.util.spec_from_file_location("make_tasks", EXAMPLE / "make_tasks.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLE))
    module.BUGS = few_of(module.BUGS)
    return module


def few_of(bugs: Sequence[Any]) -> tuple[Any, ...]:
    """The first faults of each split, in their order."""
    by_split = {split: [bug for bug in bugs if bug.split == split] for split in MOST}
    taken = {bug.name for split, most in MOST.items() for bug in by_split[split][:most]}
    return tuple(bug for bug in bugs if bug.name in taken)


@pytest.fixture(scope="session")
def tasks(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task file of the real package."""
    from meta_agent.sandboxes import engine_status

    status = engine_status()
    if not status.ready:
        pytest.skip(f"docker: {status.problem} ({status.hint})")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(os.environ.get("ACCEPTANCE_TASKS") or shared / "tasks")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / example.TASK_FILE).is_file():
            return folder / str(example.TASK_FILE)
        try:
            example.download(folder)
        except subprocess.CalledProcessError as problem:
            pytest.skip(f"the package index does not give {example.ARCHIVE}: {problem}")
        return Path(example.make(folder, example._factory("docker")))


@pytest.fixture(scope="session")
def fixes(example: Any, tasks: Path) -> list[Fix]:
    """What the simulated solver knows."""
    tree = example.read_source(tasks.parent / example.ARCHIVE, example.SHA256)
    files = {bug.file for bug in example.BUGS}
    return fixes_of(example.BUGS, {path: tree[path].decode() for path in files})


@pytest.fixture(scope="module")
def make_cli(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Cli]:
    return lambda name, **environment: Cli(tmp_path_factory.mktemp(name), **environment)
