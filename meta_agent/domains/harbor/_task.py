"""A Harbor task folder: `task.toml` (schema 1.0 to 1.4), `instruction.md`, `environment/`,
`tests/`, `solution/`.

Promises: every field of `task.toml` is read, or is information about the task that decides nothing
(`[task]`, `[metadata]`, `source`), or is refused by its name; a folder that cannot be graded is
refused before anything starts.

Refused, because here they would mean something else than they say: several steps, MCP servers, GPUs
and TPUs, Windows, lists of allowed hosts, variables of the host without a default, compose files
that are more than one service.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Split
from meta_agent.sandboxes import BoxLimits

FILE: Final = "task.toml"
_VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])i?B?", re.IGNORECASE)
_MB: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
_NETWORK: Final = frozenset({"network_mode", "allowed_hosts"})
_ENVIRONMENT: Final = _NETWORK | {
    *("build_timeout_sec", "docker_image", "cpus", "memory_mb", "storage_mb", "memory", "storage"),
    *("gpus", "gpu_types", "tpu", "os", "allow_internet", "mcp_servers", "env", "skills_dir"),
    *("healthcheck", "workdir"),
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        {
            *("schema_version", "version", "source", "task", "metadata", "verifier", "agent"),
            *("environment", "solution", "artifacts", "steps", "multi_step_reward_strategy"),
            "multi_step_reward_mode",
        }
    ),
    "agent": _NETWORK | {"timeout_sec", "user"},
    "verifier": _NETWORK
    | {"timeout_sec", "env", "user", "environment_mode", "environment", "collect"},
    "environment": frozenset(_ENVIRONMENT),
    "verifier.environment": frozenset(_ENVIRONMENT),
    "solution": frozenset({"env"}),
}
_SERVICE: Final = frozenset({"build", "image", "environment", "working_dir", "command"})


@dataclass(frozen=True, slots=True)
class Place:
    """A container as a task describes it. `folder` is built where there is no `image`."""

    image: str | None
    folder: Path | None
    workdir: str | None
    env: Mapping[str, str]
    limits: BoxLimits
    build_sec: float
    healthcheck: Mapping[str, Any] | None
    upload: bool = False
    """Whether the folder's files go to the working directory: it has no Dockerfile."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What runs in a place: for how long, and as whom."""

    timeout_sec: float
    user: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Collected:
    """A command that makes files of a state after the agent's end."""

    command: str
    timeout_sec: float


@dataclass(frozen=True, slots=True)
class HarborTask:
    """One folder, read."""

    folder: Path
    key: str
    instruction: str
    place: Place
    own_place: Place | None
    """The verifier's own; None: it grades where the agent worked, in a container of its own."""
    agent: Phase
    verifier: Phase
    solution: Phase | None
    artifacts: tuple[str, ...]
    collect: tuple[Collected, ...]
    split: Split | None
    wants_network: bool

    @property
    def tests(self) -> Path:
        return self.folder / "tests"


class _Table:
    """One table of a `task.toml`; every complaint names file, table, field and value."""

    def __init__(self, path: Path, name: str, values: Mapping[str, Any]) -> None:
        self.path, self.name, self.values = path, name, values
        unknown = sorted(set(values) - _KNOWN[name]) if name in _KNOWN else []
        if unknown:
            raise self.error(unknown[0], "it is no field of Harbor's that is known here")

    def error(self, field: str, why: str) -> ConfigError:
        where = f"[{self.name}] {field}" if self.name else field
        value = f" = {self.values[field]!r:.60}" if field in self.values else ""
        return ConfigError(f"{self.path}: {where}{value}: {why}")

    def table(self, field: str, name: str = "") -> _Table:
        value = self.values.get(field, {})
        if not isinstance(value, dict):
            raise self.error(field, "expected a table")
        return _Table(self.path, name or field, value)

    def number(self, field: str, usual: float) -> float:
        value = self.values.get(field, usual)
        value = usual if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self.error(field, "expected a positive number")
        return float(value)

    def text(self, field: str) -> str | None:
        value = self.values.get(field)
        if value is not None and not isinstance(value, str | int):
            raise self.error(field, "expected a string")
        return None if value is None else str(value)

    def texts(self, field: str = "env") -> dict[str, str]:
        value = self.values.get(field) or {}
        if not isinstance(value, dict):
            raise self.error(field, "expected a table of strings")
        return {name: self._resolved(field, str(setting)) for name, setting in value.items()}

    def _resolved(self, field: str, value: str) -> str:
        def default(match: re.Match[str]) -> str:
            if match[2] is None:
                raise self.error(
                    field, f"it wants the host's variable {match[1]}, and none enters a container"
                )
            return match[2]

        return _VARIABLE.sub(default, value)

    def refuse(self, *fields: str) -> None:
        for field in fields:
            if self.values.get(field):
                raise self.error(field, "it is not supported here")


def read_task(folder: Path) -> HarborTask:
    """Reads a task folder; raises `ConfigError` where it cannot be run and graded as it says."""
    path = folder / FILE
    try:
        root = _Table(path, "", tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    version = str(root.values.get("schema_version", root.values.get("version", "1.0")))
    if version not in _VERSIONS:
        raise root.error("schema_version", f"expected one of {', '.join(_VERSIONS)}")
    root.refuse("steps")
    if not (folder / "tests" / "test.sh").is_file():
        raise ConfigError(f"{folder} has no tests/test.sh, so nothing can grade it")
    environment, verifier, agent = (root.table(n) for n in ("environment", "verifier", "agent"))
    place = _place(environment, folder / "environment", "environment")
    metadata = root.table("metadata").values
    return HarborTask(
        folder=folder,
        key=folder.name,
        instruction=_instruction(folder / "instruction.md"),
        place=place,
        own_place=_own_place(verifier, place, folder),
        agent=_phase(agent, 600.0),
        verifier=_phase(verifier, 600.0),
        solution=_solution(root, folder),
        artifacts=_artifacts(root),
        collect=_collect(verifier),
        split=metadata.get("split")
        if metadata.get("split") in ("train", "search", "confirm", "vault")
        else None,
        wants_network=_wants_network(environment, agent, verifier),
    )


def _instruction(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    while lines and (not lines[0].strip() or _is_canary(lines[0])):
        lines.pop(0)
    text = "\n".join(lines).strip()
    if not text:
        raise ConfigError(f"{path} is empty")
    return text


def _is_canary(line: str) -> bool:
    return line.lstrip().startswith(("<!--", "#")) and "canary" in line.lower()


def _place(table: _Table, folder: Path, name: str) -> Place:
    table.refuse("mcp_servers", "gpus", "gpu_types", "tpu")
    if str(table.values.get("os") or "linux").lower() != "linux":
        raise table.error("os", "only linux is supported here")
    compose = next((p for p in sorted(folder.glob("docker-compose.y*ml"))), None)
    image, built, workdir = table.text("docker_image"), folder, table.text("workdir")
    env = table.texts()
    if compose is not None:
        service = _only_service(compose)
        image = image or service.get("image")
        built = _build_folder(compose, service, folder)
        workdir = workdir or service.get("working_dir")
        env = {**_compose_env(service), **env}
    dockerfile = (built / "Dockerfile").is_file()
    if not image and not dockerfile:
        raise ConfigError(
            f"{folder}: neither a Dockerfile, nor [{name}] docker_image in {table.path.name}"
        )
    storage = table.text("storage")
    del storage  # disk is not bounded by the engine's storage drivers
    return Place(
        image=image,
        folder=built if dockerfile else None,
        workdir=workdir,
        env=env,
        limits=BoxLimits(memory_mb=_memory(table), cpus=table.number("cpus", 1)),
        build_sec=table.number("build_timeout_sec", 600.0),
        healthcheck=dict(table.table("healthcheck", "healthcheck").values) or None,
        upload=bool(image) and not dockerfile and compose is None and folder.is_dir(),
    )


def _memory(table: _Table) -> int:
    old = table.text("memory")
    if old is None:
        return int(table.number("memory_mb", 2048))
    match = _SIZE.fullmatch(old.strip())
    if not match:
        raise table.error("memory", 'expected a size such as "2G"')
    return max(16, int(float(match[1]) * _MB[match[2].upper()]))


def _only_service(compose: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(compose.read_text(encoding="utf-8"))
        services = dict(document["services"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot read {compose}: {error}") from error
    if len(services) != 1:
        raise ConfigError(
            f"{compose} has {len(services)} services ({', '.join(sorted(services))}): only one is "
            "supported here"
        )
    ((name, service),) = services.items()
    service = dict(service or {})
    other = sorted({*document} - {"services", "version", "name"}) + sorted({*service} - _SERVICE)
    if other:
        raise ConfigError(f"{compose}: {other[0]} of the service {name} is not supported here")
    return service


def _build_folder(compose: Path, service: Mapping[str, Any], folder: Path) -> Path:
    build = service.get("build")
    if build is None:
        return folder
    context = build.get("context", ".") if isinstance(build, dict) else build
    extra = sorted(set(build) - {"context", "dockerfile"}) if isinstance(build, dict) else []
    dockerfile = build.get("dockerfile", "Dockerfile") if isinstance(build, dict) else "Dockerfile"
    text = str(context).replace("${CONTEXT_DIR}", ".")
    if (
        extra
        or dockerfile != "Dockerfile"
        or not (folder / text).resolve().is_relative_to(folder.resolve())
    ):
        raise ConfigError(
            f"{compose}: build {build!r:.80}: only a folder below it with a Dockerfile is "
            "supported here"
        )
    return (folder / text).resolve()


def _compose_env(service: Mapping[str, Any]) -> dict[str, str]:
    value = service.get("environment") or {}
    if isinstance(value, list):
        value = dict(str(setting).partition("=")[::2] for setting in value)
    return {str(name): str(setting) for name, setting in value.items()}


def _own_place(verifier: _Table, place: Place, folder: Path) -> Place | None:
    mode = verifier.text("environment_mode") or "shared"
    declared = verifier.table("environment", "verifier.environment")
    if mode not in ("shared", "separate"):
        raise verifier.error("environment_mode", "expected shared or separate")
    if mode == "shared" and not declared.values:
        return None
    if not declared.values:
        return place
    tests = folder / "tests"
    if not declared.values.get("docker_image") and not (tests / "Dockerfile").is_file():
        own_table = _Table(
            declared.path,
            declared.name,
            {**declared.values, "docker_image": place.image},
        )
        return _place(own_table, folder / "environment", "verifier.environment")
    return _place(declared, tests, "verifier.environment")


def _phase(table: _Table, usual: float) -> Phase:
    env = table.texts() if "env" in _KNOWN.get(table.name, frozenset()) else {}
    return Phase(table.number("timeout_sec", usual), table.text("user") or "", env)


def _solution(root: _Table, folder: Path) -> Phase | None:
    table = root.table("solution")
    if not (folder / "solution" / "solve.sh").is_file():
        return None
    return Phase(0.0, "", table.texts())


def _artifacts(root: _Table) -> tuple[str, ...]:
    artifacts = []
    for entry in root.values.get("artifacts") or []:
        source = entry.get("source") if isinstance(entry, dict) else entry
        if not isinstance(source, str) or not source.startswith("/") or ".." in source:
            raise root.error("artifacts", "expected absolute paths")
        if isinstance(entry, dict) and (
            entry.get("service", "main") != "main" or entry.get("exclude")
        ):
            raise root.error("artifacts", "services and exclusions are not supported here")
        artifacts.append(source)
    return tuple(artifacts)


def _collect(verifier: _Table) -> tuple[Collected, ...]:
    hooks = []
    for hook in verifier.values.get("collect") or []:
        known_keys = {"command", "timeout_sec", "service"}
        usable = isinstance(hook, dict) and set(hook) <= known_keys and "command" in hook
        if not usable or hook.get("service", "main") != "main":
            raise verifier.error("collect", "expected commands of the service main")
        hooks.append(Collected(str(hook["command"]), float(hook.get("timeout_sec", 600.0))))
    return tuple(hooks)


def _wants_network(*tables: _Table) -> bool:
    names = []
    for table in tables:
        mode = table.values.get("network_mode")
        if mode not in (None, "public", "no-network", "allowlist"):
            raise table.error("network_mode", "expected public, no-network or allowlist")
        if mode == "allowlist" or table.values.get("allowed_hosts"):
            raise table.error(
                "allowed_hosts", "a list of allowed hosts cannot be held here, only none"
            )
        if table.name == "environment":
            usual = table.values.get("allow_internet", True) is not False
            names.append(usual if mode is None else mode == "public")
        elif mode is not None:
            names.append(mode == "public")
    return any(names)
