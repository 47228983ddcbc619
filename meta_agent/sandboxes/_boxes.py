"""Boxes: containers of a public image, in which a task is worked on and graded.

A sandbox of this project has a read-only root, no root user and a Python; images of public task
sets expect the opposite. So a box has a writable root, the image's own user and tools, and no
worker inside: the engine runs its commands. It keeps the other fences: no network unless requested,
no device, few capabilities, no new privileges, this project's list of system calls, and limits on
memory, CPU, processes and lifetime.
Promises: nothing is pulled unless requested; what is read from a box is limited in size, and a
regular file or nothing. Does not cover: disk, which storage drivers do not bound; a kernel exploit,
against which root inside is a weaker fence. A box needs `sh`. A command's deadline needs
`timeout`; without it in the image, the box is killed instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shlex
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import ExecResult
from meta_agent.sandboxes._names import SNAPSHOT_LABEL, whole_id
from meta_agent.sandboxes._open import check_run_name
from meta_agent.sandboxes._owner import holder_mark, install_id

if TYPE_CHECKING:
    from meta_agent.sandboxes._engine import Engine


def _on(engine: str) -> Engine:
    """Returns the client of an engine. Its module is imported here, since most runs need none."""
    from meta_agent.sandboxes import _engine

    return _engine.engine(engine)


BUILT: Final = "meta-agent-task"
_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "KILL")
_GRACE_SEC: Final = 20.0
_HEADER_BYTES: Final = 8
_TIMED_OUT: Final = (124, 137)
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)

_ARG = re.compile(r"^\s*ARG\s+(\w+)=(\S+)", re.IGNORECASE)
_USE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True, slots=True)
class BoxLimits:
    """The limits of a container of a public image, in which a task is worked on and graded.

    `deadline_sec` is how long it may live. Only with `network` may it reach the network.
    """

    memory_mb: int = 2048
    cpus: float = 1.0
    pids: int = 512
    deadline_sec: float = 3600.0
    network: bool = False


class Box:
    """A running container of a public image, in which a task is worked on and graded.

    Two threads must not use it at the same time.
    """

    def __init__(
        self,
        image_id: str,
        run: str,
        limits: BoxLimits,
        env: Mapping[str, str] | None = None,
        *,
        engine: str = "docker",
    ) -> None:
        check_run_name(run)
        self._engine, self._limits = _on(engine), limits
        self._api = self._engine.api
        self._until = time.monotonic() + limits.deadline_sec
        labels = {
            "ma.owner": install_id(),
            "ma.run": run,
            "ma.holder": holder_mark(),
            "ma.deadline": str(int(time.time() + limits.deadline_sec + 60)),
        }
        with self._engine.errors("cannot start a task's container"):
            container = self._api.create_container(
                image_id,
                command=["sh", "-c", f"sleep {int(limits.deadline_sec)} & wait $!"],
                entrypoint=[],
                name=f"ma-{run}-{uuid.uuid4().hex[:12]}",
                hostname="task",
                environment=dict(env or {}),
                labels=labels,
                host_config=self._api.create_host_config(**_fences(limits, self._engine)),
            )
            self.id = str(container["Id"])
            try:
                self._api.start(self.id)
                self._engine.bound_tcp(self.id, limits.memory_mb)
                self._has_timeout = self._ran("command -v timeout", 60.0).exit_code == 0
            except BaseException:
                self.close()
                raise

    def exec(
        self,
        command: str,
        *,
        timeout_sec: float,
        user: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_limit_bytes: int = 1 << 18,
    ) -> ExecResult:
        """Runs a shell command in the container and returns its exit code and output.

        A command that exceeds `timeout_sec` is killed, and if need be the container. At most
        `output_limit_bytes` of output are returned. Raises SandboxError if the engine fails.
        """
        remaining_sec = min(timeout_sec, max(1.0, self._until - time.monotonic()))
        line = f"exec sh -c {shlex.quote(command)}"
        if self._has_timeout:
            line = (
                f"exec timeout -s KILL {max(1, round(remaining_sec))} sh -c {shlex.quote(command)}"
            )
        return self._ran(line, remaining_sec, user, cwd, env, output_limit_bytes)

    def _ran(
        self,
        line: str,
        seconds: float,
        user: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        limit: int = 1 << 18,
    ) -> ExecResult:
        began = time.monotonic()
        with self._engine.errors("cannot run a command in a task's container"):
            execution = self._api.exec_create(
                self.id, ["sh", "-c", line], user=user, workdir=cwd, environment=dict(env or {})
            )
            raw = self._api.exec_start(execution["Id"], socket=True)
            output, late = read_output(raw, seconds + _GRACE_SEC, limit)
            if late:
                self._api.kill(self.id)
            code = self._api.exec_inspect(execution["Id"])["ExitCode"]
        took = time.monotonic() - began
        killed = late or (code in _TIMED_OUT and took >= seconds - 1)
        return ExecResult(
            -1 if code is None else int(code),
            bytes(output[1]),
            bytes(output[2]),
            timed_out=killed,
            truncated=len(output[1]) + len(output[2]) >= limit,
            duration_sec=took,
        )

    def put(self, files: Mapping[str, tuple[bytes, int]], folder: str) -> None:
        """Writes files below a folder, which is created; paths map to content and mode bits."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path, (content, mode) in sorted(files.items()):
                member = tarfile.TarInfo(f"{folder.strip('/')}/{path}")
                member.size, member.mode = len(content), mode
                tar.addfile(member, io.BytesIO(content))
        self.put_tar(buffer.getvalue(), "/")

    def put_tar(self, archive: bytes, folder: str) -> None:
        """Unpacks a tar into a folder of the container. Raises SandboxError if it is missing."""
        with self._engine.errors("cannot put files into a task's container"):
            self._api.put_archive(self.id, folder, archive)

    def get_tar(self, path: str, limit_bytes: int) -> bytes | None:
        """Returns a file or folder of the container as an untrusted tar archive; None if missing.

        Raises SandboxError if the archive exceeds `limit_bytes`.
        """
        archive = bytearray()
        with self._engine.errors(f"cannot read {path} from a task's container"):
            url = self._api._url("/containers/{0}/archive", self.id)
            # Not by get_archive: what is left unread of its reply could not be closed.
            with self._api.get(url, params={"path": path}, stream=True) as reply:
                if reply.status_code == 404:
                    return None
                reply.raise_for_status()
                for part in reply.iter_content(1 << 16):
                    archive += part
                    if len(archive) > limit_bytes:
                        raise _too_large(path, limit_bytes)
        return bytes(archive)

    def get(self, path: str, limit_bytes: int) -> bytes | None:
        """Returns the content of a regular file; None if there is no such file.

        Raises SandboxError if the file exceeds `limit_bytes`.
        """
        archive = self.get_tar(path, limit_bytes + (16 << 10))  # a tar is padded
        if archive is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            first = tar.next()
            file = tar.extractfile(first) if first is not None and first.isfile() else None
            content = file.read() if file else None
        if content is not None and len(content) > limit_bytes:
            raise _too_large(path, limit_bytes)
        return content

    def changed_paths(self) -> list[str]:
        """Returns the paths that were added, changed or removed since the container started."""
        with self._engine.errors("cannot compare a task's container with its image"):
            return [str(change["Path"]) for change in self._api.diff(self.id) or ()]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[str]:
        """Kills the container; yields the id of an image of its files, then removes the image."""
        with self._engine.errors("cannot keep a task's container"):
            self._api.kill(self.id)
            commit = self._api.commit(self.id, changes=[f"LABEL {SNAPSHOT_LABEL}={install_id()}"])
        image_id = whole_id(str(commit["Id"]))
        try:
            yield image_id
        finally:
            with contextlib.suppress(SandboxError):  # `reap_images` has another try
                self._engine.remove_image(image_id)

    def close(self) -> None:
        """Kills and removes the container; a second call does nothing."""
        with contextlib.suppress(SandboxError):
            self._engine.remove_container(self.id)


def _too_large(path: str, limit_bytes: int) -> SandboxError:
    return SandboxError(
        f"{path} in a task's container exceeds {limit_bytes} bytes, so the attempt's work is not "
        "read; the agent must leave smaller files there",
        kind="protocol",
    )


def _fences(limits: BoxLimits, on: Engine) -> dict[str, Any]:
    from meta_agent.sandboxes._engine import bounded

    return {
        "network_mode": "bridge" if limits.network else "none",
        "cap_drop": ["ALL"],
        "cap_add": list(_CAPABILITIES),
        "security_opt": ["no-new-privileges:true", *on.seccomp(tracing=True)],
        "ipc_mode": "private",
        "init": True,
        "log_config": {"Type": "none", "Config": {}},
        **bounded(limits.memory_mb, limits.cpus, limits.pids, on),
    }


def read_output(raw: Any, seconds: float, limit: int) -> tuple[dict[int, bytearray], bool]:
    """Reads a command's output for at most `seconds`, from the Docker SDK's socket `raw`.

    Returns up to `limit` bytes by stream (1: stdout, 2: stderr), and True if time ran out first.
    The reader of the reply's header is used, as it may hold the first bytes (docker-py issue 3332).
    """
    reply = raw._response
    reader, plain = reply.raw._fp.fp, getattr(raw, "_sock", raw)
    output = {0: bytearray(), 1: bytearray(), 2: bytearray()}
    until, inbox, kind, part_bytes = time.monotonic() + seconds, bytearray(), 0, 0
    with contextlib.closing(reply):
        while (wait := until - time.monotonic()) > 0:
            plain.settimeout(wait)
            try:
                part = reader.read1(1 << 16)
            except TimeoutError:
                return output, True
            if not part:
                return output, False
            inbox += part
            while part_bytes or len(inbox) >= _HEADER_BYTES:
                if not part_bytes:
                    kind, part_bytes = inbox[0] & 3, int.from_bytes(inbox[4:_HEADER_BYTES], "big")
                    del inbox[:_HEADER_BYTES]
                taken = inbox[:part_bytes]
                if not taken and part_bytes:
                    break
                room = max(0, limit - len(output[1]) - len(output[2]))
                output[min(kind, 2)] += taken[:room]
                del inbox[: len(taken)]
                part_bytes -= len(taken)
    return output, True


# --- images --------------------------------------------------------------------------------------

_building = threading.Lock()  # one build at a time: the same task is opened by many threads


def task_image(
    name: str | None,
    folder: Path | None,
    *,
    engine: str = "docker",
    pull: bool = False,
    timeout_sec: float = 600.0,
    progress: Callable[[str], None] = lambda line: None,
) -> str:
    """Returns the id of the image `name`, or of an image built from the Dockerfile in `folder`.

    Without `pull`, no registry is asked and a build has no network. Raises SandboxError if the
    image is missing or cannot be built.
    """
    on = _on(engine)
    if name:
        if pull and on.find_image(name) is None:
            progress(f"pulling {name}")
            on.pull_image(name)
        image = on.find_image(name)
        if image is None:
            raise SandboxError(
                f"the image {name} is not on this machine; load it, or add --pull", kind="image"
            )
        return str(image.id)
    assert folder is not None, "an image has a name or is built from a folder"
    tag = f"{BUILT}:{folder_hash(folder)[:24]}"
    with _building:
        image = on.find_image(tag)
        if image is None:
            _build(on, folder, tag, pull, timeout_sec, progress)
            image = on.find_image(tag)
    if image is None:
        raise SandboxError(
            f"{tag} was built but is missing; build it again, and check the disk", kind="image"
        )
    return str(image.id)


def _build(
    on: Engine,
    folder: Path,
    tag: str,
    pull: bool,
    timeout_sec: float,
    progress: Callable[[str], None],
) -> None:
    for parent in parents(folder / "Dockerfile"):
        if on.find_image(parent) is None:
            if not pull:
                raise SandboxError(
                    f"{folder}/Dockerfile builds on {parent}, which is not on this machine; "
                    "load it, or add --pull",
                    kind="image",
                )
            progress(f"pulling {parent}")
            on.pull_image(parent)
    progress(f"building {folder}")
    until, last = time.monotonic() + timeout_sec, ""
    with on.errors(f"cannot build {folder}"):
        progress_lines = on.api.build(
            path=str(folder),
            tag=tag,
            rm=True,
            forcerm=True,
            decode=True,
            network_mode=None if pull else "none",
            timeout=round(timeout_sec),
        )
        for line in progress_lines:
            last = str(line.get("stream") or "").strip() or last
            if "error" in line:
                raise SandboxError(
                    f"the image of {folder} cannot be built: {line['error']} (after: {last[:200]})",
                    kind="image",
                    hint="correct its Dockerfile; if the build needs a network, add --pull",
                )
            if time.monotonic() > until:
                raise SandboxError(
                    f"the image of {folder} was not built within {timeout_sec:g} s; build it "
                    "with `docker build` and give the task its name",
                    kind="image",
                )


def parents(dockerfile: Path) -> list[str]:
    """Returns the images that a Dockerfile's FROM lines name, without its own build stages."""
    stages: set[str] = {"scratch"}
    images: list[str] = []
    values: dict[str, str] = {}
    for line in dockerfile.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _ARG.match(line):
            values[match[1]] = match[2].strip("\"'")
        if match := _FROM.match(line):
            name = _USE.sub(
                lambda match_of_use: values.get(match_of_use[1], match_of_use[0]), match[1]
            )
            if name.lower() not in stages:
                images.append(name)
            if match[2]:
                stages.add(match[2].lower())
    return images


def folder_hash(folder: Path) -> str:
    """Returns the SHA-256 of all files in a folder: their paths, contents and executable bits."""
    listed = [
        [
            path.relative_to(folder).as_posix(),
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mode & 0o111,
        ]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
