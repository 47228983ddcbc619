"""Takes keys out of everything that is kept: the one place that knows which values are secret.

Promises: the value of every provider variable, of every variable that a setting names as a key's,
and of every other variable whose name and value look like a key's is replaced wherever it stands in
a record, an error or a request, also in base64 or hexadecimal. The provider gets the same text as
the record, so a key that leaked into a prompt goes no further.

Does not cover: a secret that this process does not hold, one in another encoding, and
values shorter than eight characters, which are placeholders (`EMPTY`, `ollama`) and may be words.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from meta_agent.llm_clients.keys import KEY_VARIABLES

MARK: Final = "[secret]"
MIN_LENGTH: Final = 8
_ERROR_CHARS: Final = 400
_READ_CHARS: Final = 64 << 10

_KEY_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
# A path or an address is no key; a slash inside may be one of base64 (AWS has such keys).
_KEY_VALUE: Final = re.compile(r"(?![/~.])(?!.*:/)(?=.*\d)(?=.*[A-Za-z])\S{16,}")
# What looks like a key in an error, though this process does not hold it.
_KEY_SHAPE: Final = re.compile(
    r"(?i)\b(?:sk|pk|key|gsk|xai|hf|AIza|org|proj)[-_][A-Za-z0-9_*.-]{8,}|bearer\s+[^\s\"',}]+"
)
KEY: Final = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""What is a key by its form, in any text."""
_HEADER: Final = re.compile(r"(?i)\b((?:authorization|(?:x-)?api-key)\W{1,4})[^\s\"',}]+")
_URL_SAFE: Final = str.maketrans("+/", "-_")

T = TypeVar("T")


def without_keys(text: str) -> str:
    """Returns the text with `[secret]` in place of what is a key by its form."""
    return KEY.sub(MARK, text)


class Scrubber:
    """Replaces secrets (such as API keys) in strings, and in the strings of JSON values."""

    def __init__(self, values: Iterable[str]) -> None:
        keys = {value for value in values if len(value) >= MIN_LENGTH}
        secrets = {spelling for key in keys for spelling in _spellings(key)}
        # The longest first: one key may begin with another.
        longest_first = sorted(secrets, key=lambda value: (-len(value), value))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    @classmethod
    def of(
        cls,
        key_variables: Iterable[str],
        environment: Mapping[str, str],
        more: Iterable[str | None] = (),
    ) -> Scrubber:
        """Returns a scrubber for the keys in `environment`, and for the secrets in `more`.

        Keys are values of provider variables, of `key_variables`, and of variables named like keys.
        """
        names = {*KEY_VARIABLES, *key_variables}
        secrets = (
            value.strip()
            for name, value in environment.items()
            if name in names or (_KEY_NAME.search(name) and _KEY_VALUE.fullmatch(value.strip()))
        )
        return cls([*secrets, *filter(None, more)])

    def text(self, text: str) -> str:
        """Returns the text with `[secret]` in place of each secret."""
        return self._pattern.sub(MARK, text) if self._pattern else text

    def error(self, text: str) -> str:
        """Returns an error's text on one line of at most 400 characters.

        It has `[secret]` in place of secrets, of likely keys, and of keys in quoted HTTP headers.
        """
        text = _KEY_SHAPE.sub(MARK, without_keys(self.text(text[:_READ_CHARS])))
        text = " ".join(_HEADER.sub(rf"\g<1>{MARK}", text).split())
        return text if len(text) <= _ERROR_CHARS else text[:_ERROR_CHARS] + " ..."

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


def _spellings(secret: str) -> Iterator[str]:
    """Yields the forms in which a text may hold a secret: plain, in base64 and in hexadecimal.

    Base64 has three forms, by offset; characters that depend on neighbours are cut off.
    """
    yield secret
    data = secret.encode()
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        whole = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield whole
        yield whole.translate(_URL_SAFE)
    yield data.hex()
    yield data.hex().upper()
