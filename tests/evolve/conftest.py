"""Whole runs on the tiny profile: real child, real sandbox, real git, real RL, small numbers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the train extra")

TINY = ("--profile", "tiny", "--train-steps", "2", "--candidates", "2", "--generations", "1")


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
def finished(make_cli: Callable[[str], Cli]) -> tuple[Cli, Any]:
    """One undisturbed run that many tests read."""
    cli = make_cli("finished")
    return cli, cli.evolve()
