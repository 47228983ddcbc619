"""Which variables hold keys, by their names and the looks of their values."""

import base64
from collections.abc import Callable

import pytest

from meta_agent.llm_clients.scrubber import MARK, Scrubber

AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "sk-0123456789"),
        ("MY_SERVER", "whatever it is"),
        ("CI_TOKEN", "tok-0123-another-secret"),
        ("AWS_SECRET_ACCESS_KEY", AWS),
    ],
)
def test_a_key_is_taken_out(name: str, value: str) -> None:
    scrubber = Scrubber.of(["MY_SERVER"], {name: value})
    assert scrubber.json({"said": [f"it is {value}."]}) == {"said": [f"it is {MARK}."]}


@pytest.mark.parametrize("before", ["", ":", "ab", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, bytes.hex])
def test_a_key_is_taken_out_of_other_encodings(
    encode: Callable[[bytes], bytes | str], before: str
) -> None:
    """What is left on either side are characters that other bytes decide, too."""
    key = "sk-?>~0123456789-abcdef"
    encoded = encode(f"{before}{key}!".encode())
    text = encoded if isinstance(encoded, str) else encoded.decode()
    cleaned = Scrubber.of([], {"OPENAI_API_KEY": key}).text(f"it is {text}.")
    assert MARK in cleaned
    assert len(cleaned.replace(MARK, "")) <= len("it is .") + 2 * len(before) + 8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SORT_KEY", "evidence"),
        ("SSH_KEY", "/home/somebody/.ssh/id_ed25519"),
        ("SIGNING_KEY", "~/keys/signing-2024.asc"),
        ("KEYS_AT_TOKEN", "https://keys.example/v1/tokens"),
        ("OPENAI_API_KEY", "EMPTY"),
    ],
)
def test_a_word_a_path_and_a_placeholder_are_none(name: str, value: str) -> None:
    assert Scrubber.of([], {name: value}).text(f"it is {value}.") == f"it is {value}."
