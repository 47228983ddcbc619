"""Chooses a sandbox backend and opens sandboxes.

Promises: code that an LLM may have written runs in a container, unless the user explicitly accepts
less. `auto` says why it chose. Docker is imported only when it is needed.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError, PreflightError, SandboxError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._names import (
    BACKENDS,
    BASE_IMAGE,
    BUILD_COMMAND,
    CONTAINERS,
    RECIPE_LABEL,
    SERVICE_PREFIX,
    TITLES,
)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The state of a container engine and its sandbox image, as `meta-agent doctor` shows it.

    If `problem` is empty, sandboxes can start.
    """

    version: str = ""
    image: str = BASE_IMAGE
    image_id: str = ""
    recipe: str = ""
    storage: Path | None = None
    free_bytes: int | None = None
    runc: str = ""
    cgroup: str = ""
    driver: str = ""
    unbounded: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""

    @property
    def ready(self) -> bool:
        """Returns True if the container engine can start a sandbox right now."""
        return not self.problem


def engine_status(name: str = "docker", *, image: str = BASE_IMAGE) -> EngineStatus:
    """Returns the state of an engine and an image. A failure is in the state, and never raised."""
    try:
        return _look(name, image)
    except SandboxError as error:
        return EngineStatus(image=image, problem=str(error), hint=error.hint or "")


def _look(name: str, image: str) -> EngineStatus:
    from meta_agent.sandboxes import _engine

    engine = _engine.engine(name)
    facts, image_here = engine.facts(), engine.find_image(image)
    if not engine.strangers:  # podman with too few user ids raises here
        raise SandboxError(f"{name} offers no user id for untrusted code", kind="engine")
    return EngineStatus(
        version=facts.version,
        image=image,
        image_id=image_here.id if image_here else "",
        recipe=image_here.labels.get(RECIPE_LABEL, "") if image_here else "",
        storage=facts.storage,
        free_bytes=facts.free_bytes,
        runc=facts.runc,
        cgroup=facts.cgroup,
        driver=facts.driver,
        unbounded=tuple(sorted(_engine.EVERY_BOUND - engine.bounds)),
        problem="" if image_here else f"image {image} is not on this machine",
        hint="" if image_here else _engine.IMAGE_HINTS[name],
    )


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The sandbox backend (`docker`, `podman`, `process` or a service) to use, and why."""

    name: str
    reason: str


NEEDED_AT_A_SERVICE: Final = frozenset({"network", "host", "processes", "peers", "unprivileged"})
"""The promises without which no code of a language model runs at a service."""


@cache
def backend_fences(backend: str) -> frozenset[str]:
    """Starts a sandbox of a backend and returns the names of the protections that it has."""
    limits = SandboxLimits(deadline_sec=60)
    with open_sandbox(backend, run="preflight", limits=limits) as sandbox:
        return sandbox.fences


def choose_backend(
    requested: str,
    *,
    code_by_llm: bool,
    allow_unsafe: bool = False,
    status: Callable[[str], EngineStatus] = engine_status,
    fences: Callable[[str], frozenset[str]] = backend_fences,
) -> BackendChoice:
    """Returns the sandbox backend to use, and why; for `requested` = `auto` the first usable one.

    Raises PreflightError, with a command as hint, if code that a language model may have written
    (`code_by_llm`) cannot run safely on this machine. Raises ConfigError for an unknown name.
    """
    if is_service(requested):
        return _choose_service(requested, code_by_llm, fences)
    if requested not in ("auto", *BACKENDS):
        raise ConfigError(
            f"there is no --sandbox {requested!r}: choose auto, {' or '.join(BACKENDS)}, or "
            f"{SERVICE_PREFIX}SERVICE"
        )
    looked: list[EngineStatus] = []
    for name in CONTAINERS:
        if requested in ("auto", name):
            looked.append(engine := status(name))
            if engine.ready:
                here = f"{TITLES[name]} {engine.version} with {engine.image} is here"
                return BackendChoice(name, here)
            if requested == name:
                raise PreflightError(f"--sandbox {name}: {engine.problem}", hint=engine.hint)
    reason = "; ".join(dict.fromkeys(engine.problem for engine in looked)) or "asked for"
    # An engine that runs and only lacks the image is the shorter way.
    looked.sort(key=lambda engine: not engine.version)
    hint = looked[0].hint if looked else f"run {BUILD_COMMAND}"
    if code_by_llm and not allow_unsafe:
        raise PreflightError(
            f"code that a language model may have written needs more than a process ({reason})",
            hint=f"{hint}; then --sandbox docker or podman. To accept the risk: --allow-unsafe",
        )
    if code_by_llm and "unprivileged" not in fences("process"):
        raise PreflightError(
            "code written by an LLM never runs as root, and a process sandbox has only root here",
            hint=f"run as another user than root, or {hint}; then --sandbox docker or podman",
        )
    if code_by_llm and "host" not in fences("process"):
        raise PreflightError(
            "code written by a language model could read this machine's files, because the "
            "kernel gives a process sandbox no root folder of its own",
            hint=f"allow user namespaces, or {hint}; then --sandbox docker or podman",
        )
    return BackendChoice("process", reason)


def is_service(backend: str) -> bool:
    """Returns True if a backend's name is that of a cloud service, such as `harbor:NAME`."""
    return backend.startswith(SERVICE_PREFIX)


def _choose_service(
    requested: str, code_by_llm: bool, fences: Callable[[str], frozenset[str]]
) -> BackendChoice:
    """Returns the service as the choice after a sandbox started there.

    Raises PreflightError if none starts, or if it keeps too little for code of a language model.
    """
    try:
        missing = NEEDED_AT_A_SERVICE - fences(requested)
    except SandboxError as error:
        raise PreflightError(f"--sandbox {requested}: {error}", hint=error.hint) from error
    if code_by_llm and missing:
        raise PreflightError(
            f"--sandbox {requested} lacks protections ({', '.join(sorted(missing))}), so code "
            "that a language model may have written is not run there",
            hint="give --sandbox docker, or a service that cuts off the network",
        )
    return BackendChoice(requested, "a sandbox started there")


def resolve_backend(requested: str, *, code_by_llm: bool, allow_unsafe: bool = False) -> str:
    """Returns the name of the sandbox backend to use. Raises PreflightError if none is safe."""
    return choose_backend(requested, code_by_llm=code_by_llm, allow_unsafe=allow_unsafe).name


def open_sandbox(
    backend: str, *, run: str, limits: SandboxLimits | None = None, image: str | None = None
) -> WorkerSandbox:
    """Starts a sandbox and returns it. The run's name `run` becomes part of a container's name.

    `image` is a local name or id, or `base`; the process backend has no image. Raises SandboxError
    if the sandbox does not start, and ConfigError if `backend` or `run` is not valid.
    """
    limits = limits or SandboxLimits()
    check_run_name(run)
    if backend == "process":
        from meta_agent.sandboxes._process import open_process

        return open_process(limits)
    if backend in CONTAINERS:
        from meta_agent.sandboxes._containers import open_container

        return open_container(backend, run, limits, None if image == "base" else image)
    if is_service(backend):
        from meta_agent.sandboxes._harbor import open_remote

        return open_remote(backend, run, limits, None if image == "base" else image)
    raise ConfigError(f"there is no sandbox backend {backend!r}; choose {' or '.join(BACKENDS)}")


def image_ids(backend: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the ids, by name, of those images that the backend `docker` or `podman` has locally.

    The result is empty for any other backend.
    """
    if backend not in CONTAINERS:
        return {}
    from meta_agent.sandboxes._engine import engine

    images = {name: engine(backend).find_image(name) for name in names}
    return {name: image.id for name, image in images.items() if image}


def held_image(backend: str, name: str, image_id: str) -> str:
    """Returns `image_id` if that image is local, else a sentence that says how to load `name`."""
    try:
        if image_ids(backend, [image_id]):
            return image_id
        amiss = "not"
    except SandboxError as error:
        amiss = f"not ({error})"
    bring = f"{backend} load --input FILE, of {backend} save --output FILE {name}"
    return f"{amiss} on {platform.node()} (bring it: {bring})"


def check_run_name(run: str) -> None:
    """Raises ConfigError if a run's name cannot be part of a container's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", run):
        raise ConfigError(f"run name {run!r}: use letters, digits, _ . - and at most 64 characters")
