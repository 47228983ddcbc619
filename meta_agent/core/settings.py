"""Finds the value of each setting: the first of five layers that names it.

The layers are the command line, `META_AGENT_*` variables, the workspace's `meta-agent.toml` (tables
`[evolve]`, `[training]` and `[engine]`), the profile and the default. Only the
settings file of the workspace in use is read. An unknown key raises ConfigError, which names it.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
    SettingsError,
)

from meta_agent.core.config import ALL_ROLES, FIELDS, GRADED, SET_NAME, RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON, ROLES
from meta_agent.core.setting_table import SETTINGS
from meta_agent.core.task_splits import Limits
from meta_agent.core.workspace import SETTINGS_FILE, find_workspace, read_settings

_log = logging.getLogger(__name__)
ENV_PREFIX: Final = "META_AGENT_"
_DEFAULT: Final = "default"

# Variables with our prefix that are not settings.
INTERNAL_VARIABLES: Final = frozenset(
    {
        *("META_AGENT_CRASH_AT", "META_AGENT_VLLM_PYTHON", "META_AGENT_VERIFIERS_PYTHON"),
        *("META_AGENT_REASONING_GYM_PYTHON", "META_AGENT_HARBOR_PYTHON"),
    }
)

# The settings that a profile changes, unless a higher layer sets them.
PROFILES: Final[Mapping[str, Mapping[str, JSON]]] = {
    "default": {},
    "tiny": {"generations": 1, "candidates": 2, "train_steps": 4},
}

# Settings that are tables by role, with the flag that fills each. Layers are merged by role.
BY_ROLE: Final[Mapping[str, str]] = {
    "models": "--model",
    "base_urls": "--base-url",
    "key_env": "--key-env",
    "role_max_usd": "--max-usd",
    "role_max_tokens": "--max-tokens",
}
# A user may paste an API key here by mistake, so errors do not repeat the value.
MAY_HOLD_A_KEY: Final = frozenset({"base_urls", "key_env", "notify"})


def resolve(flags: Mapping[str, Any]) -> RunConfig:
    """Returns a run's settings: from flags, else environment variables, settings file, defaults.

    Flags that are None count as not given. Raises ConfigError for a wrong value or name.
    """
    flag_values = {name: value for name, value in flags.items() if value is not None}
    from_environment = _environment_values()
    workspace = flag_values.get("workspace") or from_environment.get("workspace")
    root = find_workspace(Path(workspace) if workspace else None, Path.cwd())
    layers: _Layers = [("command line", flag_values), ("environment", from_environment)]
    layers.append((str(root / SETTINGS_FILE), _file_values(root / SETTINGS_FILE)))
    layers = _with_graders_obeyed(layers)
    profile = str(_first(layers, "profile") or "default")
    layers.append((f"profile {profile}", dict(PROFILES.get(profile, {}))))
    return _build([(_origin_of(layers, "workspace"), {"workspace": root}), *layers])


# Each layer is its label and its values. The highest precedence comes first.
_Layers = list[tuple[str, dict[str, Any]]]


def _with_graders_obeyed(layers: _Layers) -> _Layers:
    """Returns the layers with the domain that a grader implies, and without graders below another.

    A grader without a domain beside it makes the domain `graded`, whatever lower layers say. A
    domain of a higher layer hides the graders of lower layers.
    """
    obeyed: _Layers = []
    for label, values in layers:
        domain = _first(obeyed, "domain")
        if domain not in (None, GRADED):
            values = {name: v for name, v in values.items() if name not in ("grade", "threshold")}
        elif "grade" in values and "domain" not in values:
            values = {**values, "domain": GRADED}
        obeyed.append((label, values))
    return obeyed


def _build(layers: _Layers) -> RunConfig:
    origin = {name: _origin_of(layers, name) for name in FIELDS}
    names = {name for _, values in layers for name in values}
    values = {name: _value(layers, name) for name in FIELDS if name in names}
    try:
        return RunConfig(**values, origin=origin)
    except ValidationError as error:
        raise _in_plain_words(error, origin) from error


def _first(layers: _Layers, name: str) -> Any:
    return next((values[name] for _, values in layers if name in values), None)


def _value(layers: _Layers, name: str) -> Any:
    """Returns the value of the highest layer. Tables by role are merged, role by role."""
    layer_values = [values[name] for _, values in layers if name in values]
    if name not in BY_ROLE or not all(isinstance(table, dict) for table in layer_values):
        return layer_values[0]
    return {role: entry for table in reversed(layer_values) for role, entry in table.items()}


def _origin_of(layers: _Layers, name: str) -> str:
    origins = [origin for origin, values in layers if name in values] or [_DEFAULT]
    labels = [ENV_PREFIX + name.upper() if label == "environment" else label for label in origins]
    return " + ".join(labels) if name in BY_ROLE else labels[0]


class _EnvironmentSettings(BaseSettings, RunConfig):
    """Tells pydantic-settings the names and types of META_AGENT_* variables; never created."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True)
    limits: Annotated[Limits, NoDecode] = Limits()
    map: Annotated[dict[str, str], NoDecode] = {}


def _environment_values() -> dict[str, Any]:
    variables = {ENV_PREFIX + name.upper() for name in FIELDS} | INTERNAL_VARIABLES
    for variable in sorted(os.environ):
        if variable.startswith(ENV_PREFIX) and variable not in variables:
            raise ConfigError(
                f"the environment variable {variable} is not a setting",
                hint=did_you_mean(variable, variables) or f"unset {variable}",
            )
    try:
        values = EnvSettingsSource(_EnvironmentSettings)()
    except SettingsError as error:
        raise _not_json(error) from None  # its text may repeat an API key
    return {name: value for name, value in values.items() if name in FIELDS}


def _not_json(error: SettingsError) -> ConfigError:
    name = next((setting for setting in BY_ROLE if f'"{setting}"' in str(error)), "?")
    variable = ENV_PREFIX + name.upper()
    return ConfigError(
        f"{variable} is not a JSON object with a value for each role",
        hint=f"{variable}='{{\"proposer\": ...}}', or {BY_ROLE.get(name, 'the flag')} ROLE=...",
    )


def _file_values(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    tables = read_settings(path)
    values = _table(path, "evolve", tables)
    values |= _table(path, "training", tables)
    values |= _table(path, "engine", tables)
    for key in ("tasks", "grade", "warmup", "skills"):
        if isinstance(values.get(key), str):
            values[key] = _beside(path.parent, values[key], may_be_name=key == "tasks")
    return values


def _beside(folder: Path, text: str, *, may_be_name: bool) -> Path | str:
    """Returns a path of a settings file, which is relative to its folder, or a public set's name.

    The path in `gsm8k=PATH` is relative to that folder, too.
    """
    path = folder / Path(text).expanduser()
    match = SET_NAME.fullmatch(text) if may_be_name else None
    if match is None or path.exists():
        return path
    name, sign, rest = match.groups()
    return f"{name}={folder / Path(rest).expanduser()}" if sign == "=" else text


def _table(path: Path, table: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(tables.get(table, {}))
    # The file lies in its workspace, so it cannot choose another one.
    table_of = dict.fromkeys(FIELDS, "evolve")
    table_of |= {field: setting.table for field, setting in SETTINGS.items()}
    del table_of["workspace"]
    allowed = sorted(field for field, place in table_of.items() if place == table)
    for key in values:
        if key not in allowed:
            raise ConfigError(
                f"unknown key {key!r} in [{table}] of {path}",
                hint=(f"it belongs in [{table_of[key]}]" if key in table_of else None)
                or did_you_mean(key, allowed)
                or f"known keys: {', '.join(allowed)}",
            )
    return values


def did_you_mean(name: str, choices: Iterable[str]) -> str | None:
    """Returns a hint with the choice that is spelt most like `name`, or None if none is like it."""
    close = difflib.get_close_matches(name, sorted(choices), n=1)
    return f"did you mean {close[0]}?" if close else None


def flag_of(field: str) -> str:
    """Returns the command-line flag of a setting, such as `--budget`."""
    return BY_ROLE.get(field) or "--" + field.replace("_", "-")


def _in_plain_words(error: ValidationError, origin: Mapping[str, str]) -> ConfigError:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else "settings"
    where = origin.get(name, _DEFAULT)
    flag = flag_of(name)
    if problem["loc"][-1:] == ("[key]",):
        return _unknown_role(name, str(problem["loc"][1]), flag, where)
    input_text = "" if name in MAY_HOLD_A_KEY else f" = {problem['input']!r}"
    of_role = f"[{problem['loc'][1]}]" if len(problem["loc"]) > 1 else ""
    reason = problem["msg"].removeprefix("Value error, ")
    return ConfigError(
        f"{name}{of_role}{input_text} (from {where}): {reason[:1].lower()}{reason[1:]}",
        hint=f"see {flag} in: meta-agent evolve --help",
    )


def _unknown_role(name: str, role: str, flag: str, where: str) -> ConfigError:
    roles = ", ".join(ROLES) + (f", or {ALL_ROLES}" if name in MAY_HOLD_A_KEY else "")
    guess = did_you_mean(role, ROLES)
    return ConfigError(
        f"{flag}: there is no role {role[:40]!r} (from {where})",
        hint=(f"{guess} " if guess else "") + f"roles: {roles}",
    )
