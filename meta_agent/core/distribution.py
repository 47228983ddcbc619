"""The name of this package on the package index, its version, and what its parts need."""

from __future__ import annotations

from importlib import metadata
from typing import Final

NAME: Final = "meta-agent-loop"  # on the public index `meta-agent` is somebody else's
# Reading and reporting need none of these.
RUN_NEEDS: Final = frozenset(
    {"anthropic", "docker", "git", "jsonschema", "litellm", "openai", "scipy"}
)


def version() -> str:
    """Returns the version of the installed package, or "unknown" if nothing is installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "unknown"


def install(extra: str = "") -> str:
    """Returns the pip command that installs this package, with optional dependencies `extra`."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"
