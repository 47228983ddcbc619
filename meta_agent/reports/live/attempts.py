"""The stored attempts of a run: an index that is read in the background and asked by filters.

Promises: a small row an attempt is held, never a conversation; a question is answered from what was
read so far, and the answer says how much that is; a damaged shard is named and left out.
Does not cover: attempts of a training or evaluation that has not ended, which nothing has stored.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Final, NamedTuple

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts import RolloutStore, ShardRef

OUTCOMES: Final = ("clean", "flagged", "failed", "lost")
"""Solved; solved with flagged conduct; not solved; without an outcome, for a machine failed."""
PAGE: Final = 50
_SEED: Final = re.compile(r"-s(\d+)(?=-)")


class Attempt(NamedTuple):
    """One row of the index."""

    line: int
    task: str
    outcome: str
    flags: tuple[str, ...]
    reward: float
    turns: int
    stop: str


@dataclass(slots=True)
class Measurement:
    """One training or evaluation: a shard and what was read of it."""

    ref: ShardRef
    split: str = ""
    commit: str = ""
    policy: str = ""
    rows: list[Attempt] = field(default_factory=list)
    damage: str = ""

    @property
    def short(self) -> str:
        """Its name without the run's."""
        return self.ref.name.partition("/")[2]

    @property
    def seed(self) -> str:
        """The training seed, which its name holds."""
        found = _SEED.search(self.ref.name)
        return found[1] if found else ""


class Wanted(NamedTuple):
    """What somebody looks for; an empty field asks for nothing."""

    task: str = ""
    outcome: str = ""
    flag: str = ""
    version: str = ""
    split: str = ""
    measurement: str = ""

    def fits(self, one: Attempt) -> bool:
        return (
            self.task in one.task
            and self.outcome in ("", one.outcome)
            and (not self.flag or self.flag in one.flags)
        )


class Chosen(NamedTuple):
    """A part of the attempts that fit, and how many there are of which outcome."""

    rows: Sequence[tuple[Measurement, Attempt]]
    start: int
    counts: Mapping[str, int]
    flags: Sequence[str]
    versions: Sequence[str]
    splits: Sequence[str]
    read: int
    stored: int
    damaged: Sequence[str]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Attempts:
    """The index of one run."""

    def __init__(self, store: RolloutStore, run: str) -> None:
        self._store, self._run = store, run
        # Invariant: guards `_known` and `_reading`; a measurement's rows are replaced, never grown.
        self._lock = threading.Lock()
        self._known: dict[str, Measurement] = {}
        self._reading: threading.Thread | None = None

    def look(self) -> None:
        """Takes up what was stored since it was last looked; it is read in the background."""
        names = [name for name in self._store.names() if name.startswith(f"{self._run}/")]
        with self._lock:
            for name in names:
                ref, known = self._store.find(name), self._known.get(name)
                if ref and (known is None or known.ref != ref):
                    self._known[name] = Measurement(ref)
            if self._reading is None and any(map(_unread, self._known.values())):
                self._reading = threading.Thread(target=self._read_all, daemon=True)
                self._reading.start()

    def wait(self) -> None:
        """Returns once all that is known has been read."""
        if (thread := self._reading) is not None:
            thread.join()

    @property
    def reading(self) -> bool:
        """Whether some are still to be read."""
        return self._reading is not None

    def measurements(self) -> list[Measurement]:
        """Every one that was read, evaluations first."""
        with self._lock:
            return [one for _, one in sorted(self._known.items()) if not _unread(one)]

    def find(self, wanted: Wanted, label: Callable[[str], str], start: int = 0) -> Chosen:
        """The attempts that fit. `label` names a commit for people."""
        counts: Counter[str] = Counter()
        flags: set[str] = set()
        rows: list[tuple[Measurement, Attempt]] = []
        every = self.measurements()
        for one in every:
            flags.update(flag for row in one.rows for flag in row.flags)
            if not _is_of(one, wanted, label):
                continue
            for row in filter(wanted.fits, one.rows):
                if start <= counts.total() < start + PAGE:
                    rows.append((one, row))
                counts[row.outcome] += 1
        with self._lock:
            stored = sum(one.ref.count for one in self._known.values())
        return Chosen(
            rows,
            start,
            counts,
            sorted(flags),
            sorted({label(one.commit) for one in every}),
            sorted({one.split for one in every}),
            sum(one.ref.count for one in every),
            stored,
            [f"{one.short}: {one.damage}" for one in every if one.damage],
        )

    def open(self, measurement: str, line: int) -> Rollout | None:
        """One attempt whole, with its tokens; None where there is none."""
        with self._lock:
            known = self._known.get(f"{self._run}/{measurement}")
        return self._store.at(known.ref, line) if known else None

    def _read_all(self) -> None:
        while True:
            with self._lock:
                waiting = [one for _, one in sorted(self._known.items()) if _unread(one)]
                if not waiting:
                    self._reading = None
                    return
            read = self._read(waiting[0].ref)
            with self._lock:
                self._known[read.ref.name] = read

    def _read(self, ref: ShardRef) -> Measurement:
        made = Measurement(ref)
        try:
            for line, text in enumerate(self._store.iter_lines(ref)):
                row = json.loads(text)
                made.rows.append(_attempt(line, row))
            if made.rows:
                made.split, made.commit = str(row["split"]), str(row["harness_commit"])
                made.policy = str(row["policy"])
        except (MetaAgentError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            made.damage = str(error) or repr(error)
        return made


def _unread(one: Measurement) -> bool:
    return bool(one.ref.count) and not one.rows and not one.damage


def _is_of(one: Measurement, wanted: Wanted, label: Callable[[str], str]) -> bool:
    return (
        wanted.measurement in ("", one.short)
        and wanted.split in ("", one.split)
        and wanted.version in ("", label(one.commit))
    )


def _attempt(line: int, row: Mapping[str, JSON]) -> Attempt:
    """A row of the index; words that recur are held once."""
    weights, rewards = row["weights"], row["rewards"]
    return Attempt(
        line,
        intern(str(row["task_key"])),
        _outcome(row),
        tuple(intern(str(flag)) for flag in row["flags"]),
        sum(weights.get(name, 1.0) * value for name, value in rewards.items()),
        int(row["turns"]),
        intern(str(row["stop_reason"])),
    )


def _outcome(row: Mapping[str, JSON]) -> str:
    if row["outcome"] is None:
        return "lost"
    if not row["outcome"]:
        return "failed"
    return "flagged" if row["flags"] else "clean"


def names_of_commits(pairs: Iterator[tuple[str, str]]) -> Callable[[str], str]:
    """The first name that people have for a commit; its first letters where they have none."""
    names: dict[str, str] = {}
    for commit, name in pairs:
        names.setdefault(commit, name)
    return lambda commit: names.get(commit) or commit[:8]
