"""The only file that talks to SQLite: one connection, short transactions, plain error messages.

Promises: a transaction that returned is on disk (WAL with `synchronous=FULL` syncs each commit);
one that raised changed nothing. After an I/O error the journal refuses further work. Pages of a
failed sync may be marked clean, so a retry would report a success that never happened.

A reader that may not write beside the file reads a copy, since WAL needs an index file there.

Does not cover: disks that report a sync that did not happen, and writes by other programs.
"""

from __future__ import annotations

import shutil
import sqlite3  # noqa: TID251
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from meta_agent.core.distribution import install
from meta_agent.core.errors import ConfigError, InfrastructureError, IntegrityError, MetaAgentError
from meta_agent.core.ledger._migrations import MIGRATIONS
from meta_agent.core.ledger._rows import Cell

BUSY_TIMEOUT_SEC: Final = 30.0

_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CLOSED: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_PRIMARY_CODE_MASK: Final = 0xFF  # extended codes carry the detail in the higher bits


class Journal:
    """The open SQLite file of a ledger, for atomic writes and for queries by several threads."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path = path
        self.writable = writable
        # Invariant: held for the length of one transaction or one read, never while a step's work
        # runs; so threads take turns on the one connection and no work waits for another's work.
        self._lock = threading.RLock()
        self._failed: str | None = None
        with self._translated(), ExitStack() as aside:
            self._db = _connect(path, writable, aside)
            self._prepare()
            self._aside = aside.pop_all()

    def _prepare(self) -> None:
        if self.writable:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._migrate()
        else:
            self._db.execute("PRAGMA query_only=ON")
            self._require_known_schema(_applied(self._db))

    def _migrate(self) -> None:
        with self.transaction() as db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at REAL NOT NULL)"
            )
            applied = _applied(db)
            self._require_known_schema(applied, upgrade=True)
            for name, statement in MIGRATIONS:
                if name not in applied:
                    db.execute(statement)
                    db.execute("INSERT INTO migrations VALUES (?, ?)", (name, time.time()))

    def _require_known_schema(self, applied: set[str], *, upgrade: bool = False) -> None:
        names_here = {name for name, _ in MIGRATIONS}
        if newer := sorted(applied - names_here):
            raise ConfigError(
                f"{self.path} was written by a newer meta-agent (it has table change {newer[0]})",
                hint=f"upgrade with: {install()} --upgrade",
            )
        if not upgrade and names_here - applied:
            raise ConfigError(
                f"the ledger {self.path} is not complete yet",
                hint="run the evolve command again: it completes the ledger",
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection for one atomic, durable write. An exception in the block undoes it.

        Raises IntegrityError if the file was opened for reading only.
        """
        if not self.writable:
            raise IntegrityError(
                f"a write to {self.path} was refused, because it is open for reading only: this "
                "is a bug, please report it"
            )
        with self._lock, self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, query: str, arguments: Sequence[Cell] = ()) -> list[tuple[Cell, ...]]:
        """Returns all rows of an SQL query. Raises a MetaAgentError if SQLite fails."""
        with self._lock, self._translated():
            return self._db.execute(query, tuple(arguments)).fetchall()

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        with self._lock, self._aside, suppress(sqlite3.Error):
            self._db.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._failed:
            raise InfrastructureError(
                self._failed, hint="run the same command again: it resumes from the ledger"
            )
        try:
            yield
        except sqlite3.Error as error:
            translated = _in_plain_words(error, self.path)
            if _code(error) == sqlite3.SQLITE_IOERR:
                self._failed = str(translated)
            raise translated from error


def _connect(path: Path, writable: bool, aside: ExitStack) -> sqlite3.Connection:
    """Opens the file. Readers open it read-write if they may, since a live WAL needs its index."""
    if writable:
        return _open(path, "rwc")
    for mode in ("rw", "ro"):
        try:
            return _open(path, mode)
        except sqlite3.OperationalError as error:
            if _code(error) not in _CLOSED:
                raise
    return _open(_copy(path, aside), "rw")


def _copy(path: Path, aside: ExitStack) -> Path:
    """Copies the file and its WAL to a temporary folder, where SQLite may write an index."""
    folder = Path(aside.enter_context(tempfile.TemporaryDirectory(prefix="meta-agent-ledger-")))
    wal = path.with_name(path.name + "-wal")
    for file in (path, *([wal] if wal.exists() else [])):
        shutil.copyfile(file, folder / file.name)
    return folder / path.name


def _open(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_SEC,
        isolation_level=None,  # transactions are spelled out here, never implicit
        check_same_thread=False,  # `Journal._lock` serialises the threads
    )
    try:
        db.execute("SELECT count(*) FROM sqlite_master")
    except BaseException:
        db.close()
        raise
    return db


def _applied(db: sqlite3.Connection) -> set[str]:
    try:
        return {name for (name,) in db.execute("SELECT name FROM migrations")}
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return set()


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK


def _in_plain_words(error: sqlite3.Error, path: Path) -> MetaAgentError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return InfrastructureError(
            f"the disk that holds {path} is full",
            hint="free some space, then run the same command again: it resumes",
        )
    if code in _CORRUPT:
        return IntegrityError(
            f"{path} is not a readable ledger ({error})",
            hint="restore it from a copy, or start in a new workspace with --workspace",
        )
    if code == sqlite3.SQLITE_BUSY:
        return InfrastructureError(
            f"{path} stayed locked for {BUSY_TIMEOUT_SEC:.0f} s by another program",
            hint=f"find it with: fuser {path}",
        )
    if code in _CLOSED:
        return ConfigError(
            f"cannot open {path}: {error}", hint="check that the path exists and is writable"
        )
    return InfrastructureError(
        f"writing or reading {path} failed: {error}",
        hint="check the disk, then run the same command again: it resumes",
    )
