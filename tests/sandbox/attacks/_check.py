"""The form of an attack on a sandbox, and the limits under which each is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meta_agent.core.protocols import Sandbox, SandboxLimits

# Small enough that every bomb goes off within seconds.
LIMITS = SandboxLimits(memory_mb=256, cpus=1.0, pids=64, scratch_mb=32, deadline_sec=120.0)


@dataclass(frozen=True, slots=True)
class Check:
    """One attack and its control. Both return an empty string if all is well, or what is not."""

    name: str
    promise: str  # "" for what every backend must hold, else a name from `FENCES`
    control: Callable[[Sandbox], str]
    attack: Callable[[Sandbox], str]
    neighbour: Callable[[Sandbox], str] | None = None  # prepares a second sandbox beside it
    before: Callable[[], object] | None = None  # prepares the host before the sandbox is opened
    alone: bool = False  # costs its sandbox something that the next attack would miss
