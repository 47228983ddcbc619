"""Checks a pack (git's transfer file) before git reads it: few kilobytes can inflate to gigabytes.

Promises: after `scan` neither one object of the pack nor all together exceed their limits, deltas
included, so `git index-pack` runs in bounded memory. Only commits, trees, blobs and deltas pass.
Does not cover: whether objects are well-formed or what they refer to; index-pack and `_policy` do.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from meta_agent.core.history._limits import AdmissionLimits, refuse

_HEADER_BYTES, _TRAILER_BYTES, _CHUNK_BYTES = 12, 20, 4096
_PLAIN, _OFFSET_DELTA, _REF_DELTA = frozenset({1, 2, 3}), 6, 7


class _Entry(NamedTuple):
    kind: int
    size: int
    start: int  # where the compressed data begins


def scan(pack: bytes, limits: AdmissionLimits) -> int:
    """Returns the number of objects in a git pack (transfer file) that a sandbox sent.

    Raises CandidateError if the pack is malformed or exceeds a limit.
    """
    if len(pack) > limits.pack_bytes:
        refuse("pack_too_large", f"the git pack has {len(pack)} bytes, over {limits.pack_bytes}")
    count, position, total = _count(pack, limits), _HEADER_BYTES, 0
    for _ in range(count):
        size, position = _object_size(pack, position, limits)
        total += size
        if total > limits.total_bytes:
            refuse("pack_too_large", f"the git pack unpacks to over {limits.total_bytes} bytes")
    if position != len(pack) - _TRAILER_BYTES:
        refuse("pack_malformed", "the sandbox's git pack has bytes after its last object")
    return count


def _count(pack: bytes, limits: AdmissionLimits) -> int:
    if len(pack) < _HEADER_BYTES + _TRAILER_BYTES or pack[:4] != b"PACK":
        refuse("pack_malformed", "the sandbox's answer is not a git pack")
    version, count = struct.unpack(">II", pack[4:_HEADER_BYTES])
    if version != 2:
        refuse("pack_malformed", f"the sandbox's git pack has version {version}; only 2 is read")
    if count > limits.objects:
        refuse("too_many_objects", f"the git pack has {count} objects, over {limits.objects}")
    return int(count)


def _object_size(pack: bytes, position: int, limits: AdmissionLimits) -> tuple[int, int]:
    """Returns the uncompressed size of one object, and where the next one begins."""
    entry = _entry(pack, position)
    _check_size(entry.size, limits)
    data, end = _inflate(pack, entry)
    if entry.kind in _PLAIN:
        return entry.size, end
    result = _delta_result_size(data)
    _check_size(result, limits)
    return entry.size + result, end


def _check_size(size: int, limits: AdmissionLimits) -> None:
    if size > limits.object_bytes:
        refuse("object_too_large", f"a git object has {size} bytes, over {limits.object_bytes}")


def _entry(pack: bytes, position: int) -> _Entry:
    try:
        byte, at = pack[position], position + 1
        kind, size, shift = (byte >> 4) & 7, byte & 15, 4
        while byte & 0x80 and shift < 64:
            byte, at = pack[at], at + 1
            size, shift = size | (byte & 0x7F) << shift, shift + 7
        return _Entry(kind, size, _skip_base(pack, kind, at))
    except IndexError:
        refuse("pack_malformed", "the sandbox's git pack ends inside an object's header")


def _skip_base(pack: bytes, kind: int, at: int) -> int:
    if kind == _OFFSET_DELTA:
        while pack[at] & 0x80:
            at += 1
        return at + 1
    if kind == _REF_DELTA:
        return at + 20
    if kind not in _PLAIN:
        refuse("pack_malformed", f"object type {kind} is not a commit, tree, blob or delta")
    return at


def _inflate(pack: bytes, entry: _Entry) -> tuple[bytes, int]:
    """Decompresses one object in chunks, and stops one byte beyond the announced size."""
    stream, out, at = zlib.decompressobj(), bytearray(), entry.start
    try:
        while not stream.eof and len(out) <= entry.size:
            chunk = stream.unconsumed_tail or pack[at : at + _CHUNK_BYTES]
            if not chunk:
                break
            at += 0 if stream.unconsumed_tail else len(chunk)
            out += stream.decompress(chunk, entry.size + 1 - len(out))
    except zlib.error as error:
        refuse("pack_malformed", f"an object of the sandbox's git pack cannot be unpacked: {error}")
    if not stream.eof or len(out) != entry.size:
        refuse("pack_malformed", "an object of the git pack has another size than it says")
    return bytes(out), at - len(stream.unused_data)


def _delta_result_size(delta: bytes) -> int:
    _, at = _varint(delta, 0)
    return _varint(delta, at)[0]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte, at = data[at], at + 1
        value, shift = value | (byte & 0x7F) << shift, shift + 7
        if not byte & 0x80:
            return value, at
    refuse("pack_malformed", "the header of a delta in the sandbox's git pack is cut off")
