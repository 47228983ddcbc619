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
from meta_agent.domains._options import DomainOptions

_PARTS: Final = ("name", "evaluator_hash", "ceilings", "sampling", "tasks", "open", "regrade")
_NEEDED: Final = "see what a domain needs in meta_agent.core.protocols.Domain"
_TYPES: Final = {"name": str, "evaluator_hash": str, "ceilings": Ceilings, "sampling": Sampling}


def open_domain(options: DomainOptions) -> Domain:
    """Calls a user's domain factory (`module:Name`). Raises ConfigError if it returns no domain."""
    factory = _factory(options.detail)
    offered = {
        "tasks": options.tasks,
        "sandbox": options.sandbox,
        "run": options.run,
        "threshold": options.threshold,
        "mapping": dict(options.mapping),
    }
    try:
        domain = factory(**_accepted_arguments(factory, offered))
    except MetaAgentError:
        raise
    except Exception as error:
        raise ConfigError(
            f"--domain {options.detail}: the factory raised {type(error).__name__}: {error}",
            hint="correct the factory; it may take: tasks, sandbox, run, threshold, mapping",
        ) from error
    return _domain(options.detail, domain)


def _factory(name: str) -> Callable[..., Any]:
    module, colon, attribute = name.partition(":")
    if not colon:
        loaded: Callable[..., Any] = load_entry_point(DOMAINS, name)
        return loaded
    here = str(Path.cwd())
    sys.path[:0] = [] if here in sys.path else [here]
    try:
        value: Any = import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"--domain {name}: {error}",
            hint="write --domain package.module:Factory, from this folder",
        ) from error
    if not callable(value):
        problem = f"--domain {name} is a {type(value).__name__}, which cannot be called"
        raise ConfigError(problem, hint="name a function or class that makes a domain")
    factory: Callable[..., Any] = value
    return factory


def _accepted_arguments(factory: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in offered.items() if name in parameters}


def _domain(name: str, candidate: Any) -> Domain:
    missing = [part for part in _PARTS if not hasattr(candidate, part)]
    if missing:
        raise ConfigError(
            f"--domain {name} gave a {type(candidate).__name__}, which is not a domain: it lacks "
            f"{', '.join(missing)}",
            hint=_NEEDED,
        )
    for part, kind in _TYPES.items():
        if not isinstance(getattr(candidate, part), kind):
            raise ConfigError(
                f"--domain {name}: the domain's {part} is {getattr(candidate, part)!r:.60}, not "
                f"a {kind.__name__}",
                hint=_NEEDED,
            )
    keys = [task.key for split in SPLITS for task in candidate.tasks(split)]
    twice = next((key for key in keys if keys.count(key) > 1), None) if len(keys) < 5000 else None
    if twice is not None:
        problem = f"--domain {name}: two tasks have the key {twice!r}"
        raise ConfigError(problem, hint="give every task of every split a key of its own")
    domain: Domain = candidate
    return domain
