"""Domains that somebody else wrote: `--domain package.module:Factory`, or an entry point's name.

The factory is called with what it has parameters for, of `tasks`, `sandbox`, `run`, `threshold` and
`mapping`, and gives a `Domain`. It runs in this process: it is trusted as any import is.

A domain of this kind may say `harness`: files by path that its tasks start from.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import ConfigError, MetaAgentError
from meta_agent.core.protocols import SPLITS, Ceilings, Domain, Sampling
from meta_agent.core.registry import DOMAINS, load_entry_point
from meta_agent.domains._asked import Asked

_PARTS: Final = ("name", "evaluator_hash", "ceilings", "sampling", "tasks", "open", "regrade")
_TYPES: Final[Mapping[str, type]] = {
    "name": str,
    "evaluator_hash": str,
    "ceilings": Ceilings,
    "sampling": Sampling,
}


def open_domain(asked: Asked) -> Domain:
    """Finds the factory, calls it, and refuses what is no domain."""
    factory = _factory(asked.detail)
    offered = {
        "tasks": asked.tasks,
        "sandbox": asked.sandbox,
        "run": asked.run,
        "threshold": asked.threshold,
        "mapping": dict(asked.mapping),
    }
    try:
        made = factory(**_taken(factory, offered))
    except MetaAgentError:
        raise
    except Exception as error:
        raise ConfigError(
            f"--domain {asked.detail}: the factory raised {type(error).__name__}: {error}",
            hint="it is called with those of tasks, sandbox, run, threshold, mapping that it takes",
        ) from error
    return _domain(asked.detail, made)


def _factory(name: str) -> Callable[..., Any]:
    module, colon, attribute = name.partition(":")
    if not colon:
        loaded: Callable[..., Any] = load_entry_point(DOMAINS, name)
        return loaded
    here = str(Path.cwd())
    sys.path[:0] = [] if here in sys.path else [here]
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"--domain {name}: {error}", hint="--domain package.module:Factory, from this folder"
        ) from error
    if not callable(found):
        raise ConfigError(f"--domain {name} is a {type(found).__name__}, which cannot be called")
    factory: Callable[..., Any] = found
    return factory


def _taken(factory: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    try:
        wanted = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in offered.items() if name in wanted}


def _domain(name: str, made: Any) -> Domain:
    missing = [part for part in _PARTS if not hasattr(made, part)]
    if missing:
        raise ConfigError(
            f"--domain {name} gave a {type(made).__name__}, which is no domain: it has no "
            f"{', '.join(missing)}",
            hint="meta_agent.core.protocols.Domain says what one has",
        )
    for part, kind in _TYPES.items():
        if not isinstance(getattr(made, part), kind):
            raise ConfigError(
                f"--domain {name}: its {part} is {getattr(made, part)!r:.60}, expected "
                f"{kind.__name__}"
            )
    keys = [task.key for split in SPLITS for task in made.tasks(split)]
    twice = next((key for key in keys if keys.count(key) > 1), None) if len(keys) < 5000 else None
    if twice is not None:
        raise ConfigError(f"--domain {name}: two of its tasks have the key {twice!r}")
    domain: Domain = made
    return domain
