"""Frames (length-prefixed messages) between the inside of a sandbox and the host."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any

from meta_agent.core.sandbox.inside.processes import CpuMeter, kill_descendants

FRAME_LIMIT_BYTES = 64 << 20
CHUNK_BYTES = 1 << 16

Json = Any


class Pipe:
    """Sends and receives frames: a length, a line of JSON, and from the host perhaps raw bytes.

    The raw bytes become the message's `attached`. While a write waits for room, arriving bytes are
    read, so that both sides can write large frames at once without a deadlock.
    """

    def __init__(self, source: int, sink: int) -> None:
        self.source, self._sink = source, sink
        self._inbox = bytearray()
        self.later: list[bytes] = []  # requests sent ahead that a guest operation came across
        self._write_lock = threading.Lock()  # whole frames only, from whichever thread
        os.set_blocking(sink, False)

    def send(self, message: Json) -> None:
        self.put(wire(message))

    def put(self, body: bytes) -> None:
        """Sends a message's bytes unchanged. Raises ValueError if above FRAME_LIMIT_BYTES."""
        if len(body) > FRAME_LIMIT_BYTES:
            raise ValueError(
                f"a message of {len(body)} bytes exceeds {FRAME_LIMIT_BYTES}; send less at once"
            )
        with self._write_lock:
            self._write(memoryview(len(body).to_bytes(4, "little") + body))

    def receive(self, timeout_sec: float | None = None) -> Json:
        """Returns the next message, None once time is up. Raises EOFError if the host is gone."""
        deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
        while (frame := self.take()) is None:
            if deadline is not None and not self._readable(max(0.0, deadline - time.monotonic())):
                return None
            self.fill()
        return parsed(frame)

    def _write(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._sink, data) :]
            except BlockingIOError:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        waiter = select.poll()
        waiter.register(self._sink, select.POLLOUT)
        waiter.register(self.source, select.POLLIN)
        if any(fd == self.source for fd, _ in waiter.poll()):
            self.fill()

    def _readable(self, timeout_sec: float) -> bool:
        waiter = select.poll()
        waiter.register(self.source, select.POLLIN)
        return bool(waiter.poll(timeout_sec * 1000))

    def fill(self) -> None:
        """Waits for bytes and reads them into the buffer. Raises EOFError if the host is gone."""
        chunk = os.read(self.source, CHUNK_BYTES)
        if not chunk:
            raise EOFError
        self._inbox += chunk

    def take(self) -> bytes | None:
        """Returns the next message's bytes from the buffer, or None while they are incomplete."""
        if len(self._inbox) < 4:
            return None
        end = 4 + int.from_bytes(self._inbox[:4], "little")
        if len(self._inbox) < end:
            return None
        with memoryview(self._inbox) as inbox:  # a large frame is copied once
            frame = bytes(inbox[4:end])
        del self._inbox[:end]
        return frame


def parsed(frame: bytes) -> Json:
    """Returns the JSON message in a frame; bytes behind its first line become its `attached`."""
    line, _, attached = frame.partition(b"\n")
    message = json.loads(line)
    return {**message, "attached": attached} if attached else message


def wire(message: Json) -> bytes:
    """Returns a message as ASCII JSON, with "?" for lone surrogates. Raises ValueError for NaN."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    if "\\ud" in text:
        whole = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
        text = json.dumps(json.loads(whole), separators=(",", ":"))
    return text.encode()


class Channel:
    """Lets code in a sandbox call the host, such as the model, in the middle of its work."""

    def __init__(self, pipe: Pipe, request_id: int) -> None:
        self._pipe, self._id, self._next_cid = pipe, request_id, 0

    def calls(self, calls: Sequence[dict[str, Json]]) -> list[int]:
        """Sends calls in one message and returns their ids (`cid`) without waiting."""
        numbered = [self._numbered(call) for call in calls]
        self._pipe.send({"id": self._id, "calls": numbered})
        return [call["cid"] for call in numbered]

    @staticmethod
    def cpu_meter() -> CpuMeter:
        """Returns a meter of the processor time that processes below this one use from now on."""
        return CpuMeter()

    @staticmethod
    def kill_descendants() -> None:
        """Kills and reaps every process below this one, orphans included."""
        kill_descendants()

    def wait(self, timeout_sec: float | None = None) -> list[dict[str, Json]]:
        """Returns the next answers, each `{"cid", "ok"}` or `{"cid", "err"}`; [] once time is up.

        One list may answer a part of one `calls`, or parts of several.
        """
        while (frame := self._pipe.receive(timeout_sec)) is not None:
            if frame["id"] == self._id:  # else a late answer to an operation that is over
                answers: list[dict[str, Json]] = frame["answers"]
                return answers
        return []

    def _numbered(self, call: dict[str, Json]) -> dict[str, Json]:
        if "cid" in call:
            self._next_cid = max(self._next_cid, call["cid"] + 1)
            return call
        self._next_cid += 1
        return {"cid": self._next_cid - 1, **call}


def traceback_of(error: BaseException) -> str:
    """Returns an exception's traceback as text, without the frames of this program itself."""
    folder = __name__.rpartition(".")[0] + "."  # what came from it is named so in tracebacks
    ours = tuple(f"<{name[len(folder) :]}>" for name in sys.modules if name.startswith(folder))
    summary = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = summary
    while link is not None:
        theirs = [
            frame for frame in link.stack if not frame.filename.startswith((*ours, "<guest "))
        ]
        link.stack = traceback.StackSummary.from_list(theirs or link.stack)
        link = link.__cause__ or link.__context__
    return "".join(summary.format())
