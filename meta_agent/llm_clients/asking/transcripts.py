"""Every exchange with a model, on disk: the question, the answer, and its cost.

`transcripts/<run>/` holds a `manifest.json` (the run, its settings, models and prices) and one
JSONL file for each conversation, whose lines build on each other (`_exchange.py`). If a turn is
asked again with another question, it replaces the recorded turn and all that came after it.

Promises: an exchange that `append` returned is on disk (synced). A last line torn by a crash is
dropped, and cut off before the next is written. A whole line is never rewritten. Each line is
checked against its digest when it is read. Keys were taken out before (`scrubber.py`).

Does not cover: two processes that write one run; the ledger's owner lock keeps them apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import InfrastructureError, IntegrityError
from meta_agent.core.protocols import JSON
from meta_agent.llm_clients.asking._exchange import Exchange as Exchange
from meta_agent.llm_clients.asking._exchange import FailedRequest as FailedRequest
from meta_agent.llm_clients.asking._exchange import from_line, json_text, to_line

SCHEMA_VERSION: Final = 1
MANIFEST: Final = "manifest.json"

_MOST_OPEN: Final = 512  # conversations whose exchanges stay in memory
_SUFFIX: Final = ".jsonl"
_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


class Transcripts:
    """One run's conversations on disk in `root`; reading a damaged file raises IntegrityError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Invariant: held for every read and write of the dictionary and of the files behind it.
        # A sync under it costs nothing more: the ledger syncs one call at a time as well.
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Conversation] = OrderedDict()

    def recorded(self, conversation: str, turn: int) -> Exchange | None:
        """Returns the recorded request and reply of a conversation's turn; None if it has none."""
        with self._lock:
            return self._conversation(conversation).exchanges.get(turn)

    def before(self, conversation: str, turn: int) -> Exchange | None:
        """Returns the last request and reply recorded before a conversation's turn, or None."""
        with self._lock:
            return self._conversation(conversation).before(turn)

    def append(self, exchange: Exchange) -> Exchange:
        """Writes a request and its reply to disk, synced; returns them as they can be read back.

        The two replace what is recorded for their turn and all later turns of the conversation.
        """
        with self._lock:
            return self._conversation(exchange.conversation).append(exchange)

    def read(self, conversation: str) -> list[Exchange]:
        """Returns the requests and replies of a conversation by turn, each with all messages."""
        with self._lock:
            exchanges = self._conversation(conversation).exchanges
            return [exchanges[turn] for turn in sorted(exchanges)]

    def append_failure(self, failure: FailedRequest) -> None:
        """Writes to disk, synced, that a request got no complete reply."""
        with self._lock:
            self._conversation(failure.conversation).append_failure(failure)

    def failure(
        self, conversation: str, turn: int, digest: str | None = None
    ) -> FailedRequest | None:
        """Returns the first failed request of a turn, or None. `digest` selects it by its hash."""
        for failure in self.failures(conversation):
            if failure.turn == turn and digest in (None, failure.digest):
                return failure
        return None

    def failures(self, conversation: str) -> list[FailedRequest]:
        """Returns the failed requests of a conversation, oldest first."""
        with self._lock:
            return list(self._conversation(conversation).failures)

    def conversations(self) -> list[str]:
        """Returns the names of all conversations, sorted, with numbers in numerical order."""
        files = self.root.rglob(f"*{_SUFFIX}") if self.root.is_dir() else ()
        names = (_name_in(path) for path in files)
        return sorted((name for name in names if name), key=_natural)

    def manifest(self) -> dict[str, JSON] | None:
        """Returns the run's manifest or None. Raises IntegrityError if the manifest is damaged."""
        path = self.root / MANIFEST
        if not path.is_file():
            return None
        try:
            value = json.loads(path.read_bytes())
        except ValueError as error:
            raise _damaged(path, str(error)) from error
        version = value.get("schema_version") if isinstance(value, dict) else None
        if not isinstance(value, dict) or version != SCHEMA_VERSION:
            raise _damaged(
                path, f"schema_version is {version!r}, this version reads {SCHEMA_VERSION}"
            )
        return value

    def write_manifest(self, values: Mapping[str, JSON]) -> None:
        """Replaces the run's manifest (settings, models, prices), atomically and synced to disk."""
        _make(self.root)
        text = json.dumps({"schema_version": SCHEMA_VERSION, **values}, indent=2, sort_keys=True)
        with _naming_the_file(self.root / MANIFEST):
            write_whole(self.root / MANIFEST, text + "\n", mode=0o600)

    def _conversation(self, name: str) -> _Conversation:
        opened = self._open.pop(name, None) or _Conversation(self.root / file_of(name), name)
        self._open[name] = opened
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return opened


class _Conversation:
    """One file. Not safe for threads: `Transcripts` holds its lock around every use."""

    def __init__(self, path: Path, name: str) -> None:
        self.exchanges: dict[int, Exchange] = {}
        self.failures: list[FailedRequest] = []
        self._path = path
        self._name = name
        self._header = {"schema_version": SCHEMA_VERSION, "conversation": name}
        self._sound_bytes = 0  # the length of the whole lines that we wrote
        if path.is_file():
            self._load(path.read_bytes())

    def before(self, turn: int) -> Exchange | None:
        earlier = [number for number in self.exchanges if number < turn]
        return self.exchanges[max(earlier)] if earlier else None

    def append(self, exchange: Exchange) -> Exchange:
        line = to_line(exchange, self.before(exchange.turn))
        self._write(line)
        return self._take(json.loads(line))

    def append_failure(self, failure: FailedRequest) -> None:
        self._write(json_text(failure.to_json()))
        self.failures.append(failure)

    def _write(self, line: str) -> None:
        data = b"" if self._sound_bytes else json.dumps(self._header).encode() + b"\n"
        data += line.encode() + b"\n"
        with _naming_the_file(self._path):
            _make(self._path.parent)
            fresh = not self._path.exists()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.truncate(self._sound_bytes)  # drops what a crash left behind
                file.seek(self._sound_bytes)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if fresh:
                sync(self._path.parent)
        self._sound_bytes += len(data)

    def _load(self, data: bytes) -> None:
        *lines, _torn = data.split(b"\n")
        for number, line in enumerate(lines):
            try:
                value = json.loads(line)
            except ValueError as error:
                if number == len(lines) - 1:  # blocks of a write that never reached the disk
                    return
                raise self._damaged(number, error) from error
            try:
                if number == 0:
                    if {name: value[name] for name in self._header} != self._header:
                        raise ValueError(f"restore the file: it is not of {self._name}: {value}")
                elif "failure" in value:
                    self.failures.append(FailedRequest.from_json(value, self._name))
                else:
                    self._take(value)
            except (ValueError, KeyError, TypeError) as error:
                raise self._damaged(number, error) from error
            self._sound_bytes += len(line) + 1

    def _damaged(self, number: int, error: Exception) -> IntegrityError:
        return _damaged(self._path, f"line {number + 1}: {type(error).__name__} {error}")

    def _take(self, line: Mapping[str, JSON]) -> Exchange:
        turn = int(line["turn"])
        exchange = from_line(line, self._name, self.before(turn))
        self.exchanges = {number: old for number, old in self.exchanges.items() if number < turn}
        self.exchanges[turn] = exchange
        return exchange


def file_of(conversation: str) -> Path:
    """Returns the path of a conversation's file, relative to the run's folder.

    Parts of the name that a file system may refuse or confuse are cut to plain characters, with
    a hash, so that no two names share a file, even on disks that ignore case.
    """
    *folders, last = (_segment(part) for part in conversation.split("/"))
    return Path(*folders, last + _SUFFIX)


def _segment(part: str) -> str:
    if _SAFE.fullmatch(part):
        return part
    plain = re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")[:60]
    return f"{plain}~{hashlib.sha256(part.encode()).hexdigest()[:12]}"


def _name_in(path: Path) -> str | None:
    with path.open("rb") as file:
        first = file.readline()
    try:
        return str(json.loads(first)["conversation"])
    except (ValueError, KeyError, TypeError):
        return None  # torn before its first exchange


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _damaged(path: Path, what: str) -> IntegrityError:
    return IntegrityError(
        f"{path} is damaged: {what}",
        hint="restore it from a copy; without the file its exchanges are asked, and paid, again",
    )


@contextmanager
def _naming_the_file(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"writing {path} failed: {error.strerror}",
            hint="free or fix the disk, then run the same command again: it resumes",
        ) from error


def _make(directory: Path) -> None:
    missing = [folder for folder in (directory, *directory.parents) if not folder.is_dir()]
    directory.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)
