"""Inspect's logs, verl's dumps and OpenHands' outputs, as rollouts."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Rollout, RolloutFailure
from meta_agent.readers.formats import absent, read_rollouts

from ._foreign import INSPECT, NEMO, OPENHANDS, VERL, write_jsonl

SAMPLE: dict[str, Any] = INSPECT["samples"][0]  # type: ignore[index, assignment]


def read_one(tmp_path: Path, row: Any) -> Rollout:
    (found,) = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row))
    return found


def inspected(tmp_path: Path, **changes: Any) -> Rollout:
    return read_one(tmp_path, {**INSPECT, "samples": [{**SAMPLE, **changes}]})


def archive(path: Path, *names: str, header: str = "header.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(header, json.dumps({"version": 2, "eval": INSPECT["eval"]}))
        for name in names:
            packed.writestr(f"samples/{name}.json", json.dumps(SAMPLE))
        packed.writestr("summaries.json", "[]")
    return path


def spoiled(mark: bytes, ahead: int, data: bytes) -> Callable[[Path], int]:
    """Overwrites what stands so far behind the last mark."""

    def spoil(path: Path) -> int:
        whole = bytearray(path.read_bytes())
        at = whole.rindex(mark) + ahead
        whole[at : at + len(data)] = data
        return path.write_bytes(whole)

    return spoil


# --- Inspect -------------------------------------------------------------------------------------


def test_a_sample_of_inspect_is_an_attempt_of_its_epoch(tmp_path: Path) -> None:
    found = inspected(tmp_path)
    assert (found.task_key, found.sample_idx, found.policy) == ("gsm8k/1", 1, "openai/m")
    assert (found.outcome, found.rewards, found.stop_reason) == (True, {"match": 1.0}, "length")
    assert (found.cost, found.timings) == ({"tokens": 15.0}, {"total": 3.5})
    assert found.messages[1]["reasoning_content"] == "hm"
    (event,) = found.tool_events
    assert (event.tool, event.arguments, event.ok) == ("bash", {"cmd": "bc"}, False)
    assert absent(found) == {"tokens", "flags", "cut_replies"}


@pytest.mark.parametrize(
    ("scores", "rewards", "outcome"),
    [
        ({"s": {"value": "P"}}, {"s": 0.5}, False),
        ({"s": {"value": "N"}}, {"s": 0.0}, False),
        ({"s": {"value": True}}, {"s": 1.0}, True),
        ({"s": {"value": 0.7}}, {"s": 0.7}, None),
        ({"s": {"value": {"a": 1, "b": "C"}}}, {"s.a": 1.0, "s.b": 1.0}, None),
        ({"s": {"value": "C"}, "t": {"value": "I"}}, {"s": 1.0, "t": 0.0}, None),
        ({"s": {"value": "a word"}}, {}, None),
        ({}, {}, None),
    ],
)
def test_scores_of_inspect(
    scores: Any, rewards: dict[str, float], outcome: bool | None, tmp_path: Path
) -> None:
    found = inspected(tmp_path, scores=scores)
    assert (found.rewards, found.outcome) == (rewards, outcome)


def test_a_sample_that_failed_is_no_failure_of_the_model(tmp_path: Path) -> None:
    found = inspected(tmp_path, error={"message": "boom", "traceback": "t"}, scores={})
    assert (found.error, found.outcome) == (RolloutFailure("infra", "boom"), None)


def test_a_limit_that_ended_a_sample_is_told_before_the_last_reply(tmp_path: Path) -> None:
    assert inspected(tmp_path, limit={"type": "message", "limit": 9}).stop_reason == "turn_limit"


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_an_eval_archive_is_read_sample_by_sample(header: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval", "1_epoch_1", "1_epoch_2", header=header)
    assert [one.policy for one in read_rollouts(path)] == ["openai/m"] * 2
    assert len(list(read_rollouts(tmp_path))) == 2, "in a folder too"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is damaged"),
        (spoiled(b"PK\5\6", 16, b"\xff\xff\xff\x7f"), "damaged inside the archive"),
        (spoiled(b"PK\1\2", 6, b"\xff"), "is damaged"),
        (lambda path: archive(path, header="other.json"), "no Inspect log"),
        (lambda path: archive(path), "no rollout could be read"),
    ],
)
def test_other_archives_are_one_sentence(spoil: Any, says: str, tmp_path: Path) -> None:
    spoil(archive(tmp_path / "log.eval", "1_epoch_1"))
    with pytest.raises(ConfigError, match=says):
        list(read_rollouts(tmp_path / "log.eval"))


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_sample_is_a_row_however_it_is_packed(how: int, tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", how) as packed:
        packed.writestr("header.json", json.dumps({"version": 2, "eval": INSPECT["eval"]}))
        packed.writestr("samples/1_epoch_1.json", json.dumps(SAMPLE))
        packed.writestr("samples/2_epoch_1.json", json.dumps(SAMPLE))
    whole = path.read_bytes()
    start = whole.index(b"samples/1_epoch_1.json") + 34
    path.write_bytes(whole[:start] + bytes(28) + whole[start + 28 :])
    reading = read_rollouts(path)
    assert len(list(reading)) == 1


# --- verl ----------------------------------------------------------------------------------------


def test_a_line_of_verl_has_score_accuracy_and_group(tmp_path: Path) -> None:
    found = read_one(tmp_path, VERL)
    assert found.rewards == {"score": 0.5, "overlong_reward": -0.5}
    assert (found.total_reward, found.outcome) == (0.5, True)
    assert (found.version, found.group_id.rpartition("@")[2]) == ("step-3", "3")
    assert found.verifier_inputs == {"answer": "4"}
    assert "tool_events" in absent(found), "flat text says nothing about tools"


def test_an_accuracy_between_is_no_outcome(tmp_path: Path) -> None:
    found = read_one(tmp_path, {**VERL, "acc": 0.5})
    assert (found.outcome, found.rewards["acc"]) == (None, 0.5)


# --- OpenHands -----------------------------------------------------------------------------------


def test_events_of_openhands_are_a_dialogue(tmp_path: Path) -> None:
    reading = read_rollouts(write_jsonl(tmp_path / "output.jsonl", OPENHANDS))
    (found,) = reading
    roles = ["system", "user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in found.messages] == roles
    assert [(e.tool, e.ok) for e in found.tool_events] == [
        ("execute_bash", False),
        ("finish", True),
    ]
    assert (found.stop_reason, found.policy, found.cost) == ("submitted", "m", {"usd": 0.5})
    assert "tool_ok" not in absent(found)
    assert reading.tally.left_out == {"event recall": 1}


def test_calls_of_one_reply_are_one_turn(tmp_path: Path) -> None:
    again = {**OPENHANDS["history"][3], "id": 6}  # type: ignore[index, dict-item]
    history = [*OPENHANDS["history"][:4], again]  # type: ignore[index]
    found = read_one(tmp_path, {**OPENHANDS, "history": history})
    assert (found.turns, len(found.tool_events)) == (1, 2)


@pytest.mark.parametrize(
    ("error", "stop", "kind"),
    [
        ("RuntimeError: Agent reached maximum iteration. Current: 100", "turn_limit", None),
        ("AgentStuckInLoopError: Agent got stuck in a loop", "error", "policy"),
        ("ConnectionError: runtime is gone", "error", "infra"),
    ],
)
def test_errors_of_openhands(error: str, stop: str, kind: str | None, tmp_path: Path) -> None:
    found = read_one(tmp_path, {**OPENHANDS, "error": error})
    assert (found.stop_reason, found.error and found.error.kind) == (stop, kind)


@pytest.mark.parametrize(
    "told", [{"report": {"resolved": True}}, {"test_result": {"report": {"resolved": True}}}]
)
def test_the_evaluation_of_openhands_is_the_outcome(told: Any, tmp_path: Path) -> None:
    assert read_one(tmp_path, {**OPENHANDS, **told}).outcome is True


def test_events_of_the_sdk_are_read_too(tmp_path: Path) -> None:
    text = {"type": "text", "text": "fix"}
    acted = {
        "kind": "ActionEvent",
        "thought": [{"type": "text", "text": "look"}],
        "tool_call": {"id": "t1", "name": "terminal", "arguments": '{"command": "ls"}'},
        "llm_response_id": "r",
    }
    seen = {"content": [{"type": "text", "text": "a.py"}], "is_error": False, "exit_code": 0}
    history = [
        {"kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "s"}},
        {"kind": "MessageEvent", "llm_message": {"role": "user", "content": [text]}},
        acted,
        {"kind": "ObservationEvent", "tool_call_id": "t1", "observation": seen},
        {**acted, "llm_response_id": "r2"},
        {"kind": "AgentErrorEvent", "tool_call_id": "t1", "error": "no such tool"},
    ]
    found = read_one(tmp_path, {**OPENHANDS, "history": history, "attempt": 2})
    assert [(e.tool, e.result, e.ok) for e in found.tool_events] == [
        ("terminal", "a.py", True),
        ("terminal", "no such tool", False),
    ]
    assert found.sample_idx == 1


def test_the_call_is_told_as_the_model_made_it(tmp_path: Path) -> None:
    told = OPENHANDS["history"][3]  # type: ignore[index]
    call = {"id": "t1", "function": {"name": "execute_bash", "arguments": '{"command": "ls -l"}'}}
    reply = {"id": "r1", "choices": [{"message": {"tool_calls": [call]}}]}
    metadata = {**told["tool_call_metadata"], "model_response": reply}  # type: ignore[index, call-overload]
    acted = {**told, "tool_call_metadata": metadata}  # type: ignore[dict-item]
    found = read_one(tmp_path, {**OPENHANDS, "history": [acted]})
    assert found.tool_events[0].arguments == {"command": "ls -l"}


def test_what_the_harness_adds_to_a_call_is_no_argument(tmp_path: Path) -> None:
    args = {"command": "ls", "thought": "t", "hidden": False, "cwd": None, "blocking": True}
    event = {"id": 1, "source": "agent", "action": "run", "args": args}
    found = read_one(tmp_path, {**OPENHANDS, "history": [event]})
    assert found.tool_events[0].arguments == {"command": "ls"}


def test_instructions_of_nemo_gym_are_the_system_message(tmp_path: Path) -> None:
    params = {**NEMO["responses_create_params"], "instructions": "be brief"}  # type: ignore[dict-item]
    found = read_one(tmp_path, {**NEMO, "responses_create_params": params})
    assert found.messages[0] == {"role": "system", "content": "be brief"}


def test_logs_of_two_models_are_two_groups_of_a_task(tmp_path: Path) -> None:
    other = {**INSPECT, "eval": {"task": "gsm8k", "model": "openai/n"}}
    found = list(read_rollouts(write_jsonl(tmp_path / "logs.jsonl", INSPECT, other)))
    assert len({one.task_key for one in found}) == 1
    assert len({one.group_id for one in found}) == 2
