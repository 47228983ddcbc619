"""Makes JSON values that UTF-8 can encode, nested no deeper than our own code can follow.

Models write halves of surrogate pairs (`"\\ud83d"` in a call's arguments, a pair split between two
chunks). JSON carries them, but a request with such a message cannot be encoded, so every repetition
of the dialogue would fail at the same place. Therefore text is mended where it comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_LEVELS: Final = 100


def mended(value: Any, levels: int = _LEVELS) -> Any:
    """Returns a copy of a JSON value whose texts UTF-8 can encode.

    Two halves of a surrogate pair are joined; a lone half becomes U+FFFD. Raises ValueError if the
    value is nested over `levels` levels deep.
    """
    if not levels:
        raise ValueError(f"a value is nested deeper than {_LEVELS} levels; send a flatter value")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(name): mended(item, levels - 1) for name, item in value.items()}
    return [mended(item, levels - 1) for item in value] if isinstance(value, list) else value


def _text(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
