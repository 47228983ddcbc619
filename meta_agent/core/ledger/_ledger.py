"""The ledger records what was decided, done, measured and paid, in one file that survives a kill.

Promises: a step that is recorded as done stays done, and its work never runs again. Work that was
in flight at a crash runs again, so it must be repeatable. Two threads never run the same step at
once. The first call and every later one return the same value (as far as JSON can hold it).
Finished steps are chained by their hashes. So a change to a step shows (`broken`), if a digest is
stored elsewhere.

Does not cover: the effects of a step's work outside this file. A step that moves a git ref or
writes a checkpoint makes itself repeatable (compare-and-swap, manifest last).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self, cast

from meta_agent.core.errors import ConfigError, IntegrityError, MetaAgentError
from meta_agent.core.ledger._crash import crash_point
from meta_agent.core.ledger._journal import Journal
from meta_agent.core.ledger._lock import OwnerLock, StepLocks, live_owner
from meta_agent.core.ledger._money import Purse
from meta_agent.core.ledger._rows import (
    FAILED,
    WAIT,
    Event,
    RunRow,
    Step,
    T,
    canonical,
    decode,
    encode,
    link,
)
from meta_agent.core.ledger.kinds import StepKind


class Ledger(Purse):
    """A workspace's journal of steps, events, runs and spending, in one SQLite file.

    A step is a piece of a run's work that is recorded under a key and never done twice.
    """

    def __init__(self, journal: Journal, lock: OwnerLock | None) -> None:
        super().__init__(journal)
        self._lock = lock
        self._steps = StepLocks()
        self.recorded_at = 0.0
        """When this process last recorded a step's beginning or end, or an event (Unix time)."""

    @classmethod
    def open(cls, path: str | Path, *, owner_lock: bool = True) -> Ledger:
        """Opens the ledger at `path` as its one owner, or without `owner_lock` for reading only.

        The owner creates a missing file. Raises ConfigError if the folder, or for a reader the
        file, does not exist. Raises PreflightError if another process owns the ledger.
        """
        path = Path(path)
        if owner_lock:
            return cls._open_owned(path)
        if not path.is_file():
            raise ConfigError(
                f"there is no ledger at {path}", hint="start a run: meta-agent evolve"
            )
        return cls(Journal(path, writable=False), None)

    @classmethod
    def _open_owned(cls, path: Path) -> Ledger:
        if not path.parent.is_dir():
            raise ConfigError(
                f"there is no folder {path.parent}", hint="make a workspace: meta-agent init"
            )
        lock = OwnerLock(path)
        try:
            return cls(Journal(path, writable=True), lock)
        except BaseException:
            lock.close()
            raise

    @property
    def folder(self) -> Path:
        """Returns the absolute path of the folder that holds the ledger's file."""
        return self._journal.path.parent.resolve()

    def close(self) -> None:
        """Closes the file and releases the owner's lock, if this is the owner."""
        self._journal.close()
        if self._lock:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- steps ---------------------------------------------------------------------------------

    def once(
        self, key: str, kind: StepKind, intent: Mapping[str, object], work: Callable[[], T]
    ) -> T:
        """Returns the recorded outcome of the step `key`; if there is none, runs `work` for it.

        `kind` and `intent` say what the work is. Raises IntegrityError if they differ from those
        recorded under the same key. An error of `work` is noted and raised.
        """
        with self._steps.alone(key):
            step = self._begin(key, kind, canonical(intent))
            if step is not None:
                return cast("T", step.outcome)
            crash_point(f"before_work:{kind}")
            started = time.monotonic()
            outcome = encode(self._run_work(key, work))
            crash_point(f"after_work:{kind}")
            self._finish(key, outcome, time.monotonic() - started)
            crash_point(f"after_outcome:{kind}")
            return cast("T", decode(outcome))

    def _begin(self, key: str, kind: str, intent: str) -> Step | None:
        """Returns the recorded step if it is done. Otherwise records its intent."""
        with self._journal.transaction() as db:
            step = self.step(key)
            if step is not None:
                _require_same_work(step, kind, intent)
                if step.is_done:
                    return step
            db.execute(
                "INSERT INTO steps (key, run, kind, intent, attempts, started_at) "
                "VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT (key) DO UPDATE SET "
                "attempts = attempts + 1, started_at = excluded.started_at, error = NULL",
                (key, self._run, kind, intent, time.time()),
            )
        self.recorded_at = time.time()
        return None

    def _run_work(self, key: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:
            # Best effort, for `status` and `log`: the failure itself must reach the caller.
            with suppress(MetaAgentError):
                self._note_failure(key, f"{type(error).__name__}: {error}"[:2000])
            raise

    def _note_failure(self, key: str, error: str) -> None:
        """Records a failure on the step, until the next attempt, and in the log for good."""
        with self._journal.transaction() as db:
            db.execute("UPDATE steps SET error = ? WHERE key = ?", (error, key))
            db.execute(
                "INSERT INTO events (run, kind, at, payload) VALUES (?, ?, ?, ?)",
                (self._run, FAILED, time.time(), encode({"step": key, "error": error})),
            )

    def _finish(self, key: str, outcome: str, duration_sec: float) -> None:
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE steps SET outcome = ?, finished_at = ?, duration_sec = ? WHERE key = ?",
                (outcome, time.time(), duration_sec, key),
            )
            before = self._last_link()
            done = self.step(key)
            if done is not None:
                digest = link(before, done)
                db.execute("INSERT INTO chain (key, digest) VALUES (?, ?)", (key, digest))
        self.recorded_at = time.time()

    def _last_link(self) -> str:
        rows = self._journal.rows("SELECT digest FROM chain ORDER BY seq DESC LIMIT 1")
        return str(rows[0][0]) if rows else ""

    def head(self, key: str) -> str | None:
        """Returns the hash over the step `key` and all before it, or None if there is none."""
        rows = self._journal.rows("SELECT digest FROM chain WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def order(self) -> list[str]:
        """Returns the keys of all finished steps, in the order in which they were recorded."""
        return [str(key) for (key,) in self._journal.rows("SELECT key FROM chain ORDER BY seq")]

    def heads(self) -> frozenset[str]:
        """Returns the hash after each finished step (`head`)."""
        return frozenset(
            str(digest) for (digest,) in self._journal.rows("SELECT digest FROM chain")
        )

    def broken(self) -> str | None:
        """Returns the key of the first finished step that was changed later, or None.

        It recomputes the hashes of all steps and compares them with those stored (`head`).
        """
        before, steps = "", {step.key: step for step in self.steps() if step.is_done}
        for key, digest in self._journal.rows("SELECT key, digest FROM chain ORDER BY seq"):
            step = steps.pop(str(key), None)
            if step is None or link(before, step) != digest:
                return str(key)
            before = str(digest)
        return next(iter(steps), None)

    def step(self, key: str) -> Step | None:
        """Returns the step `key`, finished or not, or None if the ledger has no such step."""
        rows = self._journal.rows(Step.QUERY + "WHERE key = ?", (key,))
        return Step.parse(rows[0]) if rows else None

    @property
    def owner(self) -> str | None:
        """Returns the process id of the ledger's owner, maybe this process; None without one."""
        return live_owner(self._journal.path)

    def steps(self, run: str | None = None, kind: StepKind | None = None) -> list[Step]:
        """Returns all steps, or those of a run or a kind, in the order in which they began."""
        where, arguments = _filter(run=run, kind=kind)
        return [
            Step.parse(row)
            for row in self._journal.rows(Step.QUERY + where + "ORDER BY seq", arguments)
        ]

    def outcomes(self, kind: StepKind, holds: type[T], run: str | None = None) -> list[T]:
        """Returns the outcomes of the finished steps of a kind, in order; `holds` is their type."""
        return [step.outcome_as(holds) for step in self.steps(run, kind) if step.is_done]

    # --- events --------------------------------------------------------------------------------

    def event(self, kind: str, payload: Mapping[str, object], run: str | None = None) -> int:
        """Appends an event to the log of a run, by default the current one; returns its number."""
        with self._journal.transaction() as db:
            cursor = db.execute(
                "INSERT INTO events (run, kind, at, payload) VALUES (?, ?, ?, ?)",
                (run or self._run, kind, time.time(), encode(payload)),
            )
            number = int(cursor.lastrowid or 0)
        if kind != WAIT:
            self.recorded_at = time.time()
        return number

    def events(self, run: str | None = None, kind: str | None = None) -> list[Event]:
        """Returns all events, or those of a run or a kind, oldest first."""
        where, arguments = _filter(run=run, kind=kind)
        rows = self._journal.rows(Event.QUERY + where + "ORDER BY seq", arguments)
        return [Event.parse(row) for row in rows]

    # --- runs ----------------------------------------------------------------------------------

    def start_run(self, run_id: str, config: Mapping[str, object], *, config_hash: str) -> RunRow:
        """Records that a run begins or resumes. Later steps and events carry its id.

        Raises IntegrityError if the run was started before with another `config_hash`.
        """
        with self._journal.transaction() as db:
            earlier = self.run(run_id)
            if earlier is not None and earlier.config_hash != config_hash:
                raise IntegrityError(
                    f"run {run_id} was started with other settings (their hash is "
                    f"{earlier.config_hash[:12]}, not {config_hash[:12]})",
                    hint="repeat the settings of its first start, or choose another --workspace",
                )
            db.execute(
                "INSERT INTO runs (run, config_hash, config, starts, started_at) "
                "VALUES (?, ?, ?, 1, ?) ON CONFLICT (run) DO UPDATE SET "
                "starts = starts + 1, config = excluded.config, finished_at = NULL, "
                "exit_reason = NULL, result = NULL",
                (run_id, config_hash, encode(config), time.time()),
            )
        self._run = run_id
        return self._existing_run(run_id)

    def finish_run(self, run_id: str, exit_reason: str) -> None:
        """Records why a run ended; `done` means that nothing is left to do.

        Raises IntegrityError if the ledger has no such run.
        """
        self._existing_run(run_id)
        with self._journal.transaction() as db:
            db.execute(
                "UPDATE runs SET finished_at = ?, exit_reason = ? WHERE run = ?",
                (time.time(), exit_reason, run_id),
            )

    def run(self, run_id: str) -> RunRow | None:
        """Returns the record of a run, or None if the ledger has no such run."""
        rows = self._journal.rows(RunRow.QUERY + "WHERE run = ?", (run_id,))
        return RunRow.parse(rows[0]) if rows else None

    def runs(self) -> list[RunRow]:
        """Returns all runs, oldest first."""
        return [RunRow.parse(row) for row in self._journal.rows(RunRow.QUERY + "ORDER BY rowid")]

    def _existing_run(self, run_id: str) -> RunRow:
        row = self.run(run_id)
        if row is None:
            raise IntegrityError(
                f"the ledger has no run {run_id}", hint="see the runs: meta-agent status"
            )
        return row


def _require_same_work(step: Step, kind: str, intent: str) -> None:
    if step.kind != kind or canonical(step.intent) != intent:
        raise IntegrityError(
            f"the ledger records step {step.key} as {step.kind} {canonical(step.intent)[:300]}, "
            f"but this run asks for {kind} {intent[:300]}",
            hint="start in a new workspace with --workspace, or restore the ledger from a copy",
        )


def _filter(**columns: str | None) -> tuple[str, list[str]]:
    """Returns a WHERE clause over fixed column names, and its arguments."""
    values = {name: value for name, value in columns.items() if value is not None}
    if not values:
        return "", []
    return "WHERE " + " AND ".join(f"{name} = ?" for name in values) + " ", list(values.values())
