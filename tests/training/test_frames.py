"""Frames: whole or an error, never a hang."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator

import pytest

from meta_agent.policies.training._frames import FrameChannel, FrameError


@pytest.fixture
def pair() -> Iterator[tuple[FrameChannel, FrameChannel]]:
    a_read, b_write = os.pipe()
    b_read, a_write = os.pipe()
    channels = FrameChannel(a_read, a_write), FrameChannel(b_read, b_write)
    yield channels
    for channel in channels:
        channel.close()


def raw(pair: tuple[FrameChannel, FrameChannel], data: bytes) -> None:
    os.write(pair[0]._write_fd, data)


def test_a_large_frame_crosses_in_pieces(pair: tuple[FrameChannel, FrameChannel]) -> None:
    value = {"text": "\u00e9" * 3_000_000}
    writer = threading.Thread(target=pair[0].send, args=(value, 10))
    writer.start()
    assert pair[1].receive(10) == value
    writer.join()


def test_a_silent_peer_is_a_timeout(pair: tuple[FrameChannel, FrameChannel]) -> None:
    with pytest.raises(TimeoutError):
        pair[0].receive(0.05)


def test_a_peer_that_does_not_read_is_a_timeout(pair: tuple[FrameChannel, FrameChannel]) -> None:
    with pytest.raises(TimeoutError):
        pair[0].send("x" * 10_000_000, 0.05)


def test_half_a_frame_is_a_timeout(pair: tuple[FrameChannel, FrameChannel]) -> None:
    raw(pair, struct.pack("<I", 100) + b"{")
    with pytest.raises(TimeoutError):
        pair[1].receive(0.05)


def test_a_frame_over_the_limit_is_refused_unread(pair: tuple[FrameChannel, FrameChannel]) -> None:
    raw(pair, struct.pack("<I", (1 << 32) - 1))
    with pytest.raises(FrameError, match="limit"):
        pair[1].receive(1)


def test_bytes_that_are_not_json_are_refused(pair: tuple[FrameChannel, FrameChannel]) -> None:
    raw(pair, struct.pack("<I", 3) + b"\xff{}")
    with pytest.raises(FrameError, match="not JSON"):
        pair[1].receive(1)


def test_the_end_of_file_is_an_eof() -> None:
    read, write = os.pipe()
    other, unused = os.pipe()
    channel = FrameChannel(read, unused)
    os.close(write)
    with pytest.raises(EOFError):
        channel.receive(1)
    os.close(other)
    channel.close()
