"""Whole runs on the tiny profile: real child, real sandbox, real git, real RL, small numbers."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

TINY = ("--profile", "tiny", "--train-steps", "2", "--candidates", "2", "--generations", "1")
KEPT = "kept"


class Cli:
    """The command line as a user has it, in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *argv: str, env: dict[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [sys.executable, "-m", "meta_agent", *argv],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if check and ran.returncode != 0:
            raise AssertionError(f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
        return ran

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "--json").stdout)

    def evolve(self, *extra: str, sandbox: str = "process") -> Any:
        return self.json("evolve", "--domain", "swe", *TINY, "--sandbox", sandbox, *extra)


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
