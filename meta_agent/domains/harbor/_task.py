"""Reads a Harbor task folder: `task.toml` (schema 1.0 to 1.4), instruction, environment, tests.

Promises: every field of `task.toml` is read, or is information about the task that decides nothing
(`[task]`, `[metadata]`, `source`), or is refused by its name. A folder that cannot be graded is
refused before anything starts.

Refused, because here they would mean something else than they say: several steps, MCP servers, GPUs
and TPUs, Windows, lists of allowed hosts, variables of the host without a default, compose files.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.formats.rows import hashed_split
from meta_agent.sandboxes import BoxLimits

FILE: Final = "task.toml"
_Version = Literal["1.0", "1.1", "1.2", "1.3", "1.4"]
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])i?B?\s*", re.IGNORECASE)
_MB: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class Place:
    """A container that a task declares. Without an `image`, one is built from `folder`."""

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
class HarborTask:
    """A Harbor task as read from its folder: instruction, containers, limits, split."""

    folder: Path
    key: str
    instruction: str
    place: Place
    own_place: Place | None
    """The verifier's own; None: it grades where the agent worked, in a container of its own."""
    agent: Agent
    verifier: Verifier
    solution: Solution | None
    artifacts: tuple[str, ...]
    split: Split
    split_is_stated: bool
    wants_network: bool

    @property
    def tests(self) -> Path:
        return self.folder / "tests"


# --- the tables of a task.toml -----------------------------------------------------------------


def _refuse(value: object) -> object:
    if value:
        raise ValueError("this setting is not supported; remove it")
    return value


def _resolved(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError('expected a table of strings, such as {NAME = "value"}')
    return {name: _VARIABLE.sub(_default, str(setting)) for name, setting in value.items()}


def _default(match: re.Match[str]) -> str:
    if match[2] is None:
        raise ValueError(
            f"no container gets the host's variable {match[1]}; give a default: ${{NAME:-VALUE}}"
        )
    return match[2]


def _linux(value: object) -> object:
    if str(value or "linux").lower() != "linux":
        raise ValueError("only linux is supported")
    return value


def _megabytes(value: object) -> object:
    match = _SIZE.fullmatch(str(value))
    if not match:
        raise ValueError('expected a size such as "2G"')
    return max(16.0, float(match[1]) * _MB[match[2].upper()])


def _version(value: object) -> object:
    if str(value) not in get_args(_Version):
        raise ValueError(f"expected one of {', '.join(get_args(_Version))}")
    return value


def _sources(value: object) -> object:
    sources = []
    for entry in value if isinstance(value, list) else [value]:
        source = entry.get("source") if isinstance(entry, dict) else entry
        if not isinstance(source, str) or not source.startswith("/") or ".." in source:
            raise ValueError('expected a list of absolute paths, such as ["/app/out.txt"]')
        if isinstance(entry, dict) and (
            entry.get("service", "main") != "main" or entry.get("exclude")
        ):
            raise ValueError("services and exclusions are not supported; remove them")
        sources.append(source)
    return tuple(sources)


_Positive = Annotated[float, Field(gt=0, strict=True)]
_Text = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
_Env = Annotated[dict[str, str], BeforeValidator(_resolved)]
_Absent = Annotated[Any, AfterValidator(_refuse)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Networked(_Table):
    network_mode: Literal["public", "no-network"] | None = None
    allowed_hosts: _Absent = None


class Agent(_Networked):
    """The table [agent] of a task.toml: the agent's time limit in seconds, and its user."""

    timeout_sec: _Positive = 600.0
    user: _Text = ""


class Environment(_Networked):
    """The table [environment] of a task.toml: a container's image, limits and variables."""

    build_timeout_sec: _Positive = 600.0
    docker_image: _Text | None = None
    cpus: _Positive = 1.0
    memory_mb: _Positive = 2048.0
    memory: Annotated[float, BeforeValidator(_megabytes)] | None = None
    storage_mb: Any = None  # the engine's storage drivers bound no disk
    storage: Any = None
    gpus: _Absent = None
    gpu_types: _Absent = None
    tpu: _Absent = None
    mcp_servers: _Absent = None
    os: Annotated[Any, AfterValidator(_linux)] = None
    allow_internet: Any = True
    env: _Env = {}
    skills_dir: Any = None
    healthcheck: dict[str, Any] = {}
    workdir: _Text | None = None


class Collected(_Table):
    """A command that saves state as files for the verifier, after the agent has ended."""

    command: str
    timeout_sec: _Positive = 600.0
    service: Literal["main"] = "main"


class Verifier(_Networked):
    """The table [verifier] of a task.toml: the grader's time limit, user and environment."""

    timeout_sec: _Positive = 600.0
    env: _Env = {}
    user: _Text = ""
    environment_mode: Literal["shared", "separate"] = "shared"
    environment: Environment | None = None
    collect: tuple[Collected, ...] = ()


class Solution(_Table):
    """The table [solution] of a task.toml: the variables of the reference solution."""

    env: _Env = {}


class _Root(_Table):
    schema_version: Annotated[Any, AfterValidator(_version)] = "1.0"
    version: Annotated[Any, AfterValidator(_version)] = "1.0"
    source: Any = None
    task: Any = None
    metadata: dict[str, Any] = {}
    verifier: Verifier = Verifier()
    agent: Agent = Agent()
    environment: Environment = Environment()
    solution: Solution = Solution()
    artifacts: Annotated[tuple[str, ...], BeforeValidator(_sources)] = ()
    steps: _Absent = None
    multi_step_reward_strategy: Any = None
    multi_step_reward_mode: Any = None


def read_task(folder: Path) -> HarborTask:
    """Reads a task folder. Raises ConfigError if it asks for something that is not supported."""
    root = _read_root(folder / FILE)
    if not (folder / "tests" / "test.sh").is_file():
        raise ConfigError(
            f"the task {folder} has no tests/test.sh, so it cannot be graded",
            hint="add tests/test.sh, which writes the reward to /logs/verifier/reward.txt",
        )
    place = _place(root.environment, folder / "environment", "environment")
    stated = next((split for split in SPLITS if root.metadata.get("split") == split), None)
    by_name = hashed_split(hashlib.sha256(folder.name.encode()).hexdigest())
    return HarborTask(
        folder=folder,
        key=folder.name,
        instruction=_instruction(folder / "instruction.md"),
        place=place,
        own_place=_own_place(root.verifier, place, folder),
        agent=root.agent,
        verifier=root.verifier,
        solution=root.solution if (folder / "solution" / "solve.sh").is_file() else None,
        artifacts=root.artifacts,
        split=stated or by_name,
        split_is_stated=stated is not None,
        wants_network=_wants_network(root),
    )


def _read_root(path: Path) -> _Root:
    try:
        return _Root.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; correct the file") from error
    except ValidationError as error:
        problem = error.errors()[0]
        *tables, field = map(str, problem["loc"])
        where = f"[{'.'.join(tables)}] {field}" if tables else field
        why = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            why = "this field is not known; remove it"
        raise ConfigError(f"{path}: {where} = {problem['input']!r:.60}: {why}") from error


def _wants_network(root: _Root) -> bool:
    modes = [table.network_mode for table in (root.environment, root.agent, root.verifier)]
    usual = root.environment.allow_internet is not False and modes[0] is None
    return usual or "public" in modes


def _instruction(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; a task needs it as UTF-8") from error
    while lines and (not lines[0].strip() or _is_canary(lines[0])):
        lines.pop(0)
    text = "\n".join(lines).strip()
    if not text:
        raise ConfigError(f"the instruction {path} is empty; write what the agent should do")
    return text


def _is_canary(line: str) -> bool:
    return line.lstrip().startswith(("<!--", "#")) and "canary" in line.lower()


# --- where agent and verifier work -------------------------------------------------------------


def _place(table: Environment, folder: Path, name: str) -> Place:
    if composed := sorted(folder.glob("docker-compose.y*ml")):
        raise ConfigError(
            f"docker compose is not supported: {composed[0]}",
            hint=f"write a Dockerfile beside it, and the service's settings in [{name}] of {FILE}",
        )
    dockerfile = (folder / "Dockerfile").is_file()
    if not table.docker_image and not dockerfile:
        raise ConfigError(f"{folder} needs a Dockerfile, or {FILE} a docker_image in [{name}]")
    memory_mb = table.memory_mb if table.memory is None else table.memory
    return Place(
        image=table.docker_image,
        folder=folder if dockerfile else None,
        workdir=table.workdir,
        env=table.env,
        limits=BoxLimits(memory_mb=int(memory_mb), cpus=table.cpus),
        build_sec=table.build_timeout_sec,
        healthcheck=table.healthcheck or None,
        upload=bool(table.docker_image) and not dockerfile and folder.is_dir(),
    )


def _own_place(verifier: Verifier, place: Place, folder: Path) -> Place | None:
    declared, tests = verifier.environment, folder / "tests"
    if declared is None or not declared.model_fields_set:
        return place if verifier.environment_mode == "separate" else None
    if not declared.docker_image and not (tests / "Dockerfile").is_file():
        declared = declared.model_copy(update={"docker_image": place.image})
        return _place(declared, folder / "environment", "verifier.environment")
    return _place(declared, tests, "verifier.environment")
