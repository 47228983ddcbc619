"""A small world that one seed drives: clock, disk, model provider, git reference, and deaths.

Disk: what was not synced may be lost, or be there in part, when the power goes. SQLite writes real
files; a commit can be cut anywhere in what it appends to the write-ahead log. A life of the program
ends by a kill (what was written stays), a power cut (what was synced stays), or by itself.

Does not cover: checkpoints of the log in mid-write, threads, and a disk that lies about a sync.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from meta_agent.core.chat import ChatReply, ChatRequest, Usage
from meta_agent.core.errors import IntegrityError, ProviderError
from meta_agent.core.ledger._journal import Journal
from meta_agent.llm_clients.asking.prices import Price, Rates

BASE: Final = "b" * 40
PRICE: Final = Price((Rates(1.0, 2.0, 1.0, 1.0),), "simulated")
_LEDGER: Final = "ledger.sqlite"
_WAL: Final = _LEDGER + "-wal"
_FSYNC, _TIME, _MONOTONIC = os.fsync, time.time, time.monotonic


class Killed(BaseException):
    """The process is dead. What runs while it unwinds touches nothing that the next life sees."""


class ViolationError(AssertionError):
    """Something that must never be was seen."""


@dataclass
class Ills:
    """How often things go wrong, each as a chance at one opportunity."""

    kill: float = 0.004
    tear: float = 0.01
    full: float = 0.1
    io_error: float = 0.01
    jump: float = 0.02
    stop: float = 0.003
    ill: float = 0.3


@dataclass
class World:
    """The state of the simulated machine, and what an observer outside of it has seen."""

    seed: int
    folder: Path
    rates: Ills = field(default_factory=Ills)
    cap_usd: float = 1.0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.root = self.folder / "life-0"
        self.root.mkdir(parents=True)
        self.lives = 0
        self.dead = False
        self.now, self.steady = 1_800_000_000.0, 0.0
        self.main, self.moves, self.in_flight = BASE, [], ""  # type: ignore[var-annotated]
        self.billed_usd = 0.0
        self.answered: set[tuple[str, int]] = set()
        self.returned: dict[str, Any] = {}
        self._contents: dict[int, bytes] = {}  # synced bytes by inode
        self._names: dict[str, int] = {}  # inode by synced path
        self._wal_synced = 0
        self._full_at: int | None = None

    # --- deaths ------------------------------------------------------------------------------

    def happens(self, rate: float) -> bool:
        return not self.dead and self.chance.random() < rate

    def point(self) -> None:
        """A moment at which the process may be killed, or the machine may lose its power."""
        if self.dead:
            raise Killed
        if self.happens(self.rates.kill):
            self.die(power=self.chance.random() < 0.5)

    def die(self, *, power: bool, wal_cut: int | None = None) -> None:
        """Ends this life: what survives becomes the folder of the next one."""
        after = self.folder / f"life-{self.lives + 1}"
        after.mkdir()
        for name in (_LEDGER, _WAL):
            if (self.root / name).exists():
                data = (self.root / name).read_bytes()
                if name == _WAL and wal_cut is not None:
                    data = data[:wal_cut] + self.chance.randbytes(self.chance.randrange(40))
                elif name == _WAL and power:
                    data = data[: self._wal_synced]
                (after / name).write_bytes(data)
        for path, data in self._files(power).items():
            (after / path).parent.mkdir(parents=True, exist_ok=True)
            (after / path).write_bytes(data)
        if power and self.in_flight and self.chance.random() < 0.5:
            self.main = self.in_flight
            self.moves.pop()
        self.dead = True
        raise Killed

    def _files(self, power: bool) -> dict[str, bytes]:
        present = {
            str(path.relative_to(self.root)): path
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.name.startswith(_LEDGER)
        }
        if not power:
            return {name: path.read_bytes() for name, path in present.items()}
        left: dict[str, bytes] = {}
        for name in sorted({*present, *self._names}):
            now = present[name].stat().st_ino if name in present else None
            inode = self._names.get(name)
            if now != inode and self.chance.random() < 0.5:
                inode = now
            if inode is not None:
                left[name] = self._torn(inode, present.get(name) if inode == now else None)
        return left

    def _torn(self, inode: int, path: Path | None) -> bytes:
        whole = self._contents.get(inode, b"")
        written = path.read_bytes() if path else whole
        if written.startswith(whole) and len(written) > len(whole):
            return written[: self.chance.randint(len(whole), len(written))]
        return whole

    def begin_life(self) -> None:
        """Starts the next process on what the last one left."""
        if self.dead:
            self.lives += 1
            shutil.rmtree(self.root, ignore_errors=True)
            self.root = self.folder / f"life-{self.lives}"
        self.dead, self.in_flight = False, ""
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        self._contents = {path.stat().st_ino: path.read_bytes() for path in paths}
        self._names = {str(p.relative_to(self.root)): p.stat().st_ino for p in paths}
        self._names = {n: i for n, i in self._names.items() if not n.startswith(_LEDGER)}
        wal = self.root / _WAL
        self._wal_synced = wal.stat().st_size if wal.exists() else 0
        self._full_at = self.chance.randrange(4) if self.happens(self.rates.full) else None

    # --- the layer below the program's files ----------------------------------------------------

    def fsync(self, descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not place.is_relative_to(self.root):
            return
        self.point()
        if self.happens(self.rates.io_error):
            code = self.chance.choice((errno.EIO, errno.ENOSPC))
            raise OSError(code, os.strerror(code))
        if place.is_file():
            self._contents[place.stat().st_ino] = place.read_bytes()
        else:
            self._sync_names(place)
        self.point()

    def _sync_names(self, place: Path) -> None:
        prefix = "" if place == self.root else f"{place.relative_to(self.root)}/"
        for name in [n for n in self._names if n.rpartition("/")[0] == prefix.rstrip("/")]:
            del self._names[name]
        for entry in place.iterdir():
            if entry.is_file() and not entry.name.startswith(_LEDGER):
                self._names[prefix + entry.name] = entry.stat().st_ino

    @contextmanager
    def transaction(self, journal: Journal, real: Callable[..., Any]) -> Iterator[Any]:
        """One transaction of the journal, which may be cut in the middle of its commit."""
        self.point()
        wal = journal.path.with_name(_WAL)
        before = wal.stat().st_size if wal.exists() else 0
        if self._full_at is not None:
            pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
            journal._db.execute(f"PRAGMA max_page_count={pages + self._full_at}")
            self._full_at = None
        with real(journal) as db:
            yield db
            self.point()
        after = wal.stat().st_size if wal.exists() else 0
        if before < after and self.happens(self.rates.tear):
            self.die(power=True, wal_cut=self.chance.randrange(before, after))
        if journal._db.execute("PRAGMA synchronous").fetchone()[0] >= 2:
            self._wal_synced = after
        self.point()

    # --- clock, reference, provider --------------------------------------------------------------

    def time(self) -> float:
        self.now += 0.01
        if self.happens(self.rates.jump):
            self.now += self.chance.choice((-86_400.0, -3.0, 5.0, 3600.0))
        return self.now

    def sleep(self, seconds: float) -> None:
        self.point()
        self.now += seconds
        self.steady += seconds

    def monotonic(self) -> float:
        self.steady += 0.001
        return self.steady

    def advance(self, commit: str, *, onto: str) -> str:
        """Moves `main` as the repository does: only from `onto`, and synced when it returns."""
        self.point()
        if self.main == commit:
            return commit
        if self.main != onto:
            raise IntegrityError(f"main is at {self.main[:8]}, not at {onto[:8]}")
        self.in_flight, self.main = self.main, commit
        self.moves.append(commit)
        self.point()
        self.in_flight = ""
        return commit

    def ask(self, request: ChatRequest, conversation: str, turn: int) -> ChatReply:
        """A provider that answers at once, late, too late, never, or not as one could read."""
        self.point()
        if (conversation, turn) in self.answered:
            raise ViolationError(f"{conversation} {turn} was asked again after its reply")
        usage = Usage(20 + turn, self.chance.randint(1, request.max_tokens))
        self.steady += self.chance.random() * 100
        if self.happens(self.rates.ill):
            kind = self.chance.choice(("timeout", "stream", "malformed", "rate_limited", "server"))
            is_free = kind == "rate_limited" or (kind == "server" and self.chance.random() < 0.5)
            if not is_free:
                self.billed_usd += PRICE.usd(usage)
            wait = self.chance.choice((None, 1.0, 30.0)) if is_free else None
            billed: Literal["no", "unknown"] = "no" if is_free else "unknown"
            raise ProviderError(
                f"simulated: {kind}", kind=kind, billed=billed, retry_after_sec=wait
            )
        self.billed_usd += PRICE.usd(usage)
        if self.billed_usd > self.cap_usd + 1e-9:
            raise ViolationError(f"${self.billed_usd:.6f} were billed, over ${self.cap_usd:.6f}")
        self.point()
        return ChatReply(f"{conversation} {turn}", "stop", usage, "simulated")

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Puts this world below the program: its clock, its syncs and its transactions."""
        real = Journal.transaction
        os.fsync = self.fsync  # type: ignore[assignment]
        time.time, time.monotonic = self.time, self.monotonic
        Journal.transaction = lambda journal: self.transaction(journal, real)  # type: ignore
        random.seed(self.seed)
        try:
            yield
        finally:
            os.fsync, time.time, time.monotonic = _FSYNC, _TIME, _MONOTONIC
            Journal.transaction = real  # type: ignore[method-assign]
