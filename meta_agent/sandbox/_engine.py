"""Docker: the only file that talks to the engine.

Promises: the engine's failures become `SandboxError`; containers start by image ID, and starting
one never pulls; every fence in `fences` is asked for, and an engine that warns that it dropped one
is refused. Does not cover: whether runc itself holds. Docker is a strong fence, not a wall.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import docker  # noqa: TID251
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound  # noqa: TID251

from meta_agent.errors import SandboxError
from meta_agent.protocols import SandboxLimits
from meta_agent.sandbox._seccomp import seccomp_options

USER = "10001:10001"  # of images that we make, for whoever runs them without us
TRUSTED = "0:0"  # init, the watchdog and the worker
ENGINE_TIMEOUT_SEC = 60
TCP_PART = 4  # of the memory limit, for the buffers of loopback connections
BUILD_HINT = "meta-agent sandbox build"
ENGINE_HINT = "start Docker, or use --sandbox process"


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns what the SDK raises into the project's own error."""
    try:
        yield
    except ImageNotFound as error:
        raise SandboxError(f"{doing}: {error}", kind="image", hint=BUILD_HINT) from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"{doing}: {error}", kind="engine", hint=ENGINE_HINT) from error


_CONFLICT = 409


@lru_cache(maxsize=1)
def _client() -> Any:
    return docker.from_env(timeout=ENGINE_TIMEOUT_SEC, max_pool_size=32)


def client() -> Any:
    """The low-level API client; connects on first use."""
    with engine_errors("cannot reach the Docker engine"):
        return _client().api


@dataclass(frozen=True, slots=True)
class Engine:
    """What `doctor` wants to know."""

    version: str
    storage: Path
    free_bytes: int | None  # None: the engine's disk is not this machine's
    runc: str = ""
    cgroup: str = ""  # "1" or "2"


def engine_facts() -> Engine:
    """Raises `SandboxError(kind="engine")` when there is none."""
    with engine_errors("cannot reach the Docker engine"):
        info = client().info()
    storage = Path(info["DockerRootDir"])
    free = None
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(storage).free
    return Engine(
        str(info["ServerVersion"]),
        storage,
        free,
        runc=str((info.get("RuncCommit") or {}).get("ID") or ""),
        cgroup=str(info.get("CgroupVersion") or "1"),
    )


def bound_tcp(container_id: str, memory_mb: int) -> bool:
    """Whether the buffers of a container's connections count towards its memory.

    Version 1 of control groups counts them apart, and runc no longer sets that limit. So it is set
    here, which takes root; where it cannot be, the buffers are bounded by nothing.
    """
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return True
    try:
        pid = client().inspect_container(container_id)["State"]["Pid"]
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
        (group,) = (row.split(":", 2)[2] for row in groups if row.split(":")[1] == "memory")
        limit = Path(f"/sys/fs/cgroup/memory{group}/memory.kmem.tcp.limit_in_bytes")
        limit.write_text(str((memory_mb << 20) // TCP_PART), encoding="ascii")
    except (OSError, ValueError, IndexError, KeyError, DockerException):
        return False
    return group != "/"


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here: its ID is what containers run."""

    id: str
    labels: Mapping[str, str]
    volumes: tuple[str, ...]


def find_image(name: str) -> Image | None:
    """The local image of that name or ID, or None. Never pulls."""
    try:
        with engine_errors(f"cannot look for image {name}"):
            found = client().inspect_image(name)
    except SandboxError as error:
        if error.kind == "image":
            return None
        raise
    config = found["Config"]
    return Image(found["Id"], config.get("Labels") or {}, tuple(config.get("Volumes") or ()))


def import_image(archive: Path, name: str, labels: Mapping[str, str]) -> str:
    """Makes an image of a root file system and returns its ID."""
    repository, _, tag = name.partition(":")
    changes = ["WORKDIR /scratch", f"USER {USER}"]
    changes += [f"LABEL {key}={value}" for key, value in labels.items()]
    with engine_errors(f"cannot import image {name}"):
        client().import_image_from_file(str(archive), repository, tag=tag, changes=changes)
    image = find_image(name)
    if image is None:
        raise SandboxError(f"image {name} is missing right after its import", kind="image")
    return image.id


def load_image(archive: Path) -> None:
    """Loads what `docker save` wrote."""
    with engine_errors(f"cannot load {archive.name}"), archive.open("rb") as stream:
        for said in client().load_image(stream):
            if "error" in said:
                raise SandboxError(f"cannot load {archive.name}: {said['error']}", kind="image")


def pull_image(name: str) -> None:
    """Fetches an image from its registry. The only place that does, and only where asked to."""
    repository, _, tag = name.partition("@") if "@" in name else _tagged(name)
    with engine_errors(f"cannot pull {name}"):
        for said in client().pull(repository, tag=tag or "latest", stream=True, decode=True):
            if "error" in said:
                raise SandboxError(f"cannot pull {name}: {said['error']}", kind="image")


def _tagged(name: str) -> tuple[str, str, str]:
    """A colon before the last slash belongs to a registry's port."""
    head, colon, tag = name.rpartition(":")
    return (head, colon, tag) if colon and "/" not in tag else (name, "", "")


def derive_image(base_id: str, archive: Path, name: str, labels: Mapping[str, str]) -> str:
    """Makes an image of another and the files of a tar, starting nothing; returns its ID."""
    repository, _, tag = name.partition(":")
    with engine_errors(f"cannot make image {name}"):
        api = client()
        made = api.create_container(base_id, command=["true"], entrypoint=[])
        try:
            with archive.open("rb") as stream:
                api.put_archive(made["Id"], "/", stream)
            changes = [f"LABEL {key}={value}" for key, value in labels.items()]
            done = api.commit(made["Id"], repository, tag=tag or None, changes=changes)
        finally:
            api.remove_container(made["Id"], v=True, force=True)
    return str(done["Id"])


def fences(limits: SandboxLimits, stranger: int) -> dict[str, Any]:
    """The host configuration of every container, whole and in one place.

    The worker may become another user and end what that one runs, and do nothing else of what root
    can; whoever it becomes has no capability (`inside.processes.step_down`).
    """
    memory = limits.memory_mb << 20
    owner = f"uid={stranger},gid={stranger}"
    scratch = f"rw,nosuid,nodev,exec,mode=0755,{owner},size={limits.scratch_mb}m"
    return {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {
            "/scratch": scratch,
            "/tmp": "rw,nosuid,nodev,noexec,mode=1777,size=64m",
        },
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "SETPCAP", "KILL"],
        "security_opt": ["no-new-privileges:true", *seccomp_options(tracing=False)],
        "mem_limit": memory,
        "memswap_limit": memory,  # equal: no swap on top
        "nano_cpus": int(limits.cpus * 1e9),
        "pids_limit": limits.pids,
        "ulimits": [
            {"Name": "nofile", "Soft": 1024, "Hard": 1024},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "shm_size": 64 << 20,
        "ipc_mode": "private",
        "init": True,
        "log_config": {"Type": "none", "Config": {}},
    }


def command(program: str, limits: SandboxLimits) -> list[str]:
    """The container's command: it ends itself at its deadline, whatever becomes of the host."""
    deadline = f"{limits.deadline_sec:g}"
    return ["timeout", "-s", "KILL", deadline, "python3", "-s", "-u", "-c", program]


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """What makes one container differ from another."""

    image_id: str
    name: str
    program: str
    labels: Mapping[str, str]
    limits: SandboxLimits
    stranger: int


ENVIRONMENT = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Container:
    """One container from creation to removal, and the stream to its first process."""

    def __init__(self, plan: ContainerPlan) -> None:
        self._api, self._plan = client(), plan
        with engine_errors("cannot create a sandbox container"):
            self.id = self._create()
        try:
            with engine_errors("cannot start a sandbox container"):
                self.socket = self._attach()
                self._api.start(self.id)
                self.bounds_tcp = bound_tcp(self.id, plan.limits.memory_mb)
        except BaseException:
            self.remove()
            raise

    def _create(self) -> str:
        made = self._api.create_container(
            self._plan.image_id,
            command=command(self._plan.program, self._plan.limits),
            entrypoint=[],
            name=self._plan.name,
            user=TRUSTED,
            hostname="sandbox",
            working_dir="/scratch",
            environment=ENVIRONMENT,
            labels=dict(self._plan.labels),
            stdin_open=True,
            host_config=self._host_config(),
        )
        self._refuse_warnings(made)
        return str(made["Id"])

    def _host_config(self) -> dict[str, Any]:
        config: dict[str, Any] = self._api.create_host_config(
            **fences(self._plan.limits, self._plan.stranger)
        )
        return config

    def _refuse_warnings(self, made: Mapping[str, Any]) -> None:
        """The engine warns when the kernel lacks a limit and goes on without it: we do not."""
        if warnings := made.get("Warnings"):
            with contextlib.suppress(DockerException):
                self._api.remove_container(made["Id"], force=True)
            raise SandboxError(f"the engine cannot hold a limit: {warnings}", kind="engine")

    def _attach(self) -> socket.socket:
        wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        raw = self._api.attach_socket(self.id, params=wanted)
        return unwrap_socket(raw)

    def remove(self) -> None:
        """Kills and removes the container with its volumes; gone already is fine."""
        with contextlib.suppress(NotFound), engine_errors("cannot remove a sandbox container"):
            with contextlib.suppress(APIError):
                self._api.kill(self.id)
            self._api.remove_container(self.id, v=True, force=True)

    def state(self) -> dict[str, Any]:
        """The engine's view, once the container has stopped (or after two seconds)."""
        with engine_errors("cannot inspect a sandbox container"):
            for _ in range(40):
                state: dict[str, Any] = self._api.inspect_container(self.id)["State"]
                if not state["Running"]:
                    break
                time.sleep(0.05)
        return state


def unwrap_socket(raw: Any) -> socket.socket:
    """A plain socket of our own; the SDK's layers of wrappers are closed, not left to the GC."""
    found = getattr(raw, "_sock", raw)
    if not isinstance(found, socket.socket):
        raise SandboxError("only a local engine (unix socket) is supported", kind="engine")
    plain = found.dup()
    raw.close()
    found.close()
    return plain


def labelled_images(label: str) -> list[tuple[str, str]]:
    """(id, name) of the local images that carry a label."""
    with engine_errors("cannot list images"):
        rows = client().images(filters={"label": label})
    return [(row["Id"], (row["RepoTags"] or [row["Id"]])[0]) for row in rows]


def remove_image(image_id: str) -> bool:
    """Removes an image; False where a container still uses it."""
    with engine_errors(f"cannot remove image {image_id[:19]}"), contextlib.suppress(NotFound):
        try:
            client().remove_image(image_id)
        except APIError as error:
            if error.status_code != _CONFLICT:
                raise
            return False
    return True


def owned_containers(owner: str) -> list[tuple[str, str, dict[str, str]]]:
    """(id, name, labels) of all containers of one installation, running or not."""
    with engine_errors("cannot list containers"):
        rows = client().containers(all=True, filters={"label": f"ma.owner={owner}"})
    return [(row["Id"], row["Names"][0].lstrip("/"), row["Labels"]) for row in rows]


def remove_container(container_id: str) -> None:
    """Kills and removes; gone already, or being removed by another process, is fine."""
    with (
        engine_errors(f"cannot remove container {container_id[:12]}"),
        contextlib.suppress(NotFound),
    ):
        try:
            client().remove_container(container_id, v=True, force=True)
        except APIError as error:
            if error.status_code != _CONFLICT:  # by force there is no other conflict
                raise
