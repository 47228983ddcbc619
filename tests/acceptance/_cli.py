"""The command line as a user has it: a directory, an environment of its own, and servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "DOCKER_HOST")
CANARIES = {
    "OPENAI_API_KEY": "sk-canary-openai-5b1c7d90e2",
    "ANTHROPIC_API_KEY": "sk-ant-canary-anthropic-84fa03",
    "DEEPSEEK_API_KEY": "canary-deepseek-2f60c9aa17",
    "LOOPBACK_KEY": "canary-loopback-d3371e58b4",
}
"""Keys that no file, sandbox or prompt may ever hold."""
PRICES = {
    "openai/solver": (1.0, 4.0),
    "openai/team": (2.0, 8.0),
    "anthropic/team": (3.0, 15.0),
    "anthropic/solver": (0.5, 2.0),
    "litellm/deepseek/team": (1.5, 6.0),
}
"""USD per million tokens in and out, stated by the owner of the servers."""
TIMEOUT_SEC = 1500.0

NOTHING_TRIED = 1
"""Exit status of a run that ended and in which no proposal could be tried."""


class Cli:
    """One workspace, run by whatever installation runs the tests."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self.workspace = folder, folder / "ws"
        kept = {n: v for n, v in os.environ.items() if n in KEPT or n.startswith("PIP_")}
        self.environment = {**kept, "HOME": str(folder), **CANARIES, **environment}

    def __call__(self, *argv: str, ok: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            self._command(argv),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SEC,
            check=False,
        )
        self._keep(argv, ran.stdout + ran.stderr)
        assert ran.returncode in ok, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "--json").stdout)

    def init(self, *argv: str, domain: str = "swe") -> None:
        """A workspace with the prices of the servers in its settings."""
        self("init", "--domain", domain, "--policy", "openai/solver", *self._where(), *argv)
        rows = (
            f'\n[prices."{model}"]\ninput = {rate[0]}\noutput = {rate[1]}\n'
            for model, rate in PRICES.items()
        )
        with (self.workspace / "meta-agent.toml").open("a", encoding="utf-8") as file:
            file.writelines(rows)

    def evolve(self, *argv: str, ok: tuple[int, ...] = (0,)) -> Any:
        """The run's JSON; None where it did not come to its end."""
        ran = self("evolve", *self._where(), *argv, "--json", ok=ok)
        return json.loads(ran.stdout) if ran.returncode in (0, NOTHING_TRIED) else None

    def killed(self, *argv: str, when: Callable[[], bool]) -> None:
        """Starts `evolve` and ends it with SIGKILL once `when()` holds."""
        log = self.folder / "killed.log"
        with log.open("w") as output:
            child = subprocess.Popen(
                self._command(("evolve", *self._where(), *argv)),
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
            try:
                while child.poll() is None and not when():
                    time.sleep(0.05)
            finally:
                child.kill()
                child.wait()
        assert child.returncode == -signal.SIGKILL, f"it ended before that: {log.read_text()}"

    def _where(self) -> tuple[str, ...]:
        return ("--workspace", str(self.workspace))

    def _command(self, argv: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "meta_agent", *argv]

    def _keep(self, argv: tuple[str, ...], text: str) -> None:
        """What was printed is searched for canaries as well."""
        with (self.folder / "printed.log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(argv)}\n{text}\n")


def behind(servers: Mapping[str, str]) -> tuple[str, ...]:
    """The flags that point roles at servers; each asks for the canary of its own."""
    flags: list[str] = []
    for role, url in servers.items():
        flags += ["--base-url", f"{role}={url}", "--key-env", f"{role}=LOOPBACK_KEY"]
    return tuple(flags)
