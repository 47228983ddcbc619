"""Frames between the host and the policy child: 4-byte little-endian length, UTF-8 JSON.

Promises: a deadline holds for reading and for writing, so a peer that hangs cannot hang us. A frame
over the limit, or bytes that are not JSON, raise `FrameError`; end of file raises `EOFError`.
Not covered: what the frames mean (`_wire`).
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Final

from meta_agent.core.protocols import JSON

FRAME_LIMIT_BYTES: Final = 256 << 20
_CHUNK_BYTES: Final = 1 << 20


class FrameError(Exception):
    """Raised when a frame (a message on the pipe) is too long or not JSON."""


class FrameChannel:
    """Sends and receives frames (JSON messages) over two file descriptors that nobody else uses."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)

    def send(self, value: JSON, timeout_sec: float | None = None) -> None:
        """Writes one frame. Raises FrameError (too long), TimeoutError, or EOFError (closed)."""
        body = json.dumps(value, separators=(",", ":")).encode()
        if len(body) > FRAME_LIMIT_BYTES:
            raise FrameError(
                f"a message of {len(body)} bytes cannot be sent, since the limit is "
                f"{FRAME_LIMIT_BYTES}; use fewer or shorter rollouts in a step"
            )
        unsent = memoryview(struct.pack("<I", len(body)) + body)
        deadline = _deadline(timeout_sec)
        while unsent:
            try:
                unsent = unsent[os.write(self._write_fd, unsent) :]
            except BlockingIOError:
                _wait(self._write_fd, select.POLLOUT, deadline)
            except BrokenPipeError as error:
                raise EOFError("the other process is gone; run the same command again") from error

    def receive(self, timeout_sec: float | None = None) -> JSON:
        """Reads one frame and returns its JSON value.

        Raises FrameError if it is too long or not JSON, EOFError at end of file, or TimeoutError.
        """
        deadline = _deadline(timeout_sec)
        (length,) = struct.unpack("<I", self._read(4, deadline))
        if length > FRAME_LIMIT_BYTES:
            raise FrameError(
                f"the other process sent a message of {length} bytes, over the limit of "
                f"{FRAME_LIMIT_BYTES}; use fewer or shorter rollouts in a step"
            )
        try:
            return json.loads(self._read(length, deadline))
        except ValueError as error:
            raise FrameError(
                f"the other process sent {length} bytes that are not JSON; this is a bug to "
                f"report: {error}"
            ) from error

    def has_input(self) -> bool:
        """Returns True if a frame or the end of file can be read without waiting."""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Closes both file descriptors."""
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)

    def _read(self, count: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = os.read(self._read_fd, min(count - len(parts), _CHUNK_BYTES))
            except BlockingIOError:
                _wait(self._read_fd, select.POLLIN, deadline)
                continue
            if not part:
                raise EOFError("the other process is gone; run the same command again")
            parts += part
        return bytes(parts)


def _deadline(timeout_sec: float | None) -> float | None:
    return None if timeout_sec is None else time.monotonic() + timeout_sec


def _wait(fd: int, event: int, deadline: float | None) -> None:
    """Waits until `fd` is ready, or hung up, which the next call then reports."""
    poll = select.poll()
    poll.register(fd, event)
    left_ms = None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1000)
    if not poll.poll(left_ms):
        raise TimeoutError("the other process did not answer in time; run the same command again")
