"""Domains: task sets with fixed splits, an environment, and a sealed grader.

`load_domain` opens the built-in nano suites. Every other kind of domain is a row of `DOMAIN_KINDS`.
A row names a module with `open_domain(options)`, which is imported on first use, so that one domain
never needs the packages of another. It also names the harness that its tasks start from, and the
module by which `tasks check` tries them. `package.module:Factory` and the entry points of the group
`meta_agent.domains` use the row `plugged`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Final, NamedTuple

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Domain
from meta_agent.core.registry import DOMAINS, entry_points
from meta_agent.domains._options import DomainOptions

__all__ = ["DOMAIN_KINDS", "DomainKind", "DomainOptions", "kind_of", "load_domain", "open_domain"]

# The nano suites by module and class. A module is imported on first use.
_NANO: Final = {"swe": "swe:NanoSwe", "math": "math:NanoMath", "code": "code:NanoCode"}


class DomainKind(NamedTuple):
    """A kind of task set: the modules that open and check it, and the harness to start from."""

    module: str
    check: str
    harness: str
    needs_file: bool = True
    """Whether the domain cannot be opened without `--tasks`."""


_IN: Final = "meta_agent.domains"
DOMAIN_KINDS: Final[Mapping[str, DomainKind]] = {
    "swe": DomainKind(f"{_IN}.swe", f"{_IN}.checking._swe", "chat/swe"),
    "math": DomainKind(f"{_IN}.math", f"{_IN}.checking._math", "chat/math"),
    "code": DomainKind(f"{_IN}.code", f"{_IN}.checking._code", "chat/code"),
    "graded": DomainKind(f"{_IN}.graded", f"{_IN}.checking._graded", "chat/open", needs_file=False),
    "harbor": DomainKind(f"{_IN}.harbor", f"{_IN}.checking._harbor", "chat/open"),
    "verifiers": DomainKind(
        f"{_IN}.verifiers", f"{_IN}.checking._graded", "chat/open", needs_file=False
    ),
    "reasoning-gym": DomainKind(f"{_IN}.reasoning_gym", f"{_IN}.checking._graded", "chat/open"),
    "bfcl": DomainKind(f"{_IN}.bfcl", f"{_IN}.checking._bfcl", "chat/bfcl"),
    "plugged": DomainKind(
        f"{_IN}.plugged", f"{_IN}.checking._plugged", "chat/open", needs_file=False
    ),
}
_WITH_DETAIL: Final = ("verifiers",)


def load_domain(name: str) -> Domain:
    """Returns the built-in nano domain `name`: swe, math or code. Raises ConfigError for others."""
    if name not in _NANO:
        names = ", ".join(sorted(_NANO))
        raise ConfigError(f"there is no nano domain {name!r}", hint=f"choose one of: {names}")
    module, _, factory = _NANO[name].partition(":")
    domain: Domain = getattr(import_module(f"{_IN}.nano.{module}"), factory)()
    return domain


def kind_of(name: str) -> tuple[DomainKind, str]:
    """Returns the kind of domain that `name`, a value of `--domain`, means, and the text after `:`.

    For a user's own domain the text is the whole name. Raises ConfigError if no domain fits.
    """
    first, colon, rest = name.partition(":")
    if first in DOMAIN_KINDS and first != "plugged" and bool(colon) == (first in _WITH_DETAIL):
        return DOMAIN_KINDS[first], rest
    if first in _WITH_DETAIL:
        raise ConfigError(f"--domain {name} names no package", hint=f"write --domain {first}:NAME")
    plugged = entry_points(DOMAINS)
    if not colon and name not in plugged:
        names = ", ".join(sorted({*DOMAIN_KINDS, *plugged} - {"plugged"}))
        raise ConfigError(
            f"there is no domain {name!r}, only {names}",
            hint="your own: --domain package.module:Factory, or --grade FILE.py",
        )
    return DOMAIN_KINDS["plugged"], name


def open_domain(options: DomainOptions) -> Domain:
    """Returns the domain that `options.name`, a value of `--domain`, names.

    Raises ConfigError if no domain has that name, or if it needs a task file and gets none.
    """
    kind, detail = kind_of(options.name)
    if kind.needs_file and options.tasks is None:
        raise ConfigError(f"--domain {options.name} needs tasks", hint="give them: --tasks FILE")
    opened: Domain = import_module(kind.module).open_domain(replace(options, detail=detail))
    return opened
