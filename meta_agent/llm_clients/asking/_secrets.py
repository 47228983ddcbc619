"""Takes keys out of everything that is kept: the one place that knows which values are secret.

Promises: the value of every provider variable, of every variable that a setting names as a key's,
and of every other variable whose name and value look like a key's is replaced wherever it stands in
a record, an error or a request, also in base64 or hexadecimal. The provider gets the same text as
the record, so a key that leaked into a prompt goes no further.

Does not cover: a secret that this process does not hold, one in another encoding, and
values shorter than eight characters, which are placeholders (`EMPTY`, `ollama`) and may be words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from meta_agent.llm_clients.keys import KEY_VARIABLES, spellings

MARK: Final = "[secret]"
MIN_LENGTH: Final = 8

_KEY_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
# A path or an address is no key; a slash inside may be one of base64 (AWS has such keys).
_KEY_VALUE: Final = re.compile(r"(?![/~.])(?!.*:/)(?=.*\d)(?=.*[A-Za-z])\S{16,}")
_HEADER: Final = re.compile(
    r"(?i)\b((?:authorization|(?:x-)?api-key)\W{1,4}(?:bearer\s+)?)[^\s\"',}]+"
)

T = TypeVar("T")


class Scrubber:
    """Replaces secrets (such as API keys) in strings, and in the strings of JSON values."""

    def __init__(self, values: Iterable[str]) -> None:
        keys = {value for value in values if len(value) >= MIN_LENGTH}
        secrets = {spelling for key in keys for spelling in spellings(key)}
        # The longest first: one key may begin with another.
        longest_first = sorted(secrets, key=lambda value: (-len(value), value))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    @classmethod
    def of(
        cls, key_variables: Iterable[str], environment: Mapping[str, str], more: Iterable[str] = ()
    ) -> Scrubber:
        """Returns a scrubber for the keys in `environment`, and for the secrets in `more`.

        Keys are values of provider variables, of `key_variables`, and of variables named like keys.
        """
        names = {*KEY_VARIABLES, *key_variables}
        secrets = (
            value
            for name, value in environment.items()
            if name in names or (_KEY_NAME.search(name) and _KEY_VALUE.fullmatch(value))
        )
        return cls([*secrets, *more])

    def text(self, text: str) -> str:
        """Returns the text with `[secret]` in place of each secret."""
        return self._pattern.sub(MARK, text) if self._pattern else text

    def error(self, text: str) -> str:
        """Returns an error's text without secrets and without keys in quoted HTTP headers."""
        return _HEADER.sub(rf"\g<1>{MARK}", self.text(text))

    def json(self, value: T) -> T:
        """Returns a JSON value of the same form without secrets in its strings."""
        return self._json(value) if self._pattern else value

    def _json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._json(name): self._json(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(item) for item in value]
        return value
