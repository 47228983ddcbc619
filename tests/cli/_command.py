"""The command line in this process, for `tests/cli` and whoever else runs a command."""

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from meta_agent.cli import main

# Where a model's code may run is not what these tests ask, and a machine need not have an engine.
ANYWHERE = {"META_AGENT_SANDBOX": "process", "META_AGENT_ALLOW_UNSAFE_PROCESS": "true"}


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Stdout is exactly one JSON document."""
        assert self.returncode == 0, self.stderr
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed


class Runner(Protocol):
    def __call__(self, *arguments: str, cwd: Path, **variables: str) -> Done: ...


@pytest.fixture
def meta_agent(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Runner:
    """Runs the command in this process (a new one costs most of a second), output caught by fd."""
    for name in [name for name in os.environ if name.startswith("META_AGENT_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, cwd: Path, **variables: str) -> Done:
        with monkeypatch.context() as patched:
            patched.chdir(cwd)
            patched.setattr(sys, "argv", ["meta-agent", *arguments])
            for name, value in variables.items():
                patched.setenv(name, value)
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
            code = ended.value.code
            return Done(code if isinstance(code, int) else 0, *capfd.readouterr())

    return run
