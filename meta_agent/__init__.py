"""meta-agent: an autonomous trainer that co-evolves an LLM policy and the harness around it.

Read `meta_agent.core.protocols` first: it names every noun. `meta_agent.composition.evolve` is the
loop, and `meta_agent.optimize(...)` runs it from Python (see `meta_agent.composition.library`).
Importing this package has no side effects and loads nothing heavy: each public name is imported
at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meta_agent.composition.library import Event as Event
    from meta_agent.composition.library import Result as Result
    from meta_agent.composition.library import optimize as optimize
    from meta_agent.composition.library import optimize_async as optimize_async
    from meta_agent.core.protocols import Outcome as Outcome

    __version__: str

_OFFERED = {
    "Event": "meta_agent.composition.library",
    "Result": "meta_agent.composition.library",
    "optimize": "meta_agent.composition.library",
    "optimize_async": "meta_agent.composition.library",
    "Outcome": "meta_agent.core.protocols",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("meta_agent.core.distribution").version()
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)
