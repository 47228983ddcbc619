"""The name of this package on the package index, its version, and what its parts need."""

from __future__ import annotations

from typing import Final

__version__ = "0.1.0"
NAME: Final = "meta-agent-loop"  # on the public index `meta-agent` is somebody else's
# Reading and reporting need none of these.
RUN_NEEDS: Final = frozenset(
    {"anthropic", "docker", "git", "jsonschema", "litellm", "openai", "scipy"}
)


def install(extra: str = "") -> str:
    """Returns the command that installs this package, or one of its extras."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"
