"""The settings of a run as named, typed arguments of `meta_agent.optimize`.

`docs/reference.md` says what each one does and what it is if it is not given. A test compares the
names with those of `RunConfig`, so a type checker finds a misspelt argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from meta_agent.core.protocols import JSON, Role
from meta_agent.core.task_splits import Limits
from meta_agent.reports.terminal.display import Event

Agent = str | Path | Sequence[str] | Callable[..., Any]
Grade = Callable[..., Any]


class Settings(TypedDict, total=False):
    """Settings of `meta-agent evolve`, by their names in `meta-agent.toml`."""

    allow_unsafe_process: bool
    approve: Literal["auto", "merge", "each", "all"]
    base_urls: Mapping[Role, str] | Mapping[str, str]
    candidates: int
    checkpoint_every: int
    concurrency: int
    context_tokens: int
    domain: str
    engines: int
    executor: str
    generations: int
    gpus_per_engine: int
    hand_over: Literal["proven", "best"]
    harness: str
    jobs: int
    key_env: Mapping[Role, str] | Mapping[str, str]
    limits: Limits | Mapping[str, Any]
    log: str
    lora_rank: int
    map: Mapping[str, str]
    max_staleness: int
    max_tokens: int
    max_usd: float
    models: Mapping[Role, str] | Mapping[str, str]
    notify: str
    precision: Literal["float32", "bfloat16"]
    profile: Literal["default", "tiny"]
    prove: Literal["harness", "version"]
    python: str
    replay_match: Literal["exact", "position"]
    role_max_tokens: Mapping[Role, int] | Mapping[str, int]
    role_max_usd: Mapping[Role, float] | Mapping[str, float]
    samples: int
    sandbox: str
    seed: int
    skills: Path | str
    strategy: str
    threads: int
    tokens_per_pass: int
    train_gpus: int
    train_steps: int
    warmup: Path | str


class RunArguments(Settings, total=False):
    """What `meta_agent.optimize` makes the settings of a run from."""

    tasks: Path | str | Iterable[Mapping[str, JSON]] | None
    grade: Path | str | Grade | None
    tools: Callable[..., Any] | None
    agent: Agent | None
    policy: str
    meta_model: str
    base_url: str | None
    budget: int | None
    threshold: float | None
    workspace: Path | str | None


class Arguments(RunArguments, total=False):
    """All arguments of `meta_agent.optimize`."""

    on_event: Callable[[Event], None] | None
