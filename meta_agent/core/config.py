"""Settings: what there is to set, and the frozen snapshot that a run stores.

Where a value comes from stands in `settings.py`.

Does not cover: keys of model providers. They keep their providers' names and are read by
`meta_agent.llm_clients` alone; no value of theirs is ever part of a snapshot.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from meta_agent.core import registry
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, ROLES, Role
from meta_agent.core.workspace import BUILT_IN_HARNESSES

# These say where and how safely a run happens, or how much it may cost, not what it computes: a
# run may be resumed with another value. `tasks` enters the hash by content.
_NOT_HASHED: Final = frozenset(
    {
        "workspace",
        "sandbox",
        "allow_unsafe_process",
        "base_urls",
        "key_env",
        "max_usd",
        "max_tokens",
        "role_max_usd",
        "role_max_tokens",
        "concurrency",
        "approve",
        "replay_match",
        "jobs",
        "executor",
        "checkpoint_every",
        "tasks",
        "grade",
        "python",
        "log",
        "engines",
        "gpus_per_engine",
    }
)

# Settings younger than stored runs: at these values a run keeps the name it had without them.
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
    "max_staleness": 0,
    "context_tokens": None,
    "train_gpus": 1,
}

WITHDRAWN: Final = frozenset({"finalists", "lead", "lora_r"})
"""Settings that older workspaces and runs may still have: they are left out, and a note says so."""

ALL_ROLES: Final = "all"
"""In `base_urls` and `key_env`: every role that has no entry of its own."""

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")

BUILT_IN_SUITES: Final = ("swe", "math", "code")
"""Domains that have tasks of their own, for the nano policy."""
PRETRAINED_NAMES: Final = frozenset({"smollm2"})
"""Policies by one word: `--policy smollm2` is `hf:smollm2`, a model of `policies/pretrained.py`."""
_DOMAIN: Final = re.compile(r"[A-Za-z][\w.-]*(:[\w./@-]+)?")
TRACKER_NAMES: Final = ("wandb", "mlflow", "trackio", "tensorboard")
BROUGHT: Final = "brought"
"""What the hash of the settings knows of somebody's own harness."""
_MODEL_FORMS: Final = "nano, hf:PATH, vllm:PATH or provider/model"
_ROLE_MODEL_FORMS: Final = "scripted:FILE, vllm:PATH or provider/model"
_META_MODEL_FORMS: Final = "rules, replay:RUN, scripted:FILE, vllm:PATH or provider/model"


class RunConfig(BaseModel):
    """Everything that a run was asked to do, resolved and frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str = "swe"
    """Which task domain: a row of `domains.DOORS`, `package.module:Factory` or an entry point."""
    tasks: Path | None = None
    """A task file of your own (see `meta-agent tasks check`); None: the built-in nano suite."""
    grade: Path | None = None
    """A grader of your own: a Python file with `grade(task, answer)`. Makes the domain `graded`."""
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    """From which number of a grader a task counts as solved."""
    map: dict[str, str] = Field(default_factory=dict)
    """Names of fields of the task file, by what we call them: `{"question": "prompt"}`."""
    python: str = sys.executable
    """The interpreter that has what a grader, or a package of environments, imports."""
    generations: int = Field(default=3, ge=1, le=1000)
    """Generations of the loop."""
    candidates: int = Field(default=6, ge=1, le=64)
    """Candidates proposed per generation, one factor each: at most so many are bundled."""
    strategy: str = "full"
    """How a run searches; `full` is the loop with everything (see `steps.strategies`)."""
    prove: Literal["harness", "version"] | None = None
    """Which claim moves `main`: this harness, over training seeds, or this version, with these
    weights. None: harness for nano, version where a training is dear."""
    hand_over: Literal["proven", "best"] | None = None
    """What a run ends with: only what is proven, or the best estimate, labelled unproven. None:
    proven where there is one, else best."""
    budget: int | None = Field(default=None, ge=1)
    """Cap on all attempts but those at vault tasks. None: what the plan declares."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Root of every random number of the run."""
    train_steps: int = Field(default=30, ge=1, le=1_000_000)
    """Optimizer steps of one training arm."""
    lora_rank: int = Field(default=0, ge=0, le=4096)
    """Rank of the adapters by which an `hf:` policy is trained. 0: all its weights are."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """In what an `hf:` policy computes. What is trained is held in float32 either way."""
    tokens_per_pass: int | None = Field(default=None, ge=1, le=1 << 24)
    """Tokens of an `hf:` policy's training held in memory at once. None: 8,192. A longer row is a
    pass by itself. Part of the result: sums depend on how they are split."""
    max_staleness: int = Field(default=0, ge=0, le=1)
    """Events by which the weights that sample may be behind an `hf:` policy's training. 1: rollouts
    are made while the event before is trained on, by a second child."""
    train_gpus: int = Field(default=1, ge=1, le=64)
    """GPUs (else processes on the CPU) that train an `hf:` policy together. Of all its weights each
    holds a part (FSDP2); with adapters each holds all. Part of the result, as `threads` is."""
    checkpoint_every: int = Field(default=5, ge=0, le=1_000_000)
    """Steps of an `hf:` policy's training between seals; a killed one goes on from the last."""
    engines: int = Field(default=0, ge=0, le=64)
    """vLLM servers of the run's own that sample for a policy that is trained here. 0: its child
    samples. Part of the result is whether there are any, not how many."""
    gpus_per_engine: int = Field(default=1, ge=1, le=8)
    """GPUs that one engine spreads its weights over."""
    context_tokens: int | None = Field(default=None, ge=16, le=1 << 24)
    """Longest conversation on an engine. None: the model's window, within the domain's ceiling."""
    sandbox: Literal["auto", "docker", "podman", "process"] = "auto"
    """Where harness code runs. `auto`: Docker where it works, else podman."""
    workspace: Path = Path("meta-agent-workspace")
    """The workspace directory, absolute."""
    skills: Path | None = None
    """A skills library shared between workspaces; None: the workspace's own."""
    policy: str = "nano"
    """The model that acts: nano, hf:PATH, vllm:PATH or provider/model."""
    meta_model: str = "rules"
    """The model behind the meta-agent: rules, replay:RUN, scripted:FILE, vllm:PATH or an API."""
    profile: Literal["default", "tiny"] = "default"
    """Sizes of the measurements. `tiny` proves that the loop works, not that anything improves."""
    harness: str = "seed"
    """What a new workspace starts from: seed, competent, or somebody's agent (folder, address)."""
    allow_unsafe_process: bool = False
    """Lets code written by an LLM run in the `process` sandbox."""
    models: dict[Role, str] = Field(default_factory=dict)
    """Models of single roles of the meta-agent, where they differ from `meta_model`."""
    base_urls: dict[Role, str] = Field(default_factory=dict)
    """Servers of single roles that speak the provider's protocol. Default: the provider's own."""
    key_env: dict[Role, str] = Field(default_factory=dict)
    """Variables that hold the keys of servers in `base_urls`; without one, no key is sent."""
    max_usd: float | None = Field(default=None, ge=0)
    """Cap on money; needs a known price for every model in use."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Cap on tokens of API models."""
    role_max_usd: dict[Role, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Caps on money by role, beside that of the run."""
    role_max_tokens: dict[Role, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Caps on tokens by role, beside that of the run."""
    samples: int = Field(default=2, ge=1, le=64)
    """Attempts at each confirm task in the first look at a frozen policy."""
    concurrency: int = Field(default=8, ge=1, le=512)
    """Rollouts under way at once where the policy is behind a server."""
    approve: Literal["auto", "merge", "each"] = "auto"
    """What a person decides: nothing, every merge, or every candidate and merge."""
    replay_match: Literal["exact", "position"] = "exact"
    """Replaying: a request must equal the recorded one, or only stand in its place."""
    threads: int = Field(default=1, ge=1, le=256)
    """CPU threads of one training child. Part of the result: sums depend on how they are split."""
    jobs: int | None = Field(default=None, ge=1, le=256)
    """Training children at the same time. None: as many as there are CPU cores; of an `hf:` policy
    as many as fit."""

    executor: str = "local"
    """Where trainings and evaluations run: local, ray (a cluster of this machine), ray:ADDRESS."""

    log: str = ""
    """Experiment trackers that hear of every training, beside the run's own record; with commas."""
    notify: str | None = None
    """A URL that is called where a person is needed or the run ends. It may hold a secret, so it is
    never part of a snapshot."""

    origin: dict[str, str] = Field(default_factory=dict, repr=False)
    """Where each value came from, by field."""

    @model_validator(mode="before")
    @classmethod
    def _of_its_grader(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("grade") and "domain" not in values:
            return {**values, "domain": "graded"}
        return values

    @field_validator("domain")
    @classmethod
    def _known_form(cls, value: str) -> str:
        if not _DOMAIN.fullmatch(value):
            raise ValueError("expected a name, NAME:PACKAGE or package.module:Factory")
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
            raise ValueError("expected local, ray or ray:ADDRESS")
        return value

    @field_validator("log")
    @classmethod
    def _known_trackers(cls, value: str) -> str:
        names = [name.strip() for name in value.split(",") if name.strip()]
        plugged = registry.entry_points(registry.TRACKERS)
        if unknown := sorted({*names} - {*TRACKER_NAMES, *plugged}):
            raise ValueError(f"{unknown[0]} is none of {', '.join(TRACKER_NAMES)}")
        return ",".join(dict.fromkeys(names))

    @field_validator("notify")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value and (
            urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc
        ):
            raise ValueError("expected http://HOST... or https://HOST...")
        return value

    @field_validator("harness")
    @classmethod
    def _known_harness(cls, value: str) -> str:
        if value in BUILT_IN_HARNESSES or "://" in value or value.startswith("git@"):
            return value  # an address that is not read is refused where addresses are known
        path = Path(value).expanduser()
        if "/" in value or path.is_dir():
            return str(path.absolute())
        raise ValueError("expected seed, competent, a folder or an https:// address")

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
        return _model_string(value, {"rules"}, {"replay", "scripted", "vllm"}, _META_MODEL_FORMS)

    @field_validator("models")
    @classmethod
    def _known_models(cls, value: dict[Role, str]) -> dict[Role, str]:
        if "policy" in value:
            raise ValueError("the policy's model is --policy")
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
                raise ValueError("expected http://HOST... or https://HOST...")
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError("a base URL must not carry a key: name its variable in key_env")
        return value

    @field_validator("key_env")
    @classmethod
    def _names_of_variables(cls, value: dict[Role, str]) -> dict[Role, str]:
        if not all(_VARIABLE.fullmatch(name) for name in value.values()):
            raise ValueError("expected the NAME of an environment variable, never the key itself")
        return value

    @field_validator("tasks", "grade", "skills", "workspace")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    def model_of(self, role: Role) -> str:
        """The model string of a role: its own, else the policy's or the meta-agent's."""
        return self.models.get(role) or (self.policy if role == "policy" else self.meta_model)

    @property
    def judge(self) -> str | None:
        """The model that grades, where a grader of one's own may ask one."""
        return self.models.get("judge") if self.grade is not None else None

    @property
    def slug(self) -> str:
        """The domain as part of names of runs, refs and containers."""
        words = re.sub(r"[^A-Za-z0-9]+", "-", self.domain).strip("-")
        return words[-24:].strip("-") or "domain"

    @property
    def own_tasks(self) -> bool:
        """Whether the tasks are somebody's, and not those of a built-in suite."""
        return self.tasks is not None or self.domain not in BUILT_IN_SUITES

    @property
    def trainable(self) -> bool:
        """Whether the policy's weights are here, so that generations train it."""
        return self.policy == "nano" or self.policy.startswith("hf:")

    @property
    def policy_is_plugged(self) -> bool:
        """Whether the policy comes from an installed package."""
        return _is_plugged(self.policy, registry.POLICIES)

    @property
    def team_is_asked(self) -> bool:
        """Whether language models propose: neither rules nor a proposer of another package."""
        plugged = _is_plugged(self.meta_model, registry.PROPOSERS)
        return self.meta_model != "rules" and not plugged

    @property
    def skills_library(self) -> Path:
        return self.skills or self.workspace / "skills_library"

    @property
    def config_hash(self) -> str:
        """Names what changes results: runs with one hash are the same run."""
        text = json.dumps(self.hashed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def hashed(self) -> dict[str, JSON]:
        """The settings that change results, and `tasks_sha256`."""
        hashed = {name: value for name, value in self._values().items() if name not in _NOT_HASHED}
        for name, usual in _YOUNGER.items():
            if hashed[name] == usual:
                del hashed[name]
        if self.engines:
            hashed["engine"] = "vllm"
        if self.harness not in BUILT_IN_HARNESSES:  # the workspace holds it, wherever it was
            hashed["harness"] = BROUGHT
        if self.grade is not None:
            hashed["grade_sha256"] = _file_sha256(self.grade, "grader's")
        return {**hashed, "tasks_sha256": _file_sha256(self.tasks, "task")}

    @property
    def trackers(self) -> tuple[str, ...]:
        return tuple(filter(None, self.log.split(",")))

    def to_json(self) -> dict[str, JSON]:
        """The snapshot a run stores."""
        return {**self._values(), "origin": dict(self.origin)}

    @classmethod
    def from_json(cls, value: Mapping[str, JSON]) -> Self:
        """Reads a stored snapshot, also one with settings that were withdrawn since."""
        return cls.model_validate(
            {name: setting for name, setting in value.items() if name not in WITHDRAWN}
        )

    def _values(self) -> dict[str, JSON]:
        return self.model_dump(mode="json", exclude={"origin", "notify"})


def asks_models(config: RunConfig) -> bool:
    """Whether the run asks any model that is not trained here."""
    policy = not config.trainable and not config.policy_is_plugged
    return config.team_is_asked or policy or config.judge is not None


def pairs_of(text: str) -> dict[str, str]:
    """`THEIRS=OURS,...` as a table; ValueError where it is none."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not pairs or not all(theirs.strip() and ours.strip() for theirs, _, ours in pairs):
        raise ValueError("expected THEIRS=OURS pairs, such as question=prompt,answer=gold")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


TRAINING: Final = (
    *("lora_rank", "precision", "tokens_per_pass"),
    *("max_staleness", "train_gpus", "checkpoint_every"),
)
"""How an `hf:` policy is trained: the table `[training]` of a settings file. No harness sets it."""
ENGINE: Final = ("engines", "gpus_per_engine", "context_tokens")
"""What samples for a training: the table `[engine]`."""
FIELDS: Final = tuple(name for name in RunConfig.model_fields if name != "origin")


_BUILT_IN_NAMES: Final = frozenset(
    {"nano", "hf", "vllm", "rules", "replay", "scripted", "local", "ray"}
)
"""Names of policies, proposers and executors that win over entry points."""


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


def _file_sha256(path: Path | None, whose: str) -> str | None:
    """Of a file; of a folder, of all that is in it."""
    if path is None:
        return None
    try:
        if not path.is_dir():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        contents = [(str(file.relative_to(path)), file.read_bytes()) for file in files]
        hashes = [(name, hashlib.sha256(data).hexdigest()) for name, data in contents]
        return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"cannot read the {whose} file {path}: {error.strerror}",
            hint="meta-agent tasks check FILE explains the format",
        ) from error
