"""Environments of Harbor's kind on this machine: what the tests of `harbor:` take for a service.

Harbor's interpreter imports it, from the folder in which the tests run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)


class Local(BaseEnvironment):
    """What both kinds share: the form that Harbor asks for, and a command that is run here."""

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None: ...

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        raise NotImplementedError

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        raise NotImplementedError

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        raise NotImplementedError

    def argv_of(self, command: str, user: str | int | None) -> list[str]:
        """Returns the program of this machine that carries out a command in the sandbox."""
        raise NotImplementedError

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        return await self._here(*self.argv_of(command, user), timeout_sec=timeout_sec)

    async def _here(self, *argv: str, timeout_sec: float | None = None) -> ExecResult:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe)
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        finally:
            if process.returncode is None:
                process.kill()
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            return_code=process.returncode or 0,
        )


class OnTheHost(Local):
    """Runs commands as plain processes of this machine: it keeps nothing, and promises nothing."""

    @property
    def root(self) -> Path:
        return Path("/tmp") / f"{self.session_id}-service"

    async def start(self, force_build: bool) -> None:
        self.root.mkdir(mode=0o755)

    async def stop(self, delete: bool) -> None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if (path / "cwd").resolve() == self.root / "scratch":
                    os.kill(int(path.name), signal.SIGKILL)
            except OSError:
                continue
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(f"/tmp/{self.session_id}", ignore_errors=True)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copyfile(source_path, target_path)

    def argv_of(self, command: str, user: str | int | None) -> list[str]:
        return ["sh", "-c", command.replace("/scratch", str(self.root / "scratch"))]


class Lossy(OnTheHost):
    """A service whose every third answer is lost, after the command was carried out."""

    lost = "the connection was reset"
    calls = 0

    async def exec(self, command: str, **options: Any) -> ExecResult:  # type: ignore[override]
        result = await super().exec(command, **options)
        self.calls += "<<ma" in command
        if self.calls % 3 == 2 and "<<ma" in command:
            raise ConnectionError(self.lost)
        return result


class Breaks(OnTheHost):
    """A service that goes away once the sandbox has a file `gone`."""

    async def exec(self, command: str, **options: Any) -> ExecResult:  # type: ignore[override]
        if (self.root / "scratch/gone").exists():
            raise ConnectionError("the service went away")
        return await super().exec(command, **options)


class Down(OnTheHost):
    """A service that does not answer."""

    async def start(self, force_build: bool) -> None:
        raise ConnectionError("connection to https://service.invalid refused")


class NoLogin(OnTheHost):
    """A service that wants a key which is not there."""

    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        if not os.environ.get("TESTS_API_KEY"):
            raise SystemExit("set TESTS_API_KEY to use this service")


class InDocker(Local):
    """A container of this machine's Docker engine, without Compose, which Harbor's own needs."""

    promises = ("host", "processes", "peers")

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(memory_limit=True, fractional_cpus=True)

    async def start(self, force_build: bool) -> None:
        memory = f"{self._effective_memory_mb}m"
        limits = ["--network", "none", "--memory", memory, "--memory-swap", memory]
        command = [str(self.task_env_config.docker_image), "sleep", "infinity"]
        name = ["--name", self.session_id, "--user", "0", "--entrypoint", ""]
        done = await self._here("docker", "run", "--detach", "--init", *name, *limits, *command)
        if done.return_code:
            raise RuntimeError(done.stderr)

    async def stop(self, delete: bool) -> None:
        await self._here("docker", "rm", "--force", self.session_id)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._here("docker", "cp", str(source_path), f"{self.session_id}:{target_path}")

    def argv_of(self, command: str, user: str | int | None) -> list[str]:
        return ["docker", "exec", "--user", str(user or 0), self.session_id, "sh", "-c", command]
