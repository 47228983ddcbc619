"""The nano alphabet is lossless for what nano domains say, and cannot be broken by the rest."""

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.policies.engines.nano_tokenizer import (
    CHAT_TEMPLATE,
    EOS_ID,
    PAD_ID,
    VOCAB_SIZE,
    decode,
    encode,
    render,
)

PRINTABLE = st.text(alphabet=[chr(code) for code in range(32, 127)] + ["\n"])


@given(PRINTABLE)
def test_printable_text_survives_a_round_trip(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.text())
def test_no_text_can_produce_padding_or_an_id_outside_the_vocabulary(text: str) -> None:
    assert all(PAD_ID < token < VOCAB_SIZE for token in encode(text))


@pytest.mark.parametrize("token", [0, 97, 98, 99])
def test_ids_without_a_character_decode_to_nothing(token: int) -> None:
    assert decode([token]) == ""


def test_the_newline_is_the_stop_token() -> None:
    assert encode("v\n") == [88, EOS_ID]


@given(st.lists(st.text(alphabet="ab\n?", max_size=5)))
def test_the_chat_template_says_what_render_says(contents: list[str]) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    template = jinja2.Environment(keep_trailing_newline=True).from_string(CHAT_TEMPLATE)
    assert template.render(messages=messages) == render(messages)
