"""Keys out of everything that is kept: the one place that knows which values are secret.

Promises: the value of every provider variable, of every variable a setting names as a key's, and
of every other variable that is called like a key and looks like one, is replaced wherever it stands
in a record, an error or a request. The same text goes to the provider as into the record, so a key
that leaked into a prompt goes no further either.

Does not cover: a secret that this process does not hold, one in another encoding (base64), and
values shorter than eight characters, which are placeholders (`EMPTY`, `ollama`) and may be words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from meta_agent.llm_clients.keys import KEY_VARIABLES

MARK: Final = "[secret]"
MIN_LENGTH: Final = 8

_CALLED_LIKE_ONE: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
# A path or an address is none; a slash inside may be one of base64 (AWS has such keys).
_LOOKS_LIKE_ONE: Final = re.compile(r"(?![/~.])(?!.*:/)(?=.*\d)(?=.*[A-Za-z])\S{16,}")
_HEADER: Final = re.compile(
    r"(?i)\b((?:authorization|(?:x-)?api-key)\W{1,4}(?:bearer\s+)?)[^\s\"',}]+"
)

T = TypeVar("T")


class Scrubber:
    """Replaces what it holds in strings, and in the strings of JSON values."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {value for value in values if len(value) >= MIN_LENGTH}
        # The longest first: one key may begin with another.
        longest_first = sorted(found, key=lambda value: (-len(value), value))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if found else None

    @classmethod
    def of(
        cls, key_variables: Iterable[str], environment: Mapping[str, str], more: Iterable[str] = ()
    ) -> Scrubber:
        """For the keys in an environment; `key_variables` are those that settings name."""
        named = {*KEY_VARIABLES, *key_variables}
        held = (
            value
            for name, value in environment.items()
            if name in named or (_CALLED_LIKE_ONE.search(name) and _LOOKS_LIKE_ONE.fullmatch(value))
        )
        return cls([*held, *more])

    def text(self, text: str) -> str:
        """A string without the keys."""
        return self._pattern.sub(MARK, text) if self._pattern else text

    def error(self, text: str) -> str:
        """An error's text, which may quote the headers of a request."""
        return _HEADER.sub(rf"\g<1>{MARK}", self.text(text))

    def json(self, value: T) -> T:
        """A JSON value of the same form without the keys."""
        return self._json(value) if self._pattern else value

    def _json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._json(name): self._json(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(item) for item in value]
        return value
