"""Defines each setting's flag once. A command names its flags and receives a `RunConfig`.

A flag holds only what was typed. `meta_agent.core.config` has the defaults, ranges and precedence.
Flags by role are repeated (`--model proposer=openai/x --model analyst=...`).

Not covered: flags that are not settings, such as `--json`. They are defined with their commands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

_OF_ROLE: Final = re.compile(r"([A-Za-z_-]+)=(.*)", re.DOTALL)


class Flag(NamedTuple):
    """The declaration of a setting's command-line flag: type, help text, help group and names."""

    type: Any
    group: str
    help: str
    names: tuple[str, ...] = ()  # if it is not `--` and the field's name
    metavar: str | None = None

    def parameter(self, field: str) -> inspect.Parameter:
        """Returns the flag of the setting `field` as a Typer parameter; its default is None."""
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
WAYS: Final = (
    "full, staged, static, imitate, imitate-then-train, score-only, no-diagnostics, frontier, "
    "archive, islands, pareto, tree, specialists, bilevel"
)
DOMAINS: Final = (
    "swe, math, code, graded, harbor, reasoning-gym, bfcl, verifiers:NAME, package.module:Factory"
)

FLAGS: Final[dict[str, Flag]] = {
    "domain": Flag(str, _RUN, f"Task domain: {DOMAINS}. [default: swe; with --grade: graded]"),
    "tasks": Flag(
        str,
        _RUN,
        "Your task file, or a name of `tasks list`, such as gsm8k. [default: the built-in suite]",
    ),
    "grade": Flag(Path, _RUN, "Your grader: a Python file that defines grade(task, answer)."),
    "threshold": Flag(float, _RUN, "A task is solved if its grader returns at least this number."),
    "map": Flag(str, _RUN, "Renames fields of the task file.", metavar="THEIRS=OURS,..."),
    "limits": Flag(
        str,
        _RUN,
        "Limits of an attempt: max_turns, max_tokens_per_turn, max_context_tokens, seconds, "
        "reasoning (low, medium, high). [default: the domain's]",
        metavar="NAME=LIMIT,...",
    ),
    "generations": Flag(int, _RUN, "Generations of the loop. [default: 3]"),
    "candidates": Flag(int, _RUN, "The most ideas in a generation. [default: 6]"),
    "strategy": Flag(str, _RUN, f"Search strategy: {WAYS}. [default: staged for hf:, else full]"),
    "prove": Flag(
        str,
        _RUN,
        "Which proof advances main: harness (over seeds) or version. [default: harness for nano]",
    ),
    "hand_over": Flag(
        str,
        _RUN,
        "Version handed over: proven or best, maybe unproven. [default: proven if there is one]",
    ),
    "budget": Flag(int, _RUN, "The most attempts at tasks, without those at vault tasks."),
    "seed": Flag(int, _RUN, "Seed of all random numbers. [default: 0]"),
    "train_steps": Flag(
        int,
        _RUN,
        "Optimizer steps of one training, or of all legs; 0 keeps an hf: policy frozen. "
        "[default: 30]",
    ),
    "warmup": Flag(
        Path, _RUN, "Solved attempts to imitate in the first steps, if the recipe has sft_steps."
    ),
    "lora_rank": Flag(
        int,
        _RUN,
        "Rank of the adapters that an hf: policy trains; 0 trains all weights. [default: 0]",
    ),
    "precision": Flag(
        str,
        _RUN,
        "Number format of an hf: policy: float32 or bfloat16. [default: bfloat16 if the "
        "processor has it]",
    ),
    "tokens_per_pass": Flag(
        int,
        _RUN,
        "Tokens that hf: training holds in memory at once. [default: 8192; 2048 without a GPU]",
    ),
    "max_staleness": Flag(
        int, _RUN, "Updates by which sampling may lag behind hf: training: 0 or 1. [default: 0]"
    ),
    "train_gpus": Flag(int, _RUN, "GPUs that train an hf: policy together. [default: 1]"),
    "checkpoint_every": Flag(
        int, _RUN, "Steps between the saved states from which hf: training resumes. [default: 5]"
    ),
    "engines": Flag(
        int, _RUN, "vLLM servers that sample for a trained policy; 0 uses its trainer. [default: 0]"
    ),
    "gpus_per_engine": Flag(int, _RUN, "GPUs of each server of --engines. [default: 1]"),
    "context_tokens": Flag(
        int,
        _RUN,
        "Longest conversation on --engines. [default: the model's, or the domain's ceiling]",
    ),
    "samples": Flag(int, _RUN, "Attempts of a frozen policy at each confirm task. [default: 2]"),
    "profile": Flag(str, _RUN, "Preset sizes: default or tiny. [default: default]"),
    "harness": Flag(
        str,
        _RUN,
        "Harness of a new workspace: seed, competent, folder, https://... [default: seed]",
    ),
    "skills": Flag(Path, _RUN, "Folder of a skills library that workspaces share."),
    "policy": Flag(
        str,
        _MODELS,
        "Model that attempts tasks: nano, hf:PATH, vllm:PATH, provider/model. [default: nano]",
    ),
    "meta_model": Flag(
        str,
        _MODELS,
        "Who improves the agent: rules, provider/model, agent:claude (or codex, or a command), "
        "replay:RUN. [default: rules]",
    ),
    "models": Flag(
        _PAIRS, _MODELS, "The model of one role. May be repeated.", ("--model",), "ROLE=MODEL"
    ),
    "base_urls": Flag(
        _PAIRS,
        _MODELS,
        "OpenAI-compatible server of all roles or one. May be repeated.",
        ("--base-url",),
        "[ROLE=]URL",
    ),
    "key_env": Flag(
        _PAIRS,
        _MODELS,
        "Environment variable with the key of --base-url. May be repeated.",
        ("--key-env",),
        "[ROLE=]NAME",
    ),
    "replay_match": Flag(
        str, _MODELS, "How a replay finds a recorded answer: exact or position. [default: exact]"
    ),
    "max_usd": Flag(
        _PAIRS,
        _LIMITS,
        "The most money for the run or a role. May be repeated.",
        ("--max-usd",),
        "[ROLE=]USD",
    ),
    "max_tokens": Flag(
        _PAIRS,
        _LIMITS,
        "The most API tokens for the run or a role. May be repeated.",
        ("--max-tokens",),
        "[ROLE=]COUNT",
    ),
    "approve": Flag(
        str,
        _LIMITS,
        "What a person approves: auto (nothing), merge, or each (candidate). [default: auto]",
    ),
    "log": Flag(
        str, _MACHINE, "Trackers, separated by commas: wandb, mlflow, trackio, tensorboard."
    ),
    "notify": Flag(
        str, _MACHINE, "URL to call if a person is needed, a cap is reached, or the run ends."
    ),
    "sandbox": Flag(
        str, _MACHINE, "Where harness code runs: auto, docker, podman or process. [default: auto]"
    ),
    "allow_unsafe_process": Flag(
        bool,
        _MACHINE,
        "Allow code written by a model to run in the process sandbox.",
        ("--allow-unsafe-process", "--allow-unsafe"),
    ),
    "concurrency": Flag(
        int, _MACHINE, "Attempts that call a server at the same time. [default: 8]"
    ),
    "threads": Flag(
        int,
        _MACHINE,
        "CPU threads of a training; they affect its result. [default: 1; staged: all cores]",
    ),
    "jobs": Flag(
        int, _MACHINE, "Trainings at the same time. [default: CPU cores; for hf: as many as fit]"
    ),
    "executor": Flag(
        str, _MACHINE, "Where trainings run: local, ray or ray:ADDRESS. [default: local]"
    ),
    "python": Flag(
        str, _MACHINE, "Python with the packages that a grader imports. [default: this one]"
    ),
    "workspace": Flag(
        Path,
        _MACHINE,
        "Workspace directory. [default: here if it holds a meta-agent.toml, else "
        "./meta-agent-workspace]",
    ),
}


TASK_FLAGS: Final = ("domain", "tasks", "grade", "threshold", "map", "python")
"""Where the tasks come from and how they are graded."""
TRAINING_FLAGS: Final = (
    *("lora_rank", "precision", "tokens_per_pass", "limits", "max_staleness", "train_gpus"),
    *("checkpoint_every", "engines", "gpus_per_engine", "context_tokens"),
)
"""How one training of a policy is carried out."""
ROLE_FLAGS: Final = ("models", "base_urls", "key_env", "max_usd", "max_tokens")
"""What may differ from role to role: the model, its server, and its caps."""


class Grouped(TyperCommand):
    """A command whose help shows one list per group of options."""

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


PANELS: Final = ("Run", "Look", "Take over", "Tasks and models", "Maintain")


def command_group(name: str, about: str) -> typer.Typer:
    """Returns an empty group of commands, such as `meta-agent tasks`."""
    return typer.Typer(name=name, help=about, no_args_is_help=True, rich_markup_mode=None)


class Paneled(TyperGroup):
    """A group of commands whose help lists them by topic, below a heading for each topic."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for name, command in self.commands.items():
            panel = str(getattr(command, "rich_help_panel", None))
            panels[panel].append((name, command.get_short_help_str(limit=200)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def takes(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds these settings' flags to a command and gives it a RunConfig."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # `RunConfig` is not imported here at run time: `--help` would become slow.
        written = inspect.signature(command, eval_str=True, locals={"RunConfig": Any})
        own_options = [
            parameter for name, parameter in written.parameters.items() if name != "config"
        ]
        flags = [FLAGS[field].parameter(field) for field in fields]

        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            settings = {field: arguments.pop(field) for field in fields}
            config = resolve_flags(**settings)
            command(config=_with_tasks(config) if "tasks" in fields else config, **arguments)

        every = [
            *flags,
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own_options),
        ]
        with_flags.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        return with_flags

    return decorate


def resolve_flags(**flags: Any) -> Any:
    """Returns a RunConfig. Flags win over environment variables, the workspace's file, defaults."""
    from meta_agent.core.settings import resolve

    return resolve(_settings(flags))


def _with_tasks(config: Any) -> Any:
    """Returns the settings with the task file of a public set, if `tasks` names a set."""
    if config.tasks is None:
        return config
    from meta_agent.cli._output import say
    from meta_agent.composition.inputs import with_named_tasks

    return with_named_tasks(config, say)


def _settings(flags: dict[str, Any]) -> dict[str, Any]:
    """Returns flags as fields. Pairs become tables by role; an amount alone caps the run."""
    from meta_agent.core.config import ALL_ROLES

    fields = dict(flags)
    for field in ROLE_FLAGS:
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
            raise ConfigError(
                f"{flag} {word}: expected ROLE=MODEL",
                hint=f"such as {flag} proposer=MODEL; for the whole team: --meta-model MODEL",
            )
        if role in table:
            raise ConfigError(
                f"{flag} has two values for the role {role}", hint=f"give {flag} once for {role}"
            )
        table[role] = entry
    return table or None
