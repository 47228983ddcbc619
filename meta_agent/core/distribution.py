"""What this package is called where it is installed from, its version, and what its parts need."""

from __future__ import annotations

from typing import Final

__version__ = "0.1.0"
NAME: Final = "meta-agent-loop"  # on the public index `meta-agent` is somebody else's
# Reading and reporting need none of these.
RUN_NEEDS: Final = frozenset(
    {"anthropic", "docker", "git", "jsonschema", "litellm", "openai", "scipy"}
)


def install(extra: str = "") -> str:
    """The command that installs this package, or a part of it."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"
