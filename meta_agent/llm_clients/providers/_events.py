"""A reply on the wire as JSON values: the events of a stream, or one object that came whole.

It does not use the SDKs' own reading of streams. That fails at an event without data, which the
standard allows, drops Anthropic's events if a proxy left their names out, and reads no reply of a
server that does not stream.

Does not cover: names and ids of events. Both protocols repeat in the data what a name says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from meta_agent.llm_clients.providers._failures import malformed

WHOLE: Final = None
"""The last value of a reply that says itself that it is whole."""
_FIRST_WORDS: Final = (b"data", b"event", b"id", b"retry", b":")
_HEAD_BYTES: Final = 8  # enough to tell what a reply begins with
_BEFORE: Final = b"\xef\xbb\xbf \t\r\n"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


def is_json(head: bytes) -> bool:
    """Returns True if a reply that begins with `head` is JSON and no stream of events."""
    return head.lstrip(_BEFORE).startswith((b"{", b"["))


def events_of(pieces: Iterable[bytes], content_type: str) -> Iterator[Any]:
    """Yields the events of a reply as JSON values, and `WHOLE` if the mark of its end arrives.

    Raises ProviderError if it is neither JSON nor a stream of events, and ValueError for an event
    that is no JSON.
    """
    rest, head = iter(pieces), b""
    while len(head) < _HEAD_BYTES and (piece := next(rest, b"")):
        head = (head + piece).lstrip(_BEFORE)
    if is_json(head):
        yield json.loads(b"".join(chain([head], rest)))
        yield WHOLE
        return
    if head and not head.startswith(_FIRST_WORDS):
        raise malformed(
            f"the server answered with {content_type:.80}, which is neither a stream of events nor "
            "JSON. Its base URL has to be that of a model's API"
        )
    for data in _data_of(chain([head], rest)):
        if data == b"[DONE]":
            yield WHOLE
            return
        if data and not data.startswith(b":"):  # a gateway may pass comments on as data
            yield json.loads(data)


def _data_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the data of each event."""
    data: list[bytes] = []
    for line in _lines(pieces):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value)
        elif not line:
            yield b"\n".join(data).strip()
            data = []
    if b"".join(data).strip() == b"[DONE]":
        yield b"[DONE]"  # some servers leave the last blank line out


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    for piece in pieces:
        begun.append(piece)
        if b"\n" in piece or b"\r" in piece:
            *lines, rest = _LINE_END.split(b"".join(begun))
            yield from lines
            begun = [rest]
    yield from b"".join(begun).splitlines()
