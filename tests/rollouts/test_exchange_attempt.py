"""What an attempt wrote, and what it was given: replies in a prompt belong to nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Rollout
from meta_agent.readers.evidence import exemplars, read_foreign
from meta_agent.readers.formats import attempt_messages, read_rollouts

from ._foreign import ATIF_STEPS, CALL, DATA, INSPECT, NEMO, SWE_AGENT, shown, write_jsonl

CASES = DATA / "cases"
EXAMPLE = [
    {"role": "user", "content": "1+1"},
    {"role": "assistant", "content": "It is two, as everybody knows.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "2"},
    {"role": "user", "content": "3+4"},
]
REPLY = {"role": "assistant", "content": "seven"}
ITEMS = [
    {"role": "user", "content": "1+1"},
    {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "2"},
    {"role": "assistant", "content": "It is two, as everybody knows."},
    {"role": "user", "content": "3+4"},
]
OUTPUT = [{"type": "message", "role": "assistant", "content": "seven"}]
SAMPLE = INSPECT["samples"][0]
ROWS: dict[str, list[dict[str, Any]]] = {
    "openai-messages": [{"prompt": EXAMPLE, "completion": [REPLY]}],
    "prime-rl": [{"example_id": 1, "prompt": EXAMPLE, "completion": [REPLY], "task": "t"}],
    "trl-completions": [{"step": 1, "prompt": EXAMPLE, "completion": [REPLY], "score": 1.0}],
    "nemo-gym": [
        {**NEMO, "responses_create_params": {"input": ITEMS}, "response": {"output": OUTPUT}}
    ],
    "inspect": [
        {**INSPECT, "samples": [{**SAMPLE, "input": EXAMPLE, "messages": [*EXAMPLE, REPLY]}]}
    ],
    "inspect with sources": [
        {**INSPECT, "samples": [{**SAMPLE, "input": "3+4", "messages": [
            *({**m, "source": "input"} for m in EXAMPLE), {**REPLY, "source": "generate"}]}]}
    ],
    "atif": [
        {"schema_version": "ATIF-v1.5", "agent": {"name": "a"}, "steps": [
            {**ATIF_STEPS[0], "message": "1+1"},
            {**ATIF_STEPS[1], "is_copied_context": True},
            {"source": "user", "message": "3+4"},
            {"source": "agent", "message": "seven"}]}
    ],
    "swe-agent": [
        {**SWE_AGENT, "trajectory": [
            {"response": "seven", "action": "", "query": [{**m, "is_demo": True} for m in EXAMPLE]}
        ]}
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_replies_of_the_prompt_are_not_the_attempts(name: str, tmp_path: Path) -> None:
    (rollout,) = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *ROWS[name]))
    assert [m["content"] for m in attempt_messages(rollout)] == ["seven"]
    assert (rollout.turns, rollout.tool_events) == (1, [])
    report = read_foreign([rollout])
    assert report.shape["chars_mean"] == len("seven")
    assert "unanswered" not in report.shape


@pytest.mark.parametrize("name", ["few-primerl.jsonl", "few-openai.jsonl", "few-inspect.json"])
def test_the_samples_with_worked_examples(name: str) -> None:
    if not CASES.is_dir():
        pytest.skip("the sample data is not here")
    report = read_foreign(read_rollouts(CASES / name))
    assert (report.shape["chars_mean"], report.shape["empty"]) == (8.25, 0.25)
    assert report.evidence.behaviour["turns_mean"] == 1


def test_an_attempt_without_a_reply_has_no_last_words(tmp_path: Path) -> None:
    row = {"example_id": 1, "prompt": EXAMPLE, "completion": []}
    (rollout,) = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row))
    ((shown,),) = exemplars([rollout]).values()
    assert "everybody knows" not in shown.last_words


# --- shares ---------------------------------------------------------------------------------------


def openai(number: int, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": f"a{number}"}]
    return {"messages": messages, "task_id": f"t{number}", **more}


def report(tmp_path: Path, rows: list[dict[str, Any]]) -> Any:
    return read_foreign(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows)))


def test_a_share_of_endings_is_of_all_attempts(tmp_path: Path) -> None:
    """Most data names an ending only where a limit ended the attempt."""
    rows = [openai(n, **({"finish_reason": "length"} if n < 12 else {})) for n in range(40)]
    rows[12]["finish_reason"] = "stop"
    told = report(tmp_path, rows)
    assert told.evidence.behaviour["truncation"] == pytest.approx(0.3)
    assert told.over["behaviour.truncation"] == "40 attempts"
    text = shown(told)
    assert "(of 40 attempts)" in text
    assert (
        "stop_reason: in 13 of 40 rollouts; how attempts ended, truncation as shares of all" in text
    )


def test_a_reward_is_missing_of_all_attempts(tmp_path: Path) -> None:
    rows = [openai(n, **({"reward": float(n)} if n % 2 else {})) for n in range(6)]
    assert report(tmp_path, rows).evidence.signal["reward_missing"] == 0.5
    assert "reward_missing" not in report(tmp_path, [openai(0)]).evidence.signal


def test_cut_replies_are_told_or_not_in_the_data(tmp_path: Path) -> None:
    told = report(tmp_path, [openai(0, finish_reason="length"), openai(1, finish_reason="stop")])
    assert told.evidence.behaviour["cut_replies"] == 0.5
    unknown = report(tmp_path, [openai(0, finish_reason="length"), openai(1)])
    assert "cut_replies" not in unknown.evidence.behaviour
    assert any(line.startswith("cut_replies: not in this data") for line in unknown.missing)


def test_a_call_that_was_cut_off_did_not_fail(tmp_path: Path) -> None:
    """An attempt that a limit ended is still one whose calls are known to have worked, or not."""
    block = {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": [{**block, "id": "d"}]},
    ]
    told = report(tmp_path, [{"messages": messages}])
    assert told.evidence.behaviour["tool_failure_rate"] == 0.5


# --- hints ----------------------------------------------------------------------------------------


def test_a_log_without_scores_says_how_to_score_it(tmp_path: Path) -> None:
    sample = {k: v for k, v in SAMPLE.items() if k != "scores"}
    (tmp_path / "log.json").write_text(json.dumps({**INSPECT, "samples": [sample]}))
    text = shown(read_foreign(read_rollouts(tmp_path / "log.json")))
    assert "inspect score LOG" in text
    assert "SWE-bench" not in text


def test_a_custom_tool_call_keeps_its_row(tmp_path: Path) -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "*** x"}}
    chat = {"messages": [EXAMPLE[0], {"role": "assistant", "content": None, "tool_calls": [call]}]}
    items = [
        EXAMPLE[0],
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    rows = write_jsonl(tmp_path / "rows.jsonl", chat, {"messages": items})
    rollouts: list[Rollout] = list(read_rollouts(rows))
    assert [r.tool_events[0].tool for r in rollouts] == ["apply_patch"] * 2
    assert rollouts[0].tool_events[0].arguments == {"text": "*** x"}
    assert rollouts[1].tool_events[0].result == "done"
