"""The rows of `doctor` about sandboxes: engines of containers, their image, processes, services.

Each rests on a trial: a sandbox is started, and tries to reach a port of ours.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from meta_agent.core.config import RunConfig
from meta_agent.core.errors import MetaAgentError

if TYPE_CHECKING:
    from meta_agent.sandboxes import EngineStatus

Level = Literal["ok", "warn", "fail"]

_OLDEST_ENGINE: Final = (23, 0, 0)
_OLDEST_RUNC: Final = (1, 1, 12)  # those before it let a container out by a working directory
_REACH = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that a run needs of this machine: whether it is there, details, and a remedy."""

    name: str
    level: Level
    detail: str
    fix: str = ""


def sandbox_rows(config: RunConfig) -> Iterator[Row]:
    from meta_agent.sandboxes import EngineStatus, engine_status, is_service, recipe_hash

    if is_service(config.sandbox):
        yield _service(config.sandbox)
        return
    engine = engine_status()
    podman_chosen = config.sandbox == "podman"
    looks = podman_chosen or (not engine.ready and shutil.which("podman") is not None)
    podman = engine_status("podman") if looks else EngineStatus()
    instead = podman.ready and config.sandbox != "docker"
    needed = _needs_docker(config) and not instead
    missing: Level = "fail" if needed else "warn"
    risk = "accept the risk with --sandbox process --allow-unsafe"
    start = f"install and start Docker, or {risk if needed else 'use --sandbox process'}"
    if not engine.version:
        yield Row("docker engine", missing, engine.problem, engine.hint or start)
    else:
        yield _engine(engine)
        yield _image(engine.image, engine.image_id, engine.recipe == recipe_hash(), missing)
    if looks:
        yield _podman(podman, "fail" if podman_chosen else "warn")
    ready = engine.ready or instead
    yield _process_sandbox(required=config.sandbox == "process" or not ready)


def _engine(engine: EngineStatus) -> Row:
    """Returns the row of the Docker engine, which names versions that are too old to be safe."""
    parts = [f"Docker {engine.version}", f"runc {engine.runc or 'of unknown version'}"]
    summary = ", ".join([*parts, f"cgroup v{engine.cgroup}"])
    old = [part for part, oldest in zip(parts, (_OLDEST_ENGINE, _OLDEST_RUNC), strict=True)
           if (numbers := _numbers(part)) and numbers < oldest]  # fmt: skip
    fixes = [f"old: {', '.join(old)}; update it"] if old else []
    if engine.cgroup == "1":
        fixes.append("boot with cgroup v2: v1 counts the buffers of connections apart from memory")
    return Row("docker engine", "warn" if fixes else "ok", summary, "; ".join(fixes))


def _podman(engine: EngineStatus, missing: Level) -> Row:
    """Starts a podman container, because an engine that answers may still run none."""
    from meta_agent.core.protocols import SandboxLimits
    from meta_agent.sandboxes import open_sandbox

    if not engine.ready:
        return Row("podman", missing, engine.problem, engine.hint)
    try:
        open_sandbox("podman", run="doctor", limits=SandboxLimits(deadline_sec=60)).close()
    except MetaAgentError as error:
        return Row("podman", missing, str(error), error.hint or "podman info, as this user")
    summary = f"podman {engine.version}, storage {engine.driver}, cgroup v{engine.cgroup}"
    fixes = []
    if engine.unbounded:
        summary += f"; {', '.join(engine.unbounded)} not bounded in sum, only by process"
        fixes.append("cgroup v2 that is delegated to this user (systemd: Delegate=cpu memory pids)")
    if engine.driver == "vfs":
        fixes.append("vfs copies images: podman system reset; STORAGE_DRIVER=overlay podman load")
    return Row("podman", "warn" if fixes else "ok", summary, "; ".join(fixes))


def _service(backend: str) -> Row:
    """Starts a sandbox at the service, because nothing else shows that the login works."""
    from meta_agent.sandboxes import backend_fences

    try:
        promises = ", ".join(sorted(backend_fences(backend)))
        return Row("sandbox service", "ok", f"{backend} works; promises {promises}")
    except MetaAgentError as error:
        return Row("sandbox service", "fail", str(error), error.hint or "check the login")


def _numbers(text: str) -> tuple[int, ...]:
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def _needs_docker(config: RunConfig) -> bool:
    """Returns True if a process sandbox is too weak: a model writes code or works on real code."""
    by_llm = config.meta_model != "rules" or config.own_tasks
    unasked = config.sandbox == "auto" and by_llm and not config.allow_unsafe_process
    return unasked or config.sandbox == "docker"


def _image(name: str, image_id: str, current: bool, missing: Level) -> Row:
    build = "meta-agent sandbox build"
    if not image_id:
        return Row("docker image", missing, f"{name} is not built", build)
    if not current:
        return Row("docker image", "warn", f"{name} was built from another recipe", build)
    return Row("docker image", "ok", f"{name} {image_id.removeprefix('sha256:')[:12]}")


def _process_sandbox(*, required: bool) -> Row:
    """Starts a process sandbox and lets it try to reach this process over the loopback network."""
    try:
        reached, as_root = _tried_sandbox()
    except MetaAgentError as error:
        level: Level = "fail" if required else "warn"
        return Row("process sandbox", level, str(error), error.hint or "meta-agent sandbox build")
    if reached:
        fix = "use --sandbox docker for code that you do not trust"
        return Row("process sandbox", "warn", "works, but cannot cut off the network here", fix)
    if as_root:
        fix = "start it as another user than root: what a model writes is refused here"
        return Row("process sandbox", "warn", "works, but as root", fix)
    return Row("process sandbox", "ok", "works, without a network and not as root")


def _tried_sandbox() -> tuple[bool, bool]:
    """Returns whether code in a process sandbox reaches this process, and whether it is root."""
    from meta_agent.core.protocols import SandboxLimits
    from meta_agent.sandboxes import open_sandbox

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        sandbox = open_sandbox("process", run="doctor", limits=SandboxLimits(deadline_sec=60))
        try:
            done = sandbox.exec([sys.executable, "-c", _REACH, port], timeout_sec=20)
        finally:
            sandbox.close()
    return done.exit_code == 0, "unprivileged" not in sandbox.fences
