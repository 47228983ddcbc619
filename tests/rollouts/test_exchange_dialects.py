"""Rows as other tools' current and older versions write them: each is read, and read rightly."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Rollout, RolloutFailure
from meta_agent.readers.formats import absent, read_rollouts

from ._foreign import DIALOGUE, MINI, PREDICTION, SWE_AGENT, VERIFIERS, write_jsonl

ASKED = {"role": "user", "content": "2+2"}
ANSWER = {"role": "assistant", "content": "4"}


def read_all(tmp_path: Path, *rows: Any) -> list[Rollout]:
    return list(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows)))


def roles(rollout: Rollout) -> list[str]:
    return [message["role"] for message in rollout.messages]


# --- dialogues -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [ASKED], "completion": [ANSWER]},
        {"prompt": "2+2", "completion": "4"},
        {"prompt": "2+2", "response": "4"},
        {"messages": [ASKED, {"role": "assistant", "content": None, "refusal": "4"}]},
        {"messages": [{"type": "message", **ASKED}, {"type": "message", **ANSWER}]},
    ],
    ids=["lists", "strings", "response", "refusal", "items"],
)
def test_one_dialogue_said_in_many_forms(row: dict[str, Any], tmp_path: Path) -> None:
    (found,) = read_all(tmp_path, {**row, "reward": 1.0})
    assert found.messages == [ASKED, ANSWER]
    assert (found.rewards, found.turns) == ({"reward": 1.0}, 1)


def test_blocks_of_anthropic_messages_are_calls_results_and_thoughts(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"cmd": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "no such", "is_error": True}
    row = {
        "messages": [
            ASKED,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, use]},
            {"role": "user", "content": [result, {"type": "text", "text": "go on"}]},
            ANSWER,
        ]
    }
    (found,) = read_all(tmp_path, row)
    assert roles(found) == ["user", "assistant", "tool", "user", "assistant"]
    assert found.messages[1]["reasoning_content"] == "hm"
    (event,) = found.tool_events
    assert (event.tool, event.arguments, event.ok) == ("bash", {"cmd": "ls"}, False)
    assert "tool_ok" not in absent(found)


def test_an_item_of_the_responses_form_is_a_call(tmp_path: Path) -> None:
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    (found,) = read_all(tmp_path, {"messages": [ASKED, item, ANSWER]})
    assert [event.tool for event in found.tool_events] == ["f"]


def test_ones_and_zeros_are_truths_and_truths_are_rewards(tmp_path: Path) -> None:
    rows = [{"messages": DIALOGUE, "resolved": n, "reward": bool(n)} for n in (1, 0)]
    found = read_all(tmp_path, *rows)
    assert [(one.outcome, one.rewards) for one in found] == [
        (True, {"reward": 1.0}),
        (False, {"reward": 0.0}),
    ]


def test_a_number_that_fits_no_float_is_no_crash(tmp_path: Path) -> None:
    (found,) = read_all(tmp_path, {"messages": DIALOGUE, "rewards": {"a": 10**400, "b": 1}})
    assert found.rewards == {"b": 1.0}


# --- agents and environments ---------------------------------------------------------------------


def test_whole_responses_among_the_messages_of_mini_swe_agent(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"x": 1}'}
    response = {
        "object": "response",
        "output": [{"type": "reasoning", "summary": []}, call],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}]},
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
    messages = [*MINI["messages"][:2], response, {**result, "extra": {"returncode": 1}}]
    (found,) = read_all(tmp_path, {**MINI, "messages": messages})
    assert roles(found) == ["system", "user", "assistant", "tool"]
    (event,) = found.tool_events
    assert (event.arguments, event.result, event.ok) == ({"command": "ls"}, "a.py", False)


def test_mini_swe_agent_before_its_format_had_a_name(tmp_path: Path) -> None:
    row = {name: value for name, value in MINI.items() if name != "trajectory_format"}
    (found,) = read_all(tmp_path, row)
    assert (found.stop_reason, len(found.tool_events)) == ("turn_limit", 1)


def test_a_swe_agent_run_that_never_began_is_an_attempt(tmp_path: Path) -> None:
    (found,) = read_all(
        tmp_path,
        {"trajectory": [], "history": [], "info": {"exit_status": "exit_environment_error"}},
    )
    assert found.error == RolloutFailure("infra", "exit_environment_error")


def test_swe_agent_names_its_model_in_text_that_is_json(tmp_path: Path) -> None:
    config = json.dumps({"agent": {"model": {"name": "m"}}})
    reading = read_rollouts(
        write_jsonl(tmp_path / "a.traj", {**SWE_AGENT, "history": [{}], "replay_config": config})
    )
    assert [one.policy for one in reading] == ["m"]
    assert reading.tally.left_out == {}


def test_an_attempt_that_failed_in_verifiers_is_counted_and_no_zero(tmp_path: Path) -> None:
    error = {"error": "SandboxError", "error_chain_repr": "r", "error_chain_str": "gone"}
    failed = {**VERIFIERS, "completion": None, "reward": 0.0, "error": error, "error_chain": "r"}
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", VERIFIERS, failed))
    found = list(reading)[1]
    assert found.error == RolloutFailure("infra", "SandboxError: gone")
    assert reading.tally.left_out == {}


def test_metrics_that_verifiers_repeats_flat_are_carried_once(tmp_path: Path) -> None:
    row = {**VERIFIERS, "exact": 1.0, "length": 0.5}
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row))
    assert [one.rewards for one in reading] == [{"reward": 1.0, "exact": 1.0, "length": 0.5}]
    assert reading.tally.left_out == {}


# --- files ---------------------------------------------------------------------------------------

LINES = b"".join(
    json.dumps({"messages": DIALOGUE, "reward": random.Random(n).random()}).encode() + b"\n"
    for n in range(2000)
)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.txt"])
@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_unpacked_by_what_it_is_and_not_by_its_name(
    name: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES) if packed else LINES)
    assert sum(1 for _ in read_rollouts(path)) == 2000


def test_a_packed_file_that_was_cut_short_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(LINES)
    path.write_bytes(whole[: len(whole) // 2])
    reading = read_rollouts(path)
    assert 100 < len(list(reading)) < 2000
    assert any("damaged" in reason for reason in reading.tally.skipped)


def test_a_packed_document_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json.gz"
    rows = [json.loads(line) for line in LINES.splitlines()]
    whole = gzip.compress(json.dumps(rows).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="damaged"):
        list(read_rollouts(path))


def test_rows_of_several_formats_in_one_file_are_each_read_as_what_they_are(tmp_path: Path) -> None:
    plain = {"messages": DIALOGUE, "task_id": "t"}
    found = read_all(tmp_path, plain, VERIFIERS, PREDICTION, plain, "broken")
    assert [one.task_key for one in found] == ["t", "gsm8k/3", "x__y-1", "t"]
    assert found[1].timings == {"generation": 1.5}


def test_a_skipped_row_is_named_with_what_it_has(tmp_path: Path) -> None:
    odd = {"messages": [{"role": "robot", "content": "x"}], "reward": 1.0}
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", {"messages": DIALOGUE}, odd))
    list(reading)
    (line,) = [line for line in reading.tally.lines() if line.startswith("skipped")]
    assert 'rows.jsonl:2 has "robot" in messages[0]' in line


def test_places_in_a_folder_are_told_apart(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "rows.jsonl", {"messages": DIALOGUE}, "broken")
    reading = read_rollouts(tmp_path)
    list(reading)
    assert reading.tally.places["the line is not JSON"] == ["a/rows.jsonl:2", "b/rows.jsonl:2"]


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b"")
    with pytest.raises(ConfigError, match="all empty"):
        list(read_rollouts(tmp_path / "rows.jsonl"))


def test_nesting_without_end_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "[" * 100_000 + "]" * 100_000 + "\n" + json.dumps({"messages": DIALOGUE}) + "\n"
    )
    with pytest.raises(ConfigError):
        list(read_rollouts(path))
    deep = '{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert len(read_all(tmp_path, deep, {"messages": DIALOGUE})) == 1


def test_fields_made_up_without_end_are_counted_and_not_all_named(tmp_path: Path) -> None:
    rows = [{"messages": DIALOGUE, **{f"f{n}-{i}": 1 for i in range(300)}} for n in range(9)]
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows))
    list(reading)
    assert sum(reading.tally.left_out.values()) == 2700
    assert len(reading.tally.left_out) <= 1001
    (line,) = [line for line in reading.tally.lines() if line.startswith("not carried")]
    assert line.endswith("and 989 more (--json)")


def test_examples_of_several_environments_are_told_apart(tmp_path: Path) -> None:
    bare = {name: value for name, value in VERIFIERS.items() if name != "task"}
    found = read_all(tmp_path, *({**bare, "env_name": name, "task": {"x": 1}} for name in "ab"))
    assert [one.group_id for one in found] == ["a/3", "b/3"]
