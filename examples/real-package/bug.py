"""What a planted fault is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One fault, and how a user meets it."""

    name: str
    split: str
    file: str
    sound: str  # stands exactly once in the file
    faulty: str
    issue: str
