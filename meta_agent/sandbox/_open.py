"""Which backend, and a sandbox of it.

Promises: code that an LLM may have written runs in a container or not at all, unless someone asked
for less in so many words; `auto` says why it chose. Docker is imported only when it is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from meta_agent.errors import ConfigError, PreflightError, SandboxError
from meta_agent.protocols import SandboxLimits
from meta_agent.sandbox._names import BACKENDS, BASE_IMAGE, RECIPE_LABEL, Backend
from meta_agent.sandbox._worker_sandbox import WorkerSandbox

BUILD_COMMAND = "meta-agent sandbox build"


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What `doctor` shows about Docker. `problem` is empty when sandboxes can start."""

    version: str = ""
    image: str = BASE_IMAGE
    image_id: str = ""
    recipe: str = ""
    storage: Path | None = None
    free_bytes: int | None = None
    runc: str = ""
    cgroup: str = ""
    problem: str = ""
    hint: str = ""

    @property
    def ready(self) -> bool:
        """True when a sandbox can be started right now."""
        return not self.problem


def engine_status(image: str = BASE_IMAGE) -> EngineStatus:
    """Looks at the engine and the image; never raises for what a user can mend."""
    try:
        return _look(image)
    except SandboxError as error:
        return EngineStatus(image=image, problem=str(error), hint=error.hint or "")


def _look(image: str) -> EngineStatus:
    from meta_agent.sandbox import _engine

    facts = _engine.engine_facts()
    found = _engine.find_image(image)
    return EngineStatus(
        version=facts.version,
        image=image,
        image_id=found.id if found else "",
        recipe=found.labels.get(RECIPE_LABEL, "") if found else "",
        storage=facts.storage,
        free_bytes=facts.free_bytes,
        runc=facts.runc,
        cgroup=facts.cgroup,
        problem="" if found else f"image {image} is not on this machine",
        hint="" if found else BUILD_COMMAND,
    )


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """A backend and the reason for it, in one clause."""

    name: Backend
    reason: str


@cache
def process_is_unprivileged() -> bool:
    """Whether what runs in a process sandbox is not root; a root starts one to see."""
    if os.geteuid() != 0:
        return True
    with open_sandbox("process", run="preflight", limits=SandboxLimits(deadline_sec=60)) as tried:
        return "unprivileged" in tried.fences


def choose_backend(
    requested: str,
    *,
    code_by_llm: bool,
    allow_unsafe: bool = False,
    status: Callable[[], EngineStatus] = engine_status,
    unprivileged: Callable[[], bool] = process_is_unprivileged,
) -> BackendChoice:
    """Decides before anything starts; raises `PreflightError` with the next command."""
    if requested not in ("auto", *BACKENDS):
        raise ConfigError(f"--sandbox {requested!r}: choose auto, {' or '.join(BACKENDS)}")
    reason, hint = "asked for", BUILD_COMMAND
    if requested != "process":
        engine = status()
        if engine.ready:
            return BackendChoice("docker", f"Docker {engine.version} with {engine.image} is here")
        if requested == "docker":
            raise PreflightError(f"--sandbox docker: {engine.problem}", hint=engine.hint)
        reason, hint = engine.problem, engine.hint
    if code_by_llm and not allow_unsafe:
        raise PreflightError(
            f"code written by an LLM is not run in a plain process ({reason})",
            hint=f"{hint}; then --sandbox docker. To accept the risk: --allow-unsafe",
        )
    if code_by_llm and not unprivileged():
        raise PreflightError(
            "code written by an LLM never runs as root, and here a process sandbox has only that",
            hint=f"run as another user than root, or {hint}; then --sandbox docker",
        )
    return BackendChoice("process", reason)


def resolve_backend(requested: str, *, code_by_llm: bool, allow_unsafe: bool = False) -> Backend:
    """`choose_backend` for callers that need no reason."""
    return choose_backend(requested, code_by_llm=code_by_llm, allow_unsafe=allow_unsafe).name


def open_sandbox(
    backend: str, *, run: str, limits: SandboxLimits | None = None, image: str | None = None
) -> WorkerSandbox:
    """Starts a sandbox. `run` labels it; `image` (docker) is a local name or ID, or `base`."""
    limits = limits or SandboxLimits()
    check_run_name(run)
    if backend == "process":
        from meta_agent.sandbox._process import open_process

        return open_process(limits)
    if backend == "docker":
        from meta_agent.sandbox._docker import open_docker

        return open_docker(run, limits, None if image == "base" else image)
    raise ConfigError(f"no sandbox backend {backend!r}: choose {' or '.join(BACKENDS)}")


def check_run_name(run: str) -> None:
    """A run's name becomes part of a container's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", run):
        raise ConfigError(f"run name {run!r}: letters, digits, _ . - and at most 64 characters")
