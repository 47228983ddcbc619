"""The tasks of a file with the attempts that a check grades at each, for every kind of domain.

`repetitions` finds tasks that share a mark, a text by which a domain identifies a task.
`near_pairs` finds tasks with nearly the same text: four fifths of all their runs of five words are
in both. Only texts that share one of their smallest hashes are compared, so thousands of tasks take
seconds.

Does not cover: paraphrases, and texts shorter than five words.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import Domain, Outcome

RIGHT: Final = frozenset({"gold", "again"})
"""The names of attempts that have to resolve their task. All others must not."""
RUN_WORDS: Final = 5
ALIKE: Final = 0.8
_SKETCH: Final = 24
_CROWD: Final = 200  # so many tasks share the run because all texts share a form
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Subject:
    """A task to check, with attempts to grade. Tasks that share a mark count as the same task."""

    key: str
    split: str
    line: int
    text: str
    marks: tuple[str, ...]
    size: str = ""
    attempts: Mapping[str, Callable[[], Outcome]] = field(default_factory=dict)
    """The gradings of attempts, by the name of the attempt."""
    complaints: tuple[str, ...] = ()
    """What is wrong with the task, whatever the attempts say."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """The tasks that a check of a domain goes through, with the attempts to grade at each."""

    domain: Domain
    noun: str
    """What an attempt hands in."""
    columns: tuple[str, ...]
    """The names of the attempts, in the order of the table."""
    tasks: tuple[Subject, ...]
    rows_refused: int = 0
    extra_notes: Callable[[], tuple[str, ...]] = lambda: ()
    """Returns notes on the file that only a check needs: some read every task's sources."""
    archives: tuple[tuple[str, str], ...] = ()
    """The archives that the tasks rest on, with their hashes."""
    evidence: Callable[[Outcome], Iterable[str]] = lambda outcome: ()
    """Returns details of an outcome beside its verdict, for the reason of a failure."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*Capabilities.of(self.domain).notes, *self.extra_notes())


def repetitions(tasks: Iterable[Subject]) -> dict[str, str]:
    """Returns, by task key, the reason why a task counts as a repetition of an earlier one."""
    first: dict[str, Subject] = {}
    reasons: dict[str, str] = {}
    for task in tasks:
        for mark in task.marks:
            earlier = first.setdefault(mark, task)
            if earlier is not task:
                reasons[task.key] = _repetition(task, earlier)
    return reasons


def _repetition(task: Subject, earlier: Subject) -> str:
    if earlier.split != task.split:
        return (
            f"the same task as {earlier.key}, which is in another split "
            f"({earlier.split}, this one {task.split}): the splits overlap"
        )
    return f"the same task as {earlier.key}"


def near_pairs(tasks: Sequence[Subject]) -> list[tuple[str, str, float]]:
    """Returns keys and overlap (0.8 to 1) of pairs of tasks with similar text in two splits."""
    runs = {task.key: _runs(task.text) for task in tasks}
    split = {task.key: task.split for task in tasks}
    pairs = []
    for first, second in sorted(_candidates(runs)):
        if split[first] != split[second]:
            share = len(runs[first] & runs[second]) / len(runs[first] | runs[second])
            if share >= ALIKE:
                pairs.append((first, second, round(share, 3)))
    return sorted(pairs, key=lambda pair: (-pair[2], pair))


def _candidates(runs: dict[str, frozenset[int]]) -> set[tuple[str, str]]:
    """Returns pairs that share one of their smallest hashes: nearly all pairs of alike texts."""
    holders: dict[int, list[str]] = {}
    for key, hashes in runs.items():
        for smallest in sorted(hashes)[:_SKETCH]:
            holders.setdefault(smallest, []).append(key)
    small = (sorted(keys) for keys in holders.values() if 1 < len(keys) <= _CROWD)
    return {pair for keys in small for pair in combinations(keys, 2)}


def _runs(text: str) -> frozenset[int]:
    words = _WORD.findall(text.lower())
    spans = (words[at : at + RUN_WORDS] for at in range(len(words) - RUN_WORDS + 1))
    return frozenset(zlib.crc32(" ".join(span).encode()) for span in spans)
