"""Frames between the host and a worker, over any backend's byte stream.

A frame is one line of JSON. From the host to the worker only, raw bytes may follow after a newline:
large content (the records of a replay) then needs no escaping, and the untrusted direction stays
plain JSON.
Promises: A frame arrives whole or the link is dead. Every wait and every frame has a deadline, even
a frame that is already here. What arrives is parsed as hostile input (`strict`: size before it is
read, then elements, then JSON, then shape). Parsing takes at most half of the time that passes, so
a flood leaves the interpreter to other sandboxes.
Not covered: why the other side ended; a backend's `post_mortem` says that.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from meta_agent.core.errors import SandboxError
from meta_agent.core.parsing.strict import Budget, Unfit, parse
from meta_agent.core.protocols import JSON

FRAME_LIMIT_BYTES = 64 << 20
PAUSE_SEC = 0.002  # what is owed is gathered up to here


class Stream(Protocol):
    """A byte stream to and from a sandbox's worker program, and control over its process."""

    def send(self, data: memoryview, timeout_sec: float) -> int:
        """Writes as many bytes of `data` as fit now and returns their number; 0 if time is up."""
        ...

    def receive(self, timeout_sec: float) -> bytes | None:
        """Returns the next bytes from the sandbox; None if time is up, b"" at the stream's end."""
        ...

    def kill(self) -> None:
        """Ends the sandbox's program and all it started. Safe to call twice, from any thread."""
        ...

    def release(self) -> None:
        """Closes the file descriptors. Later, sends are dropped and receives report the end."""
        ...

    def post_mortem(self) -> SandboxError:
        """Returns an error that says why the sandbox ended; called after the stream's end."""
        ...


class LinkClosed(Exception):  # noqa: N818 - a state of the stream, not a mistake
    """Raised when the worker, the program that answers in a sandbox, has ended."""


class LinkTimeout(Exception):  # noqa: N818
    """Raised when time is up before a whole frame (a JSON message) was sent or received."""


class Link:
    """Sends and receives frames (JSON messages). One thread receives; any thread may send."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._inbox = bytearray()
        self.taken = 0  # bytes of frames received so far
        self._pace = Pace()
        self._write_lock = threading.Lock()  # one whole frame at a time

    def send(self, message: JSON, deadline: float, attached: Sequence[bytes] = ()) -> None:
        """Sends a message, followed by the raw bytes `attached`.

        Raises LinkTimeout after `deadline` (monotonic seconds), ValueError above 64 MiB.
        """
        line = json.dumps(message, separators=(",", ":")).encode()
        self.send_raw((line, b"\n", *attached) if attached else (line,), deadline)

    def send_raw(self, parts: Sequence[bytes], deadline: float) -> None:
        """Sends `parts`, joined, as one message.

        Raises LinkTimeout after `deadline` (monotonic seconds), ValueError above 64 MiB.
        """
        size = sum(map(len, parts))
        if size > FRAME_LIMIT_BYTES:
            raise ValueError(f"a request has {size} bytes, over {FRAME_LIMIT_BYTES}; split it")
        data = memoryview(b"".join((size.to_bytes(4, "little"), *parts)))
        with self._write_lock:
            while data:
                written = self._stream.send(data, remaining(deadline))
                if not written:
                    raise LinkTimeout
                data = data[written:]

    def release(self) -> None:
        """Closes the stream's file descriptors once no thread is sending."""
        with self._write_lock:
            self._stream.release()

    def receive(self, deadline: float, budget: Budget | None = None) -> dict[str, JSON]:
        """Returns the next message, a JSON object. `budget` limits its size.

        Raises LinkTimeout after `deadline`, LinkClosed if the sandbox is gone, and SandboxError if
        the message breaks the protocol or exceeds `budget`.
        """
        budget = budget or Budget()
        while True:
            if time.monotonic() >= deadline:  # also where a flood has the next frame ready
                raise LinkTimeout
            if (body := self._take_frame(budget.bytes)) is not None:
                return self._pace.parsed(body, budget)
            chunk = self._stream.receive(remaining(deadline))
            if chunk is None:
                raise LinkTimeout
            if not chunk:
                raise LinkClosed
            self._inbox += chunk

    def _take_frame(self, limit: int) -> bytes | None:
        if len(self._inbox) < 4:
            return None
        size = int.from_bytes(self._inbox[:4], "little")
        if size > min(limit, FRAME_LIMIT_BYTES):
            raise protocol_error(
                f"the sandbox worker sent a message of {size} bytes, above the limit of {limit}, "
                "and is killed"
            )
        if len(self._inbox) < 4 + size:
            return None
        with memoryview(self._inbox) as inbox:  # a large frame is copied once
            body = bytes(inbox[4 : 4 + size])
        del self._inbox[: 4 + size]
        self.taken += size
        return body


class Pace:
    """Keeps this process from spending over half of its time on parsing one sandbox's messages."""

    def __init__(self) -> None:
        self._owed, self._left = 0.0, time.monotonic()

    def parsed(self, body: bytes, budget: Budget) -> dict[str, JSON]:
        """Returns the object in a frame (one message); sleeps if parsing takes half of the time."""
        self._owed = max(0.0, self._owed - (time.monotonic() - self._left))
        started = time.thread_time()
        frame = parse_frame(body, budget)
        self._owed += time.thread_time() - started
        self._left = time.monotonic()
        if self._owed > PAUSE_SEC:
            time.sleep(self._owed)
        return frame


def remaining(deadline: float) -> float:
    """Returns the seconds until a deadline of the monotonic clock, never less than 0."""
    return max(0.0, deadline - time.monotonic())


def parse_frame(body: bytes, budget: Budget | None = None) -> dict[str, JSON]:
    """Returns the JSON object of a frame (one message). Raises SandboxError for other bytes."""
    try:
        frame = parse(body, budget)
    except Unfit as error:
        raise protocol_error(
            f"the sandbox worker sent an invalid message and is killed: {error}"
        ) from error
    if not isinstance(frame, dict):
        raise protocol_error(
            f"the sandbox worker sent a {type(frame).__name__} as a message, not an object, and "
            "is killed"
        )
    return frame


def protocol_error(message: str) -> SandboxError:
    """Returns a SandboxError of kind `protocol`, for a worker that sent something invalid."""
    return SandboxError(message, kind="protocol")
