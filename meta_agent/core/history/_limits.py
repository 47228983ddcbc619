"""Sizes that a hand-back may not exceed, and the one way to refuse one.

The defaults are two orders of magnitude above what a harness edit needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from meta_agent.core.errors import CandidateError


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Caps on one hand-back. All sizes are of inflated data but for `pack_bytes`."""

    pack_bytes: int = 8 << 20
    objects: int = 5_000
    object_bytes: int = 1 << 20
    total_bytes: int = 32 << 20
    commits: int = 16
    files: int = 5_000
    path_bytes: int = 240
    message_bytes: int = 16 << 10


def refuse(reason: str, message: str) -> NoReturn:
    """Raises the typed refusal that the loop records."""
    raise CandidateError(message, reason=reason)
