"""What became of one run of the official tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Report:
    """What one run of the official tests said, and whether it can be believed."""

    verdict: str  # "complete", or why there is nothing to believe
    results: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()  # changed files that a test read
    strangers: tuple[
        str, ...
    ] = ()  # methods of compared values, and conduct, that need a reference
    unchecked: tuple[str, ...] = ()  # deciding tests of which no twin could say anything
