"""One attempt in containers: the agent's, and after it the verifier's.

The verifier never runs where the agent's processes do. Where a task declares artifacts, or gives
the verifier an environment of its own, the verifier gets a fresh container of the image, and the
declared artifacts alone go there. Where it declares none, the verifier gets a container of a
snapshot of what the agent left. That grade is unchecked if the agent changed anything outside the
working directory, because the verifier would run it. Tests are put in when the agent's container
has stopped, and what lay at their place, and at that of the reward, is removed before. The solution
is put in by `solved`, which only `tasks check` calls.
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import shlex
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from meta_agent.core.errors import MetaAgentError, SandboxError
from meta_agent.core.protocols import ExecResult
from meta_agent.domains.harbor._grade import FOLDER, VerifierError, rewards_of
from meta_agent.domains.harbor._task import HarborTask, Place
from meta_agent.sandboxes import Box, task_image

MAX_ARTIFACT_BYTES: Final = 256 << 20
_SLACK_SEC: Final = 600.0
_FOLDERS: Final = "mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs /logs/*"
_CLEAR: Final = (
    f"rm -rf /tests /solution {FOLDER} && mkdir -p /tests {FOLDER} && chmod 777 {FOLDER}"
)


_FREE: Final = ("/tmp", "/var/tmp", "/logs", "/tests", "/solution", "/run", "/dev", "/proc")
UNCHECKED: Final = "unchecked:environment"
"""A verifier ran in an environment that the agent changed outside its working directory."""


class ArtifactError(MetaAgentError):
    """Raised if an agent left something other than files as an artifact. The attempt fails."""


class HarborTrial:
    """One attempt in containers, the agent's and the verifier's. Call `close` at the end."""

    def __init__(
        self, task: HarborTask, run: str, network: bool = False, *, engine: str = "docker"
    ) -> None:
        self.task, self._run, self._network, self._engine = task, run, network, engine
        self._box: Box | None = None
        self._began = time.monotonic()
        self._at_start: frozenset[str] = frozenset()
        self._work = "/"
        self.flags: tuple[str, ...] = ()
        """What the last grade leaves open; see `UNCHECKED`."""

    @property
    def late(self) -> bool:
        """Returns True if the agent's time limit has passed."""
        return time.monotonic() - self._began > self.task.agent.timeout_sec

    def exec(self, command: str, timeout_sec: float) -> ExecResult:
        """Runs a shell command of the agent. The first command starts the agent's container."""
        seconds = self.task.agent.timeout_sec - (time.monotonic() - self._began)
        return self._opened().exec(
            command,
            timeout_sec=max(1.0, min(timeout_sec, seconds)),
            user=self.task.agent.user,
            cwd=self.task.place.workdir,
        )

    def solved(self) -> ExecResult:
        """Runs the reference solution in the agent's container and returns the result."""
        assert self.task.solution is not None, "asked for only where there is one"
        box = self._opened()
        box.put(_files(self.task.folder / "solution"), "/solution")
        return box.exec(
            "bash /solution/solve.sh",
            timeout_sec=self.task.agent.timeout_sec,
            user=self.task.agent.user,
            cwd=self.task.place.workdir,
            env=self.task.solution.env,
        )

    def rewards(self) -> dict[str, float]:
        """Runs the verifier on what the agent left, and returns its rewards by name.

        The reward is 0 if an artifact is no file or folder. It is 0 too if the verifier fails on
        what an agent left, but not on the reference solution (or the untouched task) in a
        container of its own. Any other failure of the verifier raises VerifierError.
        """
        try:
            with self._verifiers_box() as box:
                return self._verified(box)
        except ArtifactError:
            return {"reward": 0.0}
        except VerifierError:
            if not self.flags and not self._verifies_without_agent():
                raise
            return {"reward": 0.0}

    def _verifies_without_agent(self) -> bool:
        """Returns whether the verifier ends with a reward where no agent worked."""
        if self._box is None:
            return False
        control = type(self)(self.task, self._run, network=self._network, engine=self._engine)
        with contextlib.closing(control):
            try:
                if self.task.solution is not None:
                    control.solved()
                else:
                    control._opened()
                with control._verifiers_box() as box:
                    control._verified(box)
            except (ArtifactError, VerifierError):
                return False
        return True

    def _verified(self, box: Box) -> dict[str, float]:
        _checked(box.exec(_CLEAR, timeout_sec=60, user="0"), "cannot clear /tests")
        box.put(_files(self.task.tests), "/tests")
        ran = box.exec(
            "bash /tests/test.sh",
            timeout_sec=self.task.verifier.timeout_sec,
            user=self.task.verifier.user,
            cwd=(self.task.own_place or self.task.place).workdir,
            env=self.task.verifier.env,
        )
        if ran.timed_out:
            raise VerifierError(
                f"{self.task.key}: tests/test.sh took over {self.task.verifier.timeout_sec:g} s"
            )
        try:
            return rewards_of(box)
        except VerifierError as error:
            output = (ran.stdout + ran.stderr)[-200:].decode("utf-8", "replace").strip()
            raise VerifierError(
                f"{self.task.key}: {error} (exit {ran.exit_code}: {output!r})"
            ) from error

    def close(self) -> None:
        """Ends the agent's container."""
        if self._box is not None:
            self._box.close()
            self._box = None

    @contextlib.contextmanager
    def _verifiers_box(self) -> Iterator[Box]:
        place = self.task.own_place
        if place is None and (self._box is None or self.task.artifacts):
            place = self.task.place
        if place is None:
            assert self._box is not None
            self._collect(self._box)
            self.flags = (UNCHECKED,) if self._is_changed_outside(self._box) else ()
            with self._box.snapshot() as image, contextlib.closing(self._start(image)) as box:
                yield box
            return
        with contextlib.closing(self._placed(place)) as box:
            if self._box is not None:
                self._collect(self._box)
                _carry(self._box, box, ("/logs/artifacts", *self.task.artifacts))
            yield box

    def _collect(self, box: Box) -> None:
        for hook in self.task.verifier.collect:
            ran = box.exec(hook.command, timeout_sec=hook.timeout_sec)
            _checked(ran, f"{self.task.key}: collecting by {hook.command[:60]!r} failed")

    def _is_changed_outside(self, box: Box) -> bool:
        """Returns whether the agent changed files outside its working directory, or removed it."""
        if box.exec("true", timeout_sec=60, cwd=self.task.place.workdir).exit_code:
            return True
        paths = [path for path in box.changed_paths() if path not in self._at_start]
        folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
        free = tuple(f"{folder}/" for folder in (*_FREE, self._work))
        return any(path not in folders and not f"{path}/".startswith(free) for path in paths)

    def _opened(self) -> Box:
        if self._box is None:
            self._began = time.monotonic()
            self._box = self._placed(self.task.place)
            self._at_start = frozenset(self._box.changed_paths())  # the engine's own, and ours
            # Asked before the agent can replace the shell that answers.
            self._work = _folder_of_work(self._box, self.task.place.workdir)
            self._began = time.monotonic()  # the agent's time is not that of starting
        return self._box

    def _placed(self, place: Place) -> Box:
        box = self._start(image_of(place, engine=self._engine), place)
        try:
            _checked(box.exec(_FOLDERS, timeout_sec=60, user="0"), "cannot make /logs")
            if place.upload:
                folder = self.task.folder / "environment"
                box.put(_files(folder), _folder_of_work(box, place.workdir))
            if place.healthcheck:
                _wait_for_health(box, place.healthcheck, self.task.key)
        except BaseException:
            box.close()
            raise
        return box

    def _start(self, image: str, place: Place | None = None) -> Box:
        place = place or self.task.place
        seconds = self.task.agent.timeout_sec + self.task.verifier.timeout_sec + _SLACK_SEC
        limits = replace(place.limits, deadline_sec=seconds, network=self._network)
        return Box(image, self._run, limits, place.env, engine=self._engine)


def image_of(place: Place, *, engine: str = "docker", pull: bool = False) -> str:
    """Returns the id of an image that is here, built, or (`pull`) downloaded; else SandboxError."""
    image = place.image if place.folder is None or _here(place.image, engine) else None
    return task_image(image, place.folder, engine=engine, pull=pull, timeout_sec=place.build_sec)


def _here(image: str | None, engine: str) -> bool:
    if image is None:
        return False
    try:
        return bool(task_image(image, None, engine=engine))
    except SandboxError as error:
        if error.kind == "image":
            return False
        raise


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _carry(source: Box, target: Box, paths: tuple[str, ...]) -> None:
    """Copies declared artifacts to the places where they were; what is not there is left out.

    Raises `ArtifactError` for anything but files, folders and links within the artifact.
    """
    for path in paths:
        try:
            archive = source.get_tar(path, MAX_ARTIFACT_BYTES)
        except SandboxError as error:
            if error.kind != "protocol":
                raise
            raise ArtifactError(str(error)) from error
        if archive is not None:
            _check_members(path, archive)
            parent = path.rstrip("/").rpartition("/")[0] or "/"
            target.exec(f"mkdir -p {shlex.quote(parent)}", timeout_sec=60, user="0")
            target.put_tar(archive, parent)


def _check_members(path: str, archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for member in tar:
            inside = posixpath.normpath(
                posixpath.join("/", posixpath.dirname(member.name), member.linkname)
            )
            top = f"/{member.name.split('/')[0]}"
            stays = not member.linkname.startswith("/") and f"{inside}/".startswith(f"{top}/")
            is_link = (member.issym() and stays and inside != top) or member.islnk()
            if not (member.isfile() or member.isdir() or is_link):
                raise ArtifactError(
                    f"artifact {path} may hold files, folders and inner links, not {member.name}"
                )


def _wait_for_health(box: Box, check: Mapping[str, object], key: str) -> None:
    def number(name: str, usual: float) -> float:
        value = check.get(name, usual)
        return float(value) if isinstance(value, int | float) else usual

    until = time.monotonic() + number("start_period_sec", 0.0)
    failures = 0
    while failures < number("retries", 3):
        command = str(check.get("command", "true"))
        if box.exec(command, timeout_sec=number("timeout_sec", 30.0)).exit_code == 0:
            return
        started = time.monotonic() >= until
        failures += started
        time.sleep(number("interval_sec" if started else "start_interval_sec", 5.0))
    raise VerifierError(f"the healthcheck of {key} failed each time; correct it in task.toml")


def _folder_of_work(box: Box, workdir: str | None) -> str:
    """Returns the absolute path of `workdir`; by default it is the image's own."""
    ran = box.exec("pwd", timeout_sec=60, cwd=workdir)
    _checked(ran, "cannot ask for the working directory")
    return ran.stdout.decode().strip()


def _checked(ran: ExecResult, what: str) -> None:
    if ran.exit_code != 0:
        output = (ran.stdout + ran.stderr)[-200:].decode("utf-8", "replace").strip()
        raise VerifierError(f"{what} in the container (exit {ran.exit_code}: {output!r})")
