"""Makes flags of settings. A command names its settings and receives a `RunConfig`.

A flag holds only what was typed. `core.setting_table` declares it, `core.config` has the ranges.
Flags by role are repeated (`--model proposer=openai/x --model analyst=...`).

Not covered: flags that are not settings, such as `--json`. They are defined with their commands.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from meta_agent.core.setting_table import SETTINGS

_OF_ROLE: Final = re.compile(r"([A-Za-z_-]+)=(.*)", re.DOTALL)


def parameter(field: str) -> inspect.Parameter:
    """Returns the flag of the setting `field` as a Typer parameter; its default is None."""
    setting = SETTINGS[field]
    option = typer.Option(
        *(setting.names or ("--" + field.replace("_", "-"),)),
        help=setting.help,
        metavar=setting.metavar,
        show_default=False,
        rich_help_panel=setting.group,
    )
    return inspect.Parameter(
        field,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[setting.type | None, option],
    )


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


PANELS: Final = ("Run", "Look", "Take over", "Tasks", "Maintain")


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


_PROGRAMS: Final = frozenset({"grade", "domain"})
_TRUST: Final = inspect.Parameter(
    "trust",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--trust", help="Run the code that this folder's settings name; asked once else."
        ),
    ],
)


def takes(
    *fields: str, looks: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds these settings' flags to a command and gives it a RunConfig.

    A command that `looks`, or one with --dry-run or --list, runs no code that the folder's settings
    name. Any other that takes a grader or a domain asks first, or gets --trust.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # `RunConfig` is not imported here at run time: `--help` would become slow.
        written = inspect.signature(command, eval_str=True, locals={"RunConfig": Any})
        own_options = [
            parameter for name, parameter in written.parameters.items() if name != "config"
        ]
        flags = [parameter(field) for field in fields]
        runs = not looks and not _PROGRAMS.isdisjoint(fields)

        @wraps(command)
        def with_flags(**arguments: Any) -> None:
            settings = {field: arguments.pop(field) for field in fields}
            config = resolve_flags(**settings)
            trust = arguments.pop("trust", False)
            if runs and not (arguments.get("dry_run") or arguments.get("listed")):
                require_trust(config, trust)
            else:
                config = _looked_at(config)
            command(config=_with_tasks(config) if "tasks" in fields else config, **arguments)

        every = [
            *flags,
            *((_TRUST,) if runs else ()),
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


def _looked_at(config: Any) -> Any:
    from meta_agent.cli._trust import looked_at

    return looked_at(config)


def require_trust(config: Any, trust: bool, *, recorded: bool = False) -> None:
    """Asks at a terminal whether the folder's code may run. Raises ConfigError if it may not."""
    from meta_agent.cli._trust import require_trusted

    def ask(question: str) -> bool:
        return typer.confirm(question, default=False, err=True)

    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    question = ask if at_terminal else None
    require_trusted(config, trust=trust, ask=question, recorded=recorded)


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

    (flag,) = SETTINGS[field].names
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
