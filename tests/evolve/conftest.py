"""Whole runs on the tiny profile: real child, real sandbox, real git, real RL, small numbers."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.evolve._cli import KEPT, Cli

pytest.importorskip("trl", reason="needs the train extra")


@pytest.fixture(scope="session")
def make_cli(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cli]:
    return lambda name: Cli(tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Any]:
    """One undisturbed run that many tests read, made once for all workers.

    One file asks its command line. For the others a copy that nobody opens lies in `KEPT`.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cli = Cli(shared / "finished")
    cli.folder.mkdir(exist_ok=True)
    told = cli.folder / "result.json"
    with (cli.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.is_file():
            result = cli.evolve()
            shutil.copytree(cli.folder / "meta-agent-workspace", cli.folder / KEPT, symlinks=True)
            told.write_text(json.dumps(result))
    return cli, json.loads(told.read_text())
