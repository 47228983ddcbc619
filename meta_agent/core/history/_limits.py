"""Size limits for the edits that a sandbox hands back, and the function that refuses them.

The defaults are two orders of magnitude above what a harness edit needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from meta_agent.core.errors import CandidateError


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Limits on a candidate's files and message, in bytes, or in files."""

    file_bytes: int = 1 << 20
    total_bytes: int = 32 << 20
    files: int = 5_000
    path_bytes: int = 240
    message_bytes: int = 16 << 10


def refuse(reason: str, message: str) -> NoReturn:
    """Raises a CandidateError with a message for people and a code (`reason`) for programs."""
    raise CandidateError(message, reason=reason)
