"""Docker, and podman through Docker's calls: the only file that talks to a container engine.

Promises: the engine's failures become `SandboxError`. Containers start by image id, and starting
one never pulls. Every fence in `fences` is requested, and an engine that warns that it dropped one
is refused. Podman drops limits without a warning if an ordinary user has no control group; then
they are not requested, and `Engine.bounds` does not name them. Does not cover: whether runc itself
holds. An engine is a strong fence, not a wall.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import docker  # noqa: TID251
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound  # noqa: TID251
from docker.utils import parse_host  # noqa: TID251

from meta_agent.core.errors import SandboxError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes._names import BUILD_COMMAND, TITLES, short_name, whole_id
from meta_agent.sandboxes._seccomp import seccomp_profile
from meta_agent.sandboxes._services import check_listens, file_with, podman_address, unwrap_socket

USER = "10001:10001"  # of images that we make, for whoever runs them without us
TRUSTED = "0:0"  # init, the watchdog and the worker
ENGINE_TIMEOUT_SEC = 60
FILES_A_MB = 512  # of scratch space: twice what fits if each holds a byte
TCP_PART = 4  # of the memory limit, for the buffers of loopback connections
ENGINE_HINTS: Final[dict[str, str]] = {
    "docker": "install and start Docker",
    "podman": "fix what `podman info` complains of",
}
IMAGE_HINTS: Final[dict[str, str]] = {
    "docker": f"run {BUILD_COMMAND}",
    "podman": f"run podman load -i FILE, a tar of `podman save` from where {BUILD_COMMAND} ran",
}
EVERY_BOUND: Final = frozenset({"memory", "pids", "cpu"})
_CONFLICT: Final = 409
_INTERNAL: Final = 500
_DOCKERS_STRANGERS: Final = range(1 << 20, 1 << 21)
_PODMANS_FIRST_STRANGER: Final = 1 << 14  # above the users that images have
_LEAST_MAPPED: Final = 1 << 15
_NATIVE: Final = "/v4.0.0/libpod/info"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """A container engine's version, disk and control groups, as `meta-agent doctor` shows them."""

    version: str
    storage: Path
    free_bytes: int | None  # None: the engine's disk is not this machine's
    runc: str = ""
    cgroup: str = ""  # "1" or "2"
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """A container image on this machine. Containers are started by its id."""

    id: str
    labels: Mapping[str, str]
    volumes: tuple[str, ...]


class Engine:
    """A client of the engine `docker` or `podman`. Its methods raise SandboxError if it fails."""

    def __init__(self, name: str) -> None:
        self.name = name

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns the Docker SDK's exceptions in a `with` block into SandboxError.

        `doing` begins the error's message, as in "cannot start a container".
        """
        try:
            yield
        except ImageNotFound as error:
            hint = IMAGE_HINTS[self.name]
            raise SandboxError(f"{doing}: {error}", kind="image", hint=hint) from error
        except (DockerException, requests.RequestException, OSError) as error:
            hint = ENGINE_HINTS[self.name]
            raise SandboxError(f"{doing}: {error}", kind="engine", hint=hint) from error

    @cached_property
    def api(self) -> Any:
        """Returns the Docker SDK's client of the engine. Raises SandboxError without an answer."""
        with self.errors(f"cannot reach the {TITLES[self.name]} engine"):
            sizes: dict[str, Any] = {"timeout": ENGINE_TIMEOUT_SEC, "max_pool_size": 32}
            if self.name == "docker":
                check_listens(str(parse_host(os.environ.get("DOCKER_HOST"))))
                return docker.from_env(**sizes).api
            address = podman_address()
            check_listens(str(parse_host(address)))
            return docker.DockerClient(base_url=address, **sizes).api

    @cached_property
    def _native(self) -> dict[str, Any]:
        """Returns podman's own description of its host."""
        with self.errors("cannot ask podman"):
            reply = self.api.get(f"{self.api.base_url}{_NATIVE}")
            reply.raise_for_status()
            return dict(reply.json()["host"])

    @cached_property
    def bounds(self) -> frozenset[str]:
        """Returns which of `memory`, `pids` and `cpu` the engine can limit for a container."""
        if self.name == "docker" or not self._native["security"]["rootless"]:
            return EVERY_BOUND
        if self._native["cgroupVersion"] != "v2":
            return frozenset()
        return EVERY_BOUND & set(self._native.get("cgroupControllers") or ())

    @cached_property
    def _groups_v2(self) -> bool:
        with self.errors(f"cannot reach the {TITLES[self.name]} engine"):
            return str(self.api.info().get("CgroupVersion") or "1").endswith("2")

    @cached_property
    def strangers(self) -> range:
        """Returns the user ids, as seen inside a container, that untrusted code may get.

        Raises SandboxError if podman has too few user ids.
        """
        if self.name == "docker" or not self._native["security"]["rootless"]:
            return _DOCKERS_STRANGERS
        maps = self._native["idMappings"]
        mapped = min(sum(row["size"] for row in maps[kind]) for kind in ("uidmap", "gidmap"))
        if mapped < _LEAST_MAPPED:
            raise SandboxError(
                f"podman may use {mapped} user ids here, but each sandbox needs two of its own",
                kind="engine",
                hint="as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "
                "USER, and install uidmap; then podman system migrate",
            )
        return range(_PODMANS_FIRST_STRANGER, mapped)

    def seccomp(self, *, tracing: bool) -> list[str]:
        """Returns the engine's options that limit system calls; `tracing` allows ptrace."""
        profile = seccomp_profile(tracing=tracing)
        if not profile:
            return []
        return [f"seccomp={profile if self.name == 'docker' else file_with(profile)}"]

    def facts(self) -> EngineFacts:
        """Returns the engine's version, disk and control groups.

        Raises SandboxError of kind `engine` if the engine does not answer.
        """
        with self.errors(f"cannot reach the {TITLES[self.name]} engine"):
            facts = self.api.info()
        storage = Path(facts["DockerRootDir"])
        free = None
        with contextlib.suppress(OSError):
            if facts.get("Name") == socket.gethostname():  # else a path of another machine
                free = shutil.disk_usage(storage).free
        return EngineFacts(
            str(facts["ServerVersion"]),
            storage,
            free,
            runc=str((facts.get("RuncCommit") or {}).get("ID") or ""),
            cgroup=str(facts.get("CgroupVersion") or "1"),
            driver=str(facts.get("Driver") or ""),
        )

    def bound_tcp(self, container_id: str, memory_mb: int) -> bool:
        """Makes a container's TCP buffers count towards its memory limit of `memory_mb` MiB.

        Returns True if they count, as always under cgroups version 2. Version 1 needs root on the
        engine's machine.
        """
        if self._groups_v2:
            return True
        try:
            pid = self.api.inspect_container(container_id)["State"]["Pid"]
            groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
            (group,) = (row.split(":", 2)[2] for row in groups if row.split(":")[1] == "memory")
            if container_id not in group:  # the engine is elsewhere, and this is no process of it
                return False
            limit = Path(f"/sys/fs/cgroup/memory{group}/memory.kmem.tcp.limit_in_bytes")
            limit.write_text(str((memory_mb << 20) // TCP_PART), encoding="ascii")
        except (OSError, ValueError, IndexError, KeyError, DockerException):
            return False
        return True

    # --- images --------------------------------------------------------------------------------

    def find_image(self, name: str) -> Image | None:
        """Returns the local image with that name or id, or None. It asks no registry."""
        try:
            with self.errors(f"cannot look for image {name}"):
                details = self.api.inspect_image(name)
        except SandboxError as error:
            if error.kind == "image":
                return None
            raise
        config = details["Config"]
        return Image(details["Id"], config.get("Labels") or {}, tuple(config.get("Volumes") or ()))

    def import_image(self, archive: Path, name: str, labels: Mapping[str, str]) -> str:
        """Creates an image from a root file system's tar; returns the image's id."""
        repository, _, tag = name.partition(":")
        changes = ["WORKDIR /scratch", f"USER {USER}"]
        changes += [f"LABEL {key}={value}" for key, value in labels.items()]
        with self.errors(f"cannot import image {name}"):
            answer = self.api.import_image_from_file(
                str(archive), repository, tag=tag, changes=changes
            )
            self.api.tag(json.loads(answer)["status"], repository, tag)  # podman takes no tag above
        image = self.find_image(name)
        if image is None:
            raise SandboxError(
                f"the image {name} was imported but is missing; import it again", kind="image"
            )
        return image.id

    def load_image(self, archive: Path) -> None:
        """Loads an image from a tar that `docker save` wrote. Raises SandboxError if that fails."""
        with self.errors(f"cannot load {archive.name}"), archive.open("rb") as stream:
            for answer in self.api.load_image(stream):
                if "error" in answer:
                    raise SandboxError(
                        f"cannot load {archive.name}: {answer['error']}",
                        kind="image",
                        hint="save the image again with `docker save`",
                    )

    def pull_image(self, name: str) -> None:
        """Downloads an image from its registry. Raises SandboxError if that fails."""
        repository, _, tag = name.partition("@") if "@" in name else _tagged(name)
        with self.errors(f"cannot pull {name}"):
            for answer in self.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                if "error" in answer:
                    raise SandboxError(
                        f"cannot pull {name}: {answer['error']}",
                        kind="image",
                        hint="check the name and the network, or load the image from a tar",
                    )

    def derive_image(
        self, base_id: str, archive: Path, name: str, labels: Mapping[str, str]
    ) -> str:
        """Creates an image of `base_id` with the files of a tar on top; returns the image's id."""
        repository, _, tag = name.partition(":")
        with self.errors(f"cannot make image {name}"):
            api = self.api
            container = api.create_container(base_id, command=["true"], entrypoint=[])
            try:
                with archive.open("rb") as stream:
                    api.put_archive(container["Id"], "/", stream)
                changes = [f"LABEL {key}={value}" for key, value in labels.items()]
                done = api.commit(container["Id"], repository, tag=tag or None, changes=changes)
            finally:
                api.remove_container(container["Id"], v=True, force=True)
        return whole_id(str(done["Id"]))

    def labelled_images(self, label: str) -> list[tuple[str, str]]:
        """Returns the id and name of each local image that carries a label."""
        with self.errors("cannot list images"):
            rows = self.api.images(filters={"label": label})
        return [(row["Id"], short_name((row["RepoTags"] or [row["Id"]])[0])) for row in rows]

    def remove_image(self, image_id: str) -> bool:
        """Removes an image. Returns False if a container still uses it."""
        with self.errors(f"cannot remove image {image_id[:19]}"), contextlib.suppress(NotFound):
            try:
                self.api.remove_image(image_id)
            except APIError as error:
                if error.status_code != _CONFLICT:
                    raise
                return False
        return True

    def owned_containers(self, owner: str) -> list[tuple[str, str, dict[str, str]]]:
        """Returns id, name and labels of each container that the installation `owner` started."""
        with self.errors("cannot list containers"):
            rows = self.api.containers(all=True, filters={"label": f"ma.owner={owner}"})
        return [(row["Id"], row["Names"][0].lstrip("/"), row["Labels"]) for row in rows]

    def remove_container(self, container_id: str) -> None:
        """Kills and removes a container; does nothing if it is gone or being removed."""
        with (
            self.errors(f"cannot remove container {container_id[:12]}"),
            contextlib.suppress(NotFound),
        ):
            try:
                self.api.remove_container(container_id, v=True, force=True)
            except APIError as error:
                if error.status_code == _INTERNAL:  # podman, where it was just ending by itself
                    time.sleep(0.5)
                    self.api.remove_container(container_id, v=True, force=True)
                elif error.status_code != _CONFLICT:  # by force there is no other conflict
                    raise


@lru_cache
def engine(name: str) -> Engine:
    """Returns this process's client of the engine `docker` or `podman`."""
    return Engine(name)


def _tagged(name: str) -> tuple[str, str, str]:
    """Splits an image name into repository, colon and tag. A port's colon is no tag's."""
    head, colon, tag = name.rpartition(":")
    return (head, colon, tag) if colon and "/" not in tag else (name, "", "")


def fences(limits: SandboxLimits, stranger: int, on: Engine) -> dict[str, Any]:
    """Returns the engine's configuration of a sandbox container: limits, mounts and rights.

    Untrusted code runs as the user id `stranger`, without any capability. The container's own
    program can only become that user and kill its processes. Under podman it can also give
    folders away, and folders without a size limit are replaced by limited ones.
    """
    ours = "rw,nosuid,nodev"
    place = f"exec,mode=0755,size={limits.scratch_mb}m"
    files, others = "", {}
    if on.name == "docker":
        place += f",uid={stranger},gid={stranger},nr_inodes={limits.scratch_mb * FILES_A_MB}"
        files = ",nr_inodes=16k"
    else:
        others = dict.fromkeys(("/run", "/var/tmp"), f"{ours},noexec,mode=0755,size=1m")
    return {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {
            "/scratch": f"{ours},{place}",
            "/tmp": f"{ours},noexec,mode=1777,size=64m{files}",
            **others,
        },
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "SETPCAP", "KILL", *["CHOWN"] * (on.name == "podman")],
        "security_opt": ["no-new-privileges:true", *on.seccomp(tracing=False)],
        "ulimits": [
            {"Name": "nofile", "Soft": 1024, "Hard": 1024},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "shm_size": 64 << 20,
        "ipc_mode": "private",
        "init": True,
        "log_config": {"Type": "none", "Config": {}},
        **bounded(limits.memory_mb, limits.cpus, limits.pids, on),
    }


def bounded(memory_mb: int, cpus: float, pids: int, on: Engine) -> dict[str, Any]:
    """Returns the engine's settings that limit a container's memory, processors and processes."""
    memory = memory_mb << 20
    by_bound = {
        "memory": {"mem_limit": memory, "memswap_limit": memory},  # equal: no swap on top
        "cpu": {"nano_cpus": int(cpus * 1e9)},
        "pids": {"pids_limit": pids},
    }
    return {name: value for bound in on.bounds for name, value in by_bound[bound].items()}


def command(program: str, limits: SandboxLimits) -> list[str]:
    """Returns the command that runs Python source in a container and kills it at its deadline."""
    deadline = f"{limits.deadline_sec:g}"
    return ["timeout", "-s", "KILL", deadline, "python3", "-s", "-u", "-c", program]


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The settings of one sandbox container, such as its image, name, labels and limits."""

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
    """A sandbox's container from creation to removal, with a socket to the program in it."""

    def __init__(self, on: Engine, plan: ContainerPlan) -> None:
        self._on, self._api, self._plan = on, on.api, plan
        with on.errors("cannot create a sandbox container"):
            self.id = self._create()
        try:
            with on.errors("cannot start a sandbox container"):
                self.socket = self._attach()
                self._api.start(self.id)
                self.bounds_tcp = on.bound_tcp(self.id, plan.limits.memory_mb)
        except BaseException:
            self.remove()
            raise

    def _create(self) -> str:
        container = self._api.create_container(
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
        self._refuse_warnings(container)
        return str(container["Id"])

    def _host_config(self) -> dict[str, Any]:
        config: dict[str, Any] = self._api.create_host_config(
            **fences(self._plan.limits, self._plan.stranger, self._on)
        )
        return config

    def _refuse_warnings(self, container: Mapping[str, Any]) -> None:
        """Raises SandboxError if the engine warned that the kernel cannot enforce a limit."""
        if warnings := container.get("Warnings"):
            with contextlib.suppress(DockerException):
                self._api.remove_container(container["Id"], force=True)
            raise SandboxError(
                f"the container engine cannot enforce a limit of the sandbox: {warnings}; enable "
                "it in the kernel, or use --sandbox process",
                kind="engine",
            )

    def _attach(self) -> socket.socket:
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        raw = self._api.attach_socket(self.id, params=params)
        return unwrap_socket(raw)

    def remove(self) -> None:
        """Kills and removes the container and its volumes; does nothing if it is gone."""
        with contextlib.suppress(NotFound), self._on.errors("cannot remove a sandbox container"):
            with contextlib.suppress(APIError):
                self._api.kill(self.id)
            self._api.remove_container(self.id, v=True, force=True)

    def state(self) -> dict[str, Any]:
        """Returns the engine's report on the container once it stopped, or after two seconds."""
        with self._on.errors("cannot inspect a sandbox container"):
            for _ in range(40):
                state: dict[str, Any] = self._api.inspect_container(self.id)["State"]
                if not state["Running"]:
                    break
                time.sleep(0.05)
        return state
