from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.errors import IntegrityError
from meta_agent.core.protocols import Rollout, RolloutFailure, TokenRecord, ToolEvent, ViewChange
from meta_agent.core.rollouts import from_json, to_json, to_line, tokens_from_json, tokens_to_json


def sample(**changes: Any) -> Rollout:
    facts: dict[str, Any] = {
        "run": "r",
        "version": "v",
        "domain": "lab",
        "split": "train",
        "task_key": "t",
        "task_hash": "h",
        "group_id": "g",
        "sample_idx": 0,
        "seed": 1,
        "harness_commit": "c",
        "policy": "p",
        "evaluator_hash": "e",
        "messages": [{"role": "user", "content": "hé"}],
        "tool_events": [ToolEvent(0, "say", {"text": "x"}, "heard x", True)],
        "rewards": {"solved": 1.0},
        "weights": {"solved": 0.5},
        "advantage": -0.25,
        "outcome": True,
        "outcome_detail": {"passed": 3},
        "verifier_inputs": {"source": "x = 1"},
        "stop_reason": "submitted",
        "flags": ["leak:log"],
        "turns": 2,
        "timings": {"wall": 0.5},
        "cost": {"tokens": 9},
    }
    return Rollout(**{**facts, **changes})


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
    rollout = sample(
        messages=[{"role": "user", "content": content}],
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
    record = {**to_json(sample()), "mood": "good"}
    assert from_json(record) == sample()


REQUIRED = sorted(to_json(sample()))


@pytest.mark.parametrize("key", REQUIRED)
def test_a_missing_key_is_named(key: str) -> None:
    record = copy.deepcopy(to_json(sample()))
    del record[key]
    with pytest.raises(IntegrityError, match=key):
        from_json(record)


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


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_refused(key: str) -> None:
    record = {**to_json(sample()), key: WRONG[key]}
    with pytest.raises(IntegrityError):
        from_json(record)


@pytest.mark.parametrize("record", [None, [], "x", 3])
def test_what_is_no_object_is_refused(record: object) -> None:
    with pytest.raises(IntegrityError):
        from_json(record)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_carry_is_refused_when_written(value: object) -> None:
    with pytest.raises(IntegrityError, match="t#0"):
        to_line(sample(outcome_detail={"x": value}))


def test_token_rows_survive_and_must_agree_in_length() -> None:
    tokens = TokenRecord([1, 2], [3, 4, 5], [1, 0, 1], [-0.1, 0.0, -2.5], exact=False)
    record = json.loads(json.dumps(tokens_to_json(tokens)))
    assert tokens_from_json(record) == tokens
    with pytest.raises(IntegrityError, match="length"):
        tokens_from_json({**record, "mask": [1]})
