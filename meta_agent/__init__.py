"""meta-agent: an autonomous trainer that co-evolves an LLM policy and the harness around it.

Read `meta_agent.protocols` first: it names every noun. `meta_agent.evolve` is the loop, and
`meta_agent.optimize(...)` runs it from Python (see `meta_agent.library`). Importing this package
has no side effects and pulls in nothing heavy: what it offers is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from meta_agent.distribution import __version__ as __version__

if TYPE_CHECKING:
    from meta_agent.library import Event as Event
    from meta_agent.library import Result as Result
    from meta_agent.library import optimize as optimize
    from meta_agent.library import optimize_async as optimize_async
    from meta_agent.protocols import Outcome as Outcome

_OFFERED = {
    "Event": "meta_agent.library",
    "Result": "meta_agent.library",
    "optimize": "meta_agent.library",
    "optimize_async": "meta_agent.library",
    "Outcome": "meta_agent.protocols",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)
