"""Domains: task sets with fixed splits, an environment, and a sealed grader.

`load_domain` is the door to what is built in. Every other way in is a row of `DOORS`: one module
with `open_domain(asked)`, imported when it is asked for, so that a run on one never pays for, or
fails on, what another one needs. A row names the harness that its tasks start from, and the module
that `tasks check` tries them by. `package.module:Factory` and the entry points of the group
`meta_agent.domains` go through the row `plugged`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Domain
from meta_agent.core.registry import DOMAINS, entry_points
from meta_agent.domains._asked import Asked

__all__ = ["DOORS", "Asked", "Door", "door_of", "load_domain", "open_domain"]

# The nano suites: module and class. Imported when asked for.
_NANO: Final = {"swe": "NanoSwe", "math": "NanoMath", "code": "NanoCode"}


class Door(NamedTuple):
    """One way in."""

    module: str
    check: str
    harness: str
    needs_file: bool = True
    """Whether there is nothing to load without `--tasks`."""


_IN: Final = "meta_agent.domains"
DOORS: Final[Mapping[str, Door]] = {
    "swe": Door(f"{_IN}.swe.door", f"{_IN}.checking._swe", "chat/swe"),
    "math": Door(f"{_IN}.math.door", f"{_IN}.checking._math", "chat/math"),
    "code": Door(f"{_IN}.code.door", f"{_IN}.checking._code", "chat/code"),
    "graded": Door(f"{_IN}.graded", f"{_IN}.checking._graded", "chat/open", needs_file=False),
    "harbor": Door(f"{_IN}.harbor", f"{_IN}.checking._harbor", "chat/open"),
    "verifiers": Door(f"{_IN}.verifiers", f"{_IN}.checking._graded", "chat/open", needs_file=False),
    "plugged": Door(f"{_IN}.plugged", f"{_IN}.checking._plugged", "chat/open", needs_file=False),
}
_WITH_DETAIL: Final = ("verifiers",)


def load_domain(name: str) -> Domain:
    """Returns a domain of the nano suites, or says which there are."""
    if name not in _NANO:
        known = ", ".join(sorted(_NANO))
        raise ConfigError(f"no domain {name!r} in suite 'nano'", hint=f"choose one of: {known}")
    domain: Domain = getattr(import_module(f"{_IN}.nano.{name}"), _NANO[name])()
    return domain


def door_of(name: str) -> tuple[Door, str]:
    """The way in that a `--domain` names, and what it says of the rest."""
    first, colon, rest = name.partition(":")
    if first in DOORS and first != "plugged" and bool(colon) == (first in _WITH_DETAIL):
        return DOORS[first], rest
    if first in _WITH_DETAIL:
        raise ConfigError(f"--domain {name} names no package", hint=f"--domain {first}:NAME")
    plugged = entry_points(DOMAINS)
    if not colon and name not in plugged:
        known = ", ".join(sorted({*DOORS, *plugged} - {"plugged"}))
        raise ConfigError(
            f"there is no domain {name!r}; there are {known}",
            hint="--domain package.module:Factory for one of your own, or --grade FILE.py",
        )
    return DOORS["plugged"], name


def open_domain(asked: Asked) -> Domain:
    """The domain behind a name, a file or a factory; `asked.name` is the whole `--domain`."""
    door, detail = door_of(asked.name)
    if door.needs_file and asked.tasks is None:
        raise ConfigError(f"--domain {asked.name} needs tasks", hint="--tasks FILE")
    opened: Domain = import_module(door.module).open_domain(replace(asked, detail=detail))
    return opened
