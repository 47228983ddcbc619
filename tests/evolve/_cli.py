"""The command line as a program, for whole runs on the tiny profile."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
