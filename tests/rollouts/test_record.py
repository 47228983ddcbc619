"""The record of a rollout as JSON: it survives, and what it cannot hold is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import RolloutFailure, TokenRecord, ToolEvent, ViewChange
from meta_agent.core.rollouts import from_json, to_json, to_line, tokens_from_json, tokens_to_json

from ._foreign import ours

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    content=texts,
    rewards=st.dictionaries(texts, numbers, max_size=3),
    outcome=st.sampled_from([True, False, None]),
    flags=st.lists(texts, max_size=2),
    advantage=st.none() | numbers,
    failed=st.booleans(),
)
def test_a_record_survives_the_way_through_json(
    content: str,
    rewards: dict[str, float],
    outcome: bool | None,
    flags: list[str],
    advantage: float | None,
    failed: bool,
) -> None:
    rollout = ours(
        messages=[{"role": "user", "content": content}],
        tool_events=[ToolEvent(0, "say", {"text": "x"}, "heard x", True)],
        weights={"solved": 0.5},
        tokens=None,
        rewards=rewards,
        outcome=outcome,
        flags=flags,
        advantage=advantage,
        error=RolloutFailure("infra", content) if failed else None,
        cut_replies=len(flags),
        views=[ViewChange(1, 0, 2, [{"role": "user", "content": content}])] if failed else [],
    )
    assert from_json(json.loads(to_line(rollout))) == rollout


def test_keys_of_a_later_version_are_passed_over() -> None:
    record = {**to_json(ours()), "later": "a field"}
    assert from_json(record) == ours(tokens=None)


WRONG = {
    "schema_version": 2,
    "sample_idx": True,
    "seed": "1",
    "split": "test",
    "stop_reason": "bored",
    "outcome": 1,
    "rewards": {"solved": float("nan")},
    "weights": {"solved": "1"},
    "error": {"kind": "cosmic", "detail": ""},
    "tool_events": [{"turn": 0}],
    "messages": None,
}


def test_a_missing_key_and_a_wrong_value_are_refused_by_name() -> None:
    record = to_json(ours())
    for key in record:
        with pytest.raises(IntegrityError, match=key):
            from_json({name: value for name, value in record.items() if name != key})
    for key, value in WRONG.items():
        with pytest.raises(IntegrityError):
            from_json({**record, key: value})
    for other in (None, [], "x", 3):
        with pytest.raises(IntegrityError):
            from_json(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_carry_is_refused_when_written(value: object) -> None:
    with pytest.raises(IntegrityError, match="s/0#0"):
        to_line(ours(outcome_detail={"x": value}))


def test_token_rows_survive_and_must_agree_in_length() -> None:
    tokens = TokenRecord([1, 2], [3, 4, 5], [1, 0, 1], [-0.1, 0.0, -2.5], exact=False)
    record = json.loads(json.dumps(tokens_to_json(tokens)))
    assert tokens_from_json(record) == tokens
    with pytest.raises(IntegrityError):
        tokens_from_json({**record, "mask": [1]})
