"""An index of the stored attempts of a run, read in the background and searched by filters.

Promises: the index holds a small row for each attempt and never a conversation. A search uses what
was read so far and says how much that is. A damaged shard is named and left out.
Does not cover: attempts of a training or evaluation that goes on, because they are not stored yet.
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
"""Solved; solved with flagged conduct; not solved; no outcome, because a machine failed."""
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
    """One training or evaluation: a shard and the rows read from it."""

    ref: ShardRef
    split: str = ""
    commit: str = ""
    policy: str = ""
    rows: list[Attempt] = field(default_factory=list)
    damage: str = ""

    @property
    def short(self) -> str:
        """Its name without the name of the run."""
        return self.ref.name.partition("/")[2]

    @property
    def seed(self) -> str:
        """The training seed in its name."""
        match = _SEED.search(self.ref.name)
        return match[1] if match else ""


class Wanted(NamedTuple):
    """The filters of a search; an empty field fits everything."""

    task: str = ""
    outcome: str = ""
    flag: str = ""
    version: str = ""
    split: str = ""
    measurement: str = ""

    def fits(self, attempt: Attempt) -> bool:
        return (
            self.task in attempt.task
            and self.outcome in ("", attempt.outcome)
            and (not self.flag or self.flag in attempt.flags)
        )


class Chosen(NamedTuple):
    """One page of the attempts that fit, and the count of each outcome."""

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
        """Lists shards that are new since the last call, and has a thread read them."""
        names = [name for name in self._store.names() if name.startswith(f"{self._run}/")]
        with self._lock:
            for name in names:
                ref, measurement = self._store.find(name), self._known.get(name)
                if ref and (measurement is None or measurement.ref != ref):
                    self._known[name] = Measurement(ref)
            if self._reading is None and any(map(_unread, self._known.values())):
                self._reading = threading.Thread(target=self._read_all, daemon=True)
                self._reading.start()

    def wait(self) -> None:
        """Returns once every listed shard was read."""
        if (thread := self._reading) is not None:
            thread.join()

    @property
    def reading(self) -> bool:
        """True while shards are being read."""
        return self._reading is not None

    def measurements(self) -> list[Measurement]:
        """Returns every shard that was read, evaluations first."""
        with self._lock:
            return [
                measurement
                for _, measurement in sorted(self._known.items())
                if not _unread(measurement)
            ]

    def find(self, query: Wanted, label: Callable[[str], str], start: int = 0) -> Chosen:
        """Returns the attempts that fit, from `start` on. `label` names a commit for people."""
        counts: Counter[str] = Counter()
        flags: set[str] = set()
        rows: list[tuple[Measurement, Attempt]] = []
        every = self.measurements()
        for measurement in every:
            flags.update(flag for row in measurement.rows for flag in row.flags)
            if not _is_of(measurement, query, label):
                continue
            for row in filter(query.fits, measurement.rows):
                if start <= counts.total() < start + PAGE:
                    rows.append((measurement, row))
                counts[row.outcome] += 1
        with self._lock:
            stored = sum(measurement.ref.count for measurement in self._known.values())
        return Chosen(
            rows,
            start,
            counts,
            sorted(flags),
            sorted({label(measurement.commit) for measurement in every}),
            sorted({measurement.split for measurement in every}),
            sum(measurement.ref.count for measurement in every),
            stored,
            [
                f"{measurement.short}: {measurement.damage}"
                for measurement in every
                if measurement.damage
            ],
        )

    def open(self, measurement: str, line: int) -> Rollout | None:
        """Returns one whole attempt with its tokens, or None if there is none."""
        with self._lock:
            stored = self._known.get(f"{self._run}/{measurement}")
        return self._store.at(stored.ref, line) if stored else None

    def _read_all(self) -> None:
        while True:
            with self._lock:
                waiting = [
                    measurement
                    for _, measurement in sorted(self._known.items())
                    if _unread(measurement)
                ]
                if not waiting:
                    self._reading = None
                    return
            read = self._read(waiting[0].ref)
            with self._lock:
                self._known[read.ref.name] = read

    def _read(self, ref: ShardRef) -> Measurement:
        measurement = Measurement(ref)
        try:
            for line, text in enumerate(self._store.iter_lines(ref)):
                row = json.loads(text)
                measurement.rows.append(_attempt(line, row))
            if measurement.rows:
                measurement.split, measurement.commit = (
                    str(row["split"]),
                    str(row["harness_commit"]),
                )
                measurement.policy = str(row["policy"])
        except (MetaAgentError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            measurement.damage = str(error) or repr(error)
        return measurement


def _unread(measurement: Measurement) -> bool:
    return bool(measurement.ref.count) and not measurement.rows and not measurement.damage


def _is_of(measurement: Measurement, query: Wanted, label: Callable[[str], str]) -> bool:
    return (
        query.measurement in ("", measurement.short)
        and query.split in ("", measurement.split)
        and query.version in ("", label(measurement.commit))
    )


def _attempt(line: int, row: Mapping[str, JSON]) -> Attempt:
    """Returns a row of the index; strings that recur are stored once."""
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
    """Returns a function from a commit to its first name, or to its first eight letters."""
    names: dict[str, str] = {}
    for commit, name in pairs:
        names.setdefault(commit, name)
    return lambda commit: names.get(commit) or commit[:8]
