"""Every flag that is a setting, once; commands name those they take and receive a `RunConfig`.

A setting's flag says only what was typed: defaults, ranges and precedence are the business of
`meta_agent.core.config`. Flags by role repeat (`--model proposer=openai/x --model analyst=...`).

Does not cover: flags that are no settings (`--json`, `--dry-run`). They stay with their commands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand

_OF_ROLE: Final = re.compile(r"([A-Za-z_-]+)=(.*)", re.DOTALL)


class Flag(NamedTuple):
    """One setting as a flag."""

    type: Any
    group: str
    help: str
    names: tuple[str, ...] = ()  # where it is not `--` and the field's name
    metavar: str | None = None

    def parameter(self, field: str) -> inspect.Parameter:
        """The flag as a parameter that Typer reads; None: not given."""
        names = self.names or ("--" + field.replace("_", "-"),)
        option = typer.Option(
            *names,
            help=self.help,
            metavar=self.metavar,
            show_default=False,
            rich_help_panel=self.group,
        )
        return inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[self.type | None, option],
        )


_RUN, _MODELS, _LIMITS, _MACHINE = "The run", "Models", "Money and people", "This machine"
_PAIRS: Final[Any] = list[str]
# Names of tables whose files are too heavy to be imported for a help text; a test compares them.
WAYS: Final = "full, static, score-only, no-diagnostics"
DOMAINS: Final = "swe, math, code, graded, harbor, verifiers:NAME, package.module:Factory"

FLAGS: Final[dict[str, Flag]] = {
    "domain": Flag(
        str,
        _RUN,
        f"Task domain: {DOMAINS}. [default: swe; with --grade: graded]",
    ),
    "tasks": Flag(Path, _RUN, "Task file of your own. [default: the built-in suite]"),
    "grade": Flag(Path, _RUN, "Grader of your own: a file with grade(task, answer)."),
    "threshold": Flag(float, _RUN, "From which number of a grader a task counts as solved."),
    "map": Flag(str, _RUN, "Fields of the task file by our names.", metavar="THEIRS=OURS,..."),
    "generations": Flag(int, _RUN, "Generations of the loop. [default: 3]"),
    "candidates": Flag(int, _RUN, "Ideas bundled in a generation, at most. [default: 6]"),
    "strategy": Flag(str, _RUN, f"How to search: {WAYS}. [default: full]"),
    "prove": Flag(
        str,
        _RUN,
        "What moves main: harness (over training seeds) or version. [default: harness for nano]",
    ),
    "hand_over": Flag(
        str, _RUN, "proven, or best (labelled unproven). [default: proven where there is one]"
    ),
    "budget": Flag(int, _RUN, "Cap on all attempts but those at vault tasks."),
    "seed": Flag(int, _RUN, "Root of every random number. [default: 0]"),
    "train_steps": Flag(int, _RUN, "Optimizer steps of a training arm. [default: 30]"),
    "lora_rank": Flag(
        int, _RUN, "Train an hf: policy by adapters of this rank; 0: all weights. [default: 0]"
    ),
    "precision": Flag(
        str, _RUN, "What an hf: policy computes in: float32 or bfloat16. [default: float32]"
    ),
    "tokens_per_pass": Flag(
        int, _RUN, "Tokens of hf: training held in memory at once. [default: 8192]"
    ),
    "max_staleness": Flag(
        int,
        _RUN,
        "Events by which sampling may be behind hf: training: 0, or 1, beside it. [default: 0]",
    ),
    "train_gpus": Flag(int, _RUN, "GPUs that train an hf: policy together. [default: 1]"),
    "checkpoint_every": Flag(
        int, _RUN, "Steps between seals that a killed hf: training goes on from. [default: 5]"
    ),
    "engines": Flag(
        int, _RUN, "vLLM servers that sample for a trained policy; 0: its own child. [default: 0]"
    ),
    "gpus_per_engine": Flag(int, _RUN, "GPUs that each of them takes. [default: 1]"),
    "context_tokens": Flag(
        int, _RUN, "Longest conversation on them. [default: the model's, or the domain's ceiling]"
    ),
    "samples": Flag(int, _RUN, "Attempts at a confirm task, frozen policy. [default: 2]"),
    "profile": Flag(str, _RUN, "Sizes: default or tiny. [default: default]"),
    "harness": Flag(
        str,
        _RUN,
        "Harness of a new workspace: seed, competent, folder, https://... [default: seed]",
    ),
    "skills": Flag(Path, _RUN, "Skills library shared between workspaces."),
    "policy": Flag(
        str,
        _MODELS,
        "The model that acts: nano, hf:PATH, vllm:PATH, provider/model. [default: nano]",
    ),
    "meta_model": Flag(
        str, _MODELS, "The meta-agent: rules, provider/model, replay:RUN. [default: rules]"
    ),
    "models": Flag(_PAIRS, _MODELS, "The model of one role. Repeat.", ("--model",), "ROLE=MODEL"),
    "base_urls": Flag(
        _PAIRS,
        _MODELS,
        "A compatible server, of all roles or one. Repeat.",
        ("--base-url",),
        "[ROLE=]URL",
    ),
    "key_env": Flag(
        _PAIRS,
        _MODELS,
        "The variable that holds that server's key. Repeat.",
        ("--key-env",),
        "[ROLE=]NAME",
    ),
    "replay_match": Flag(
        str, _MODELS, "A replayed request must fit: exact or position. [default: exact]"
    ),
    "max_usd": Flag(
        _PAIRS, _LIMITS, "Cap on money, of the run or a role. Repeat.", ("--max-usd",), "[ROLE=]USD"
    ),
    "max_tokens": Flag(
        _PAIRS,
        _LIMITS,
        "Cap on API tokens, of the run or a role. Repeat.",
        ("--max-tokens",),
        "[ROLE=]COUNT",
    ),
    "approve": Flag(
        str, _LIMITS, "A person decides: auto (nothing), merge, or each candidate. [default: auto]"
    ),
    "log": Flag(str, _MACHINE, "Trackers: wandb, mlflow, trackio, tensorboard; with commas."),
    "notify": Flag(
        str, _MACHINE, "URL to call where a person is needed, a cap is met, or the run ends."
    ),
    "sandbox": Flag(
        str, _MACHINE, "Where harness code runs: auto, docker, podman or process. [default: auto]"
    ),
    "allow_unsafe_process": Flag(
        bool,
        _MACHINE,
        "Let code written by an LLM run in the process sandbox.",
        ("--allow-unsafe-process", "--allow-unsafe"),
    ),
    "concurrency": Flag(int, _MACHINE, "Rollouts at once against a server. [default: 8]"),
    "threads": Flag(
        int, _MACHINE, "CPU threads of a training child; part of the result. [default: 1]"
    ),
    "jobs": Flag(
        int, _MACHINE, "Training children at once. [default: CPU cores; of an hf: policy what fits]"
    ),
    "executor": Flag(
        str, _MACHINE, "Where trainings run: local, ray or ray:ADDRESS. [default: local]"
    ),
    "python": Flag(
        str, _MACHINE, "The interpreter that has what a grader imports. [default: this one]"
    ),
    "workspace": Flag(
        Path,
        _MACHINE,
        "Workspace directory. [default: here if it holds a meta-agent.toml, else "
        "./meta-agent-workspace]",
    ),
}


class Grouped(TyperCommand):
    """Help with one list per group of options: a long list in one piece is not read."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                argument = param.param_type_name == "argument"
                name = "Arguments" if argument else getattr(param, "rich_help_panel", None)
                groups.setdefault(name or "Options", []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


def takes(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these settings as flags; it is called with the resolved `config`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # `RunConfig` is no name here at run time: importing it costs what `--help` must not.
        written = inspect.signature(command, eval_str=True, locals={"RunConfig": Any})
        own_options = [
            parameter for name, parameter in written.parameters.items() if name != "config"
        ]
        flags = [FLAGS[field].parameter(field) for field in fields]

        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            settings = {field: arguments.pop(field) for field in fields}
            command(config=resolve_flags(**settings), **arguments)

        every = [
            *flags,
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own_options),
        ]
        with_flags.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        return with_flags

    return decorate


def resolve_flags(**flags: Any) -> Any:
    """Flags over variables over the workspace's file over defaults: a `RunConfig`."""
    from meta_agent.core.settings import resolve

    return resolve(_settings(flags))


def _settings(flags: dict[str, Any]) -> dict[str, Any]:
    """Flags as fields: pairs become tables by role, an amount for all the run's own cap."""
    from meta_agent.core.config import ALL_ROLES

    fields = dict(flags)
    for field in ("models", "base_urls", "key_env", "max_usd", "max_tokens"):
        if field in fields:
            fields[field] = _by_role(field, fields[field] or ())
    for field in ("max_usd", "max_tokens"):
        if table := fields.get(field):
            fields[field] = table.pop(ALL_ROLES, None)
            fields[f"role_{field}"] = table or None
    return fields


def _by_role(field: str, words: Sequence[str]) -> dict[str, str] | None:
    from meta_agent.core.config import ALL_ROLES
    from meta_agent.core.errors import ConfigError

    (flag,) = FLAGS[field].names
    table: dict[str, str] = {}
    for word in words:
        pair = _OF_ROLE.fullmatch(word)
        role, entry = pair.groups() if pair else (ALL_ROLES, word)
        if not pair and field == "models":
            raise ConfigError(f"{flag} {word}: expected ROLE=MODEL", hint="--meta-model is for all")
        if role in table:
            raise ConfigError(f"{flag} is given twice for {role}", hint="leave one of them out")
        table[role] = entry
    return table or None
