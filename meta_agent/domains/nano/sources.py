"""The harness sources of the nano suites as they ship, without planted faults."""

from __future__ import annotations

from typing import Final, Literal

from meta_agent.core.errors import ConfigError
from meta_agent.core.resources import shipped_harness

Variant = Literal["seed", "competent"]
SUITES: Final = ("swe", "math", "code")


def sources(suite: str, variant: Variant) -> dict[str, bytes]:
    """Returns a suite's harness as files by path. Raises ConfigError if there is no such suite."""
    if suite not in SUITES:
        raise ConfigError(f"there is no nano suite {suite!r}", hint=f"choose {', '.join(SUITES)}")
    return shipped_harness(f"nano/{suite}/{variant}")
