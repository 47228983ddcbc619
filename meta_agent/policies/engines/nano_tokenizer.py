"""The nano policies' alphabet: one token per character, so that an action costs few tokens.

Promises: `decode(encode(text)) == text` for printable ASCII and newlines. Every other character
becomes `?`, so hostile text can neither fail here nor smuggle in a special id. A message is one
line, and the newline that ends an action is also the stop token.
Not covered: the files that transformers and vLLM load (`tokenizer.json`); `nano_files` writes
those from the constants below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

PAD_ID: Final = 0
EOS_ID: Final = 1
EOS: Final = "\n"
FIRST_PRINTABLE: Final = 32
LAST_PRINTABLE: Final = 126
FIRST_CHARACTER_ID: Final = 2
NANO_WINDOW: Final = 256
"""Tokens that a nano policy reads."""
VOCAB_SIZE: Final = 100  # ids 97-99 are never produced; a round number keeps the head's rows even
UNKNOWN: Final = "?"

CHAT_TEMPLATE: Final = (
    "{% for m in messages %}{{ m['content'] | replace('\\n', ' ') + '\\n' }}{% endfor %}"
)


def _alphabet() -> dict[str, int]:
    """Maps every character that has its own id to that id."""
    printable = range(FIRST_PRINTABLE, LAST_PRINTABLE + 1)
    return {EOS: EOS_ID} | {
        chr(code): FIRST_CHARACTER_ID + code - FIRST_PRINTABLE for code in printable
    }


ID_OF: Final[Mapping[str, int]] = _alphabet()
_CHARACTER_OF: Final = {token: character for character, token in ID_OF.items()}
_UNKNOWN_ID: Final = ID_OF[UNKNOWN]


def encode(text: str) -> list[int]:
    """Returns one token id per character; an unknown character gets the id of `?`."""
    return [ID_OF.get(character, _UNKNOWN_ID) for character in text]


def decode(ids: Iterable[int]) -> str:
    """Returns the text of token ids; padding and ids without a character are left out."""
    return "".join(_CHARACTER_OF.get(token, "") for token in ids)


def render(messages: Sequence[Mapping[str, Any]]) -> str:
    """Returns a conversation as the text that a nano policy reads: one line per message.

    A newline inside a message becomes a space, so that it cannot end the line early.
    """
    return "".join(str(message["content"]).replace("\n", " ") + "\n" for message in messages)
