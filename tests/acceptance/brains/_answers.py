"""What the simulated solver knows: for each report, the text to replace and what by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol


class _Bug(Protocol):
    """A planted fault of `examples/real-package`."""

    name: str
    file: str
    sound: str
    faulty: str
    issue: str


@dataclass(frozen=True)
class Fix:
    """The edit that repairs one planted fault; `old` stands once in the faulty file."""

    name: str
    file: str
    old: str
    new: str
    issue: str


def fixes_of(bugs: Iterable[_Bug], sources: dict[str, str]) -> list[Fix]:
    """The fix of every fault, given the sound source files."""
    return [_fix(bug, sources[bug.file]) for bug in bugs]


def _fix(bug: _Bug, sound: str) -> Fix:
    faulty = sound.replace(bug.sound, bug.faulty)
    old, new = faulty.splitlines(keepends=True), sound.splitlines(keepends=True)
    changed = [c for c in SequenceMatcher(None, old, new).get_opcodes() if c[0] != "equal"]
    first, last = changed[0], changed[-1]
    for around in range(1, len(old)):
        start, end = max(0, first[1] - around), last[2] + around
        text = "".join(old[start:end])
        if faulty.count(text) == 1:
            fixed = "".join(new[max(0, first[3] - around) : last[4] + around])
            return Fix(bug.name, bug.file, text, fixed, bug.issue)
    raise AssertionError(f"{bug.name}: no text around the fault stands alone")
