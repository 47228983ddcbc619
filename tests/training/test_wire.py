"""What crosses between host and policy child comes out as it went in."""

from __future__ import annotations

import dataclasses
import json

import pytest

from meta_agent.core.protocols import GenerateReply, RolloutFailure, TokenRecord
from meta_agent.policies.training import _wire
from meta_agent.policies.training._frames import FrameError

FUNCTION = {"name": "look", "arguments": '{"path": "a.py"}'}
CALL = {"id": "call_7_0", "type": "function", "function": FUNCTION}
REPLIES = {
    "text": GenerateReply("hello", "stop", 3, 2),
    "tool calls": GenerateReply("", "tool_calls", 3, 2, [CALL]),
    "a failure": GenerateReply("", "error", 0, 0, failure=RolloutFailure("policy", "no such role")),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=list(REPLIES))
def test_a_reply(reply: GenerateReply) -> None:
    sent = json.loads(json.dumps(_wire.reply_to_json(reply)))
    got = _wire.parse("reply", _wire.reply_from_json, sent)
    assert got == dataclasses.replace(reply, tool_calls=list(reply.tool_calls))


def test_a_malformed_call_is_refused() -> None:
    with pytest.raises(FrameError, match="malformed reply"):
        _wire.parse("reply", _wire.reply_from_json, ["", "stop", 1, 1, [{"id": "x"}], None])


def test_a_token_row_with_what_it_lost() -> None:
    row = TokenRecord([1], [2, 3], [1, 0], [-1.0, 0.0], exact=False, lost=5)
    got = _wire.record_from_json(json.loads(json.dumps(_wire.record_to_json(row))))
    assert got is not None and (got, got.lost) == (row, 5)
