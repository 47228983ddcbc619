"""All settings of a run, as the frozen `RunConfig` that the run stores.

`settings.py` finds the value of each.

Does not cover the API keys of model providers. Only `meta_agent.llm_clients` reads them, from the
variables that the providers document, and no `RunConfig` holds one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from meta_agent.core import registry
from meta_agent.core.durable import hash_of
from meta_agent.core.protocols import JSON, ROLES, Role
from meta_agent.core.setting_table import SETTINGS
from meta_agent.core.task_splits import Limits, pairs_of
from meta_agent.core.workspace import BUILT_IN_HARNESSES

_NOT_HASHED: Final = frozenset(
    {"role_max_usd", "role_max_tokens"}
    | {name for name, setting in SETTINGS.items() if not setting.changes_results}
)

# Settings that older stored runs lack. At these values they are left out of the hash, so that such
# a run keeps its name.
_YOUNGER: Final[Mapping[str, JSON]] = {
    "strategy": "full",
    "budget": None,
    "prove": None,
    "hand_over": None,
    "threshold": None,
    "map": {},
    "lora_rank": 0,
    "precision": "float32",
    "tokens_per_pass": None,
    "limits": {},
    "max_staleness": 0,
    "context_tokens": None,
    "train_gpus": 1,
}

ALL_ROLES: Final = "all"
"""A key of `base_urls` and `key_env`: it stands for every role without an entry."""

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")

BUILT_IN_SUITES: Final = ("swe", "math", "code")
"""Domains with built-in tasks for the nano policy."""
PRETRAINED_NAMES: Final = frozenset({"smollm2"})
"""Short names of policies: `smollm2` means `hf:smollm2`, a model of `policies/pretrained.py`."""
_DOMAIN: Final = re.compile(r"[A-Za-z][\w.-]*(:[\w./@-]+)?")
TRACKER_NAMES: Final = ("wandb", "mlflow", "trackio", "tensorboard")
GRADED: Final = "graded"
"""The domain of a user's grader."""
BROUGHT: Final = "brought"
"""Is in the hash of the settings for every harness that is not built in."""
SET_NAME: Final = re.compile(r"([A-Za-z][\w-]*)(?:([:=])(.+))?", re.DOTALL)
"""The name of a public task set: `gsm8k`, `gsm8k=PATH` or `reasoning-gym:GENERATOR`."""
_MODEL_FORMS: Final = "nano, hf:PATH, vllm:PATH or provider/model"
_ROLE_MODEL_FORMS: Final = "scripted:FILE, vllm:PATH or provider/model"
_PROCESSOR: Final = Path("/proc/cpuinfo")
_META_MODEL_FORMS: Final = (
    "rules, agent:claude, agent:codex, agent:COMMAND, replay:RUN, scripted:FILE, vllm:PATH or "
    "provider/model"
)


def _usual_precision(policy: str) -> Literal["float32", "bfloat16"]:
    """Returns bfloat16 for an `hf:` policy on a processor with instructions for it."""
    if not policy.startswith("hf:") or not _PROCESSOR.is_file():
        return "float32"
    flags = _PROCESSOR.read_text("utf-8", "replace")
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


def is_set_name(text: str) -> bool:
    """Returns True if a value of `--tasks` may name a public task set and is no existing path."""
    return bool(SET_NAME.fullmatch(text)) and not Path(text).exists()


def slug_of(domain: str) -> str:
    """Returns a domain's name, shortened to letters, digits and hyphens, for use in names."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", domain).strip("-")
    return words[-24:].strip("-") or "domain"


class RunConfig(BaseModel):
    """All settings of a run, immutable. `SETTINGS` says what each of them means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str = "swe"
    tasks: Path | None = None
    grade: Path | None = None
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    map: dict[str, str] = Field(default_factory=dict)
    python: str = sys.executable
    limits: Limits = Limits()
    generations: int = Field(default=3, ge=1, le=1000)
    candidates: int = Field(default=6, ge=1, le=64)
    strategy: str = "full"
    prove: Literal["harness", "version"] | None = None
    hand_over: Literal["proven", "best"] | None = None
    budget: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**31)
    train_steps: int = Field(default=30, ge=0, le=1_000_000)
    warmup: Path | None = None
    lora_rank: int = Field(default=0, ge=0, le=4096)
    tokens_per_pass: int | None = Field(default=None, ge=1, le=1 << 24)
    max_staleness: int = Field(default=0, ge=0, le=1)
    train_gpus: int = Field(default=1, ge=1, le=64)
    checkpoint_every: int = Field(default=5, ge=0, le=1_000_000)
    engines: int = Field(default=0, ge=0, le=64)
    gpus_per_engine: int = Field(default=1, ge=1, le=8)
    context_tokens: int | None = Field(default=None, ge=16, le=1 << 24)
    sandbox: str = "auto"
    workspace: Path = Path("meta-agent-workspace")
    skills: Path | None = None
    policy: str = "nano"
    precision: Literal["float32", "bfloat16"] = Field(
        default_factory=lambda settings: _usual_precision(settings.get("policy", ""))
    )
    meta_model: str = "rules"
    profile: Literal["default", "tiny"] = "default"
    harness: str = "seed"
    allow_unsafe_process: bool = False
    models: dict[Role, str] = Field(default_factory=dict)
    base_urls: dict[Role, str] = Field(default_factory=dict)
    key_env: dict[Role, str] = Field(default_factory=dict)
    max_usd: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    role_max_usd: dict[Role, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    role_max_tokens: dict[Role, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    samples: int = Field(default=2, ge=1, le=64)
    concurrency: int = Field(default=8, ge=1, le=512)
    approve: Literal["auto", "merge", "each", "all"] = "auto"
    replay_match: Literal["exact", "position"] = "exact"
    threads: int = Field(default=1, ge=1, le=256)
    jobs: int | None = Field(default=None, ge=1, le=256)

    executor: str = "local"

    log: str = ""
    notify: str | None = None

    origin: dict[str, str] = Field(default_factory=dict, repr=False)
    """The layer that each value came from, by field."""

    @model_validator(mode="before")
    @classmethod
    def _of_its_grader(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("grade") and "domain" not in values:
            return {**values, "domain": GRADED}
        return values

    @model_validator(mode="before")
    @classmethod
    def _by_policy(cls, values: Any) -> Any:
        """Fills in how a policy is trained that is expensive to train."""
        policy = str(values.get("policy")) if isinstance(values, dict) else ""
        if not (policy.startswith("hf:") or policy in PRETRAINED_NAMES):
            return values
        if str(values.get("train_steps")) != "0":
            values = {"strategy": "staged", **values}
        usual = {"lora_rank": 16, "threads": min(os.cpu_count() or 1, 16)}
        return usual | values if values.get("strategy") == "staged" else values

    @field_validator("domain")
    @classmethod
    def _known_form(cls, value: str) -> str:
        if not _DOMAIN.fullmatch(value):
            raise ValueError("expected a name, NAME:PACKAGE or package.module:Factory as domain")
        return value

    @field_validator("map", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return pairs_of(value)

    @field_validator("executor")
    @classmethod
    def _known_executor(cls, value: str) -> str:
        is_built_in = value == "local" or re.fullmatch(r"ray(:\S+)?", value)
        if not is_built_in and not _is_plugged(value, registry.EXECUTORS):
            raise ValueError("expected local, ray or ray:ADDRESS as the executor")
        return value

    @field_validator("log")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        names = [name.strip() for name in value.split(",") if name.strip()]
        plugged = registry.entry_points(registry.TRACKERS)
        if unknown := sorted({*names} - {*TRACKER_NAMES, *plugged}):
            raise ValueError(f"{unknown[0]} is not one of {', '.join(TRACKER_NAMES)}, the trackers")
        return ",".join(dict.fromkeys(names))

    @field_validator("notify")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value and (
            urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc
        ):
            raise ValueError("expected http://HOST... or https://HOST... as the address to notify")
        return value

    @field_validator("harness")
    @classmethod
    def _known_harness(cls, value: str) -> str:
        if value in BUILT_IN_HARNESSES or "://" in value or value.startswith("git@"):
            return value  # fetching it raises if no such address is supported
        path = Path(value).expanduser()
        if "/" in value or path.is_dir():
            return str(path.absolute())
        raise ValueError("expected seed, competent, a folder or an https:// address as harness")

    @field_validator("sandbox")
    @classmethod
    def _known_sandbox(cls, value: str) -> str:
        if not re.fullmatch(r"auto|docker|podman|process|harbor:[\w:.@/-]+", value):
            raise ValueError("choose auto, docker, podman, process or harbor:SERVICE[@IMAGE]")
        return value

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        if value in PRETRAINED_NAMES:
            return f"hf:{value}"
        if _is_plugged(value, registry.POLICIES):
            return value
        return _model_string(value, {"nano"}, {"hf", "vllm"}, _MODEL_FORMS)

    @field_validator("meta_model")
    @classmethod
    def _known_meta_model(cls, value: str) -> str:
        if _is_plugged(value, registry.PROPOSERS):
            return value
        prefixes = {"agent", "replay", "scripted", "vllm"}
        return _model_string(value, {"rules"}, prefixes, _META_MODEL_FORMS)

    @field_validator("models")
    @classmethod
    def _known_models(cls, value: dict[Role, str]) -> dict[Role, str]:
        if "policy" in value:
            raise ValueError("--policy sets the policy's model; leave policy=... out of --model")
        for model in value.values():
            _model_string(model, set(), {"scripted", "vllm"}, _ROLE_MODEL_FORMS)
        return value

    @field_validator("base_urls", "key_env", mode="before")
    @classmethod
    def _for_all_roles(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or ALL_ROLES not in value:
            return value
        by_role = {role: entry for role, entry in value.items() if role != ALL_ROLES}
        return {**dict.fromkeys(ROLES, value[ALL_ROLES]), **by_role}

    @field_validator("base_urls")
    @classmethod
    def _plain_urls(cls, value: dict[Role, str]) -> dict[Role, str]:
        for url in value.values():
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("expected http://HOST... or https://HOST... as a base URL")
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError("a base URL must not carry a key: name its variable in key_env")
        return value

    @field_validator("key_env")
    @classmethod
    def _names_of_variables(cls, value: dict[Role, str]) -> dict[Role, str]:
        if not all(_VARIABLE.fullmatch(name) for name in value.values()):
            raise ValueError("expected the NAME of the key's variable, never the key itself")
        return value

    @field_validator("tasks", "grade", "skills", "workspace")
    @classmethod
    def _absolute(cls, value: Path | None, field: ValidationInfo) -> Path | None:
        if value is None or (field.field_name == "tasks" and is_set_name(str(value))):
            return value
        return value.expanduser().absolute()

    def model_of(self, role: Role) -> str:
        """Returns a role's model: the one that is set, or else the policy's or the meta-agent's."""
        return self.models.get(role) or (self.policy if role == "policy" else self.meta_model)

    @property
    def judge(self) -> str | None:
        """Returns the model that the user's grader may ask, or None if none is set."""
        return self.models.get("judge") if self.grade is not None else None

    @property
    def reward_judge(self) -> str | None:
        """Returns the model that the reward may ask in training, or None if none is set."""
        return self.models.get("reward") if self.trainable else None

    @property
    def own_tasks(self) -> bool:
        """Returns whether the tasks come from the user and not from a built-in suite."""
        return self.tasks is not None or self.domain not in BUILT_IN_SUITES

    @property
    def is_local(self) -> bool:
        """Returns True if the policy is `nano` or `hf:PATH`: its weights are on this machine."""
        return self.policy == "nano" or self.policy.startswith("hf:")

    @property
    def trainable(self) -> bool:
        """Returns whether each generation of the run trains the policy's weights."""
        return self.is_local and self.train_steps > 0

    @property
    def policy_is_plugged(self) -> bool:
        """Returns whether the policy comes from a plugin, a separately installed Python package."""
        return _is_plugged(self.policy, registry.POLICIES)

    @property
    def team_is_asked(self) -> bool:
        """Returns whether language models propose the harness's changes, not rules or an agent."""
        plugged = _is_plugged(self.meta_model, registry.PROPOSERS)
        return self.meta_model != "rules" and not plugged and not self.agent_is_asked

    @property
    def agent_is_asked(self) -> bool:
        """Returns whether a coding agent, which is another program, proposes the changes."""
        return self.meta_model.startswith("agent:")

    @property
    def skills_library(self) -> Path:
        return self.skills or self.workspace / "skills_library"

    @property
    def config_hash(self) -> str:
        """Returns a hash of the settings that change results. Only an equal hash resumes a run."""
        text = json.dumps(self.hashed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def hashed(self) -> dict[str, JSON]:
        """Returns the settings that change results, and hashes of the files that they name."""
        hashed = {name: value for name, value in self._values().items() if name not in _NOT_HASHED}
        for name, usual in _YOUNGER.items():
            if hashed[name] == usual:
                del hashed[name]
        if self.engines:
            hashed["engine"] = "vllm"
        if self.harness not in BUILT_IN_HARNESSES:  # the workspace holds a copy
            hashed["harness"] = BROUGHT
        if self.grade is not None:
            hashed["grade_sha256"] = hash_of(self.grade, "grader's")
        if self.warmup is not None:
            hashed["warmup_sha256"] = hash_of(self.warmup, "warm-up")
        return {**hashed, "tasks_sha256": hash_of(self.tasks, "task")}

    @property
    def trackers(self) -> tuple[str, ...]:
        return tuple(filter(None, self.log.split(",")))

    def to_json(self) -> dict[str, JSON]:
        """Returns the settings as JSON, in the form in which a run stores them."""
        return {**self._values(), "origin": dict(self.origin)}

    @classmethod
    def from_json(cls, value: Mapping[str, JSON]) -> Self:
        """Returns the settings that a run stored. Raises pydantic's error for an unknown one."""
        return cls.model_validate(value)

    def _values(self) -> dict[str, JSON]:
        return self.model_dump(mode="json", exclude={"origin", "notify"})


def asks_models(config: RunConfig) -> bool:
    """Returns True if this program asks a model server, for the policy, proposals or a judge."""
    policy = not config.is_local and not config.policy_is_plugged
    return config.team_is_asked or policy or bool(config.judge or config.reward_judge)


FIELDS: Final = tuple(name for name in RunConfig.model_fields if name != "origin")


_BUILT_IN_NAMES: Final = frozenset(
    {"nano", "hf", "vllm", "rules", "agent", "replay", "scripted", "local", "ray"}
)
"""Built-in policies, proposers and executors. An entry point of such a name is ignored."""


def _is_plugged(value: str, group: str) -> bool:
    """Returns True if `NAME` or `NAME:DETAIL` names an entry point of the group."""
    name = value.partition(":")[0]
    return name not in _BUILT_IN_NAMES and name in registry.entry_points(group)


def _model_string(value: str, words: set[str], prefixes: set[str], forms: str) -> str:
    prefix, colon, rest = value.partition(":")
    provider, slash, model = value.partition("/")
    is_listed = value in words or (colon and rest and prefix in prefixes)
    if not is_listed and not (slash and provider and model and not {" ", ":"} & set(provider)):
        raise ValueError(f"expected {forms}")
    return value
