"""Reads tests that LiveCodeBench packs as base64 of zlib of a pickle of JSON, without unpickling.

A pickle is a program, and unpickling runs it. Here its instructions are only listed, and nothing
but "one string, then stop" is accepted. The unpacked size is limited.
"""

from __future__ import annotations

import base64
import binascii
import pickletools
import zlib
from typing import Final

from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON

UNPACKED_LIMIT_BYTES: Final = 256 << 20
_STRINGS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_HARMLESS: Final = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})


class PackedError(ValueError):
    """Raised if a text holds no list of tests, in JSON or in LiveCodeBench's packed form."""


def unpacked(text: str) -> list[JSON]:
    """Returns tests from JSON or LiveCodeBench's packed form. PackedError if it is neither."""
    value = _json(text)
    if value is None:
        value = _json(pickled_string(_inflated(text)))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise PackedError("the text must hold a list of tests (JSON objects)")
    return value


def pickled_string(data: bytes) -> str:
    """Returns the one string of a pickle, not unpickled. Raises PackedError for other content."""
    strings: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _STRINGS:
                strings.append(str(argument))
            elif opcode.name not in _HARMLESS:
                raise PackedError(f"the pickle may hold only a string, but has {opcode.name}")
    except PackedError:
        raise
    except Exception as problem:  # genops raises whatever its readers raise
        raise PackedError(f"the pickle is broken; download it again: {problem}") from problem
    if len(strings) != 1:
        raise PackedError(f"the pickle must hold one string, not {len(strings)}")
    return strings[0]


def _inflated(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
        machine = zlib.decompressobj()
        data = machine.decompress(raw, UNPACKED_LIMIT_BYTES)
    except (binascii.Error, zlib.error, ValueError) as problem:
        raise PackedError(f"the text must be JSON or packed JSON: {problem}") from problem
    if machine.unconsumed_tail or not machine.eof:
        raise PackedError(f"the packed data is over {UNPACKED_LIMIT_BYTES >> 20} MiB, or cut off")
    return data


def _json(text: str) -> JSON:
    try:
        return document(text)
    except (ValueError, RecursionError):
        return None
