"""Rollouts in other tools' formats: recognised, read, counted, written, read again."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Rollout, TokenRecord
from meta_agent.core.rollouts import RolloutStore
from meta_agent.domains.formats.files import Placed
from meta_agent.readers.formats import FORMATS, absent, read_rollouts, sniff
from meta_agent.readers.formats._draft import Draft
from meta_agent.readers.formats._row import Row, RowError

from ._foreign import (
    ATIF,
    DIALOGUE,
    INSPECT,
    MINI,
    NEMO,
    OPENHANDS,
    PREDICTION,
    SWE_AGENT,
    VERIFIERS,
    VERL,
    ours,
    sample,
    write_jsonl,
)

TRL = {"step": 3, "prompt": "2+2", "completion": "4", "accuracy": 1.0, "advantage": 0.5}
OPENAI = {"messages": DIALOGUE, "reward": 1.0}
ROWS: dict[str, Any] = {
    "openai-messages": OPENAI,
    "trl-completions": TRL,
    "mini-swe-agent": MINI,
    "nemo-gym": NEMO,
    "prime-rl": VERIFIERS,
    "swe-bench-predictions": PREDICTION,
    "atif": ATIF,
    "swe-agent": SWE_AGENT,
    "inspect": INSPECT,
    "verl": VERL,
    "openhands": OPENHANDS,
    "swe-bench-report": {"a": {"patch_exists": True, "resolved": True}},
}


def read_one(tmp_path: Path, row: Any) -> Rollout:
    (found,) = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row))
    return found


@pytest.mark.parametrize(("name", "row"), ROWS.items())
def test_each_format_is_recognised_by_its_rows(name: str, row: Any) -> None:
    assert sniff(row, "here").name == name


@pytest.mark.parametrize(("name", "row"), ROWS.items())
def test_what_is_read_can_be_stored_and_read_again(name: str, row: Any, tmp_path: Path) -> None:
    found = read_one(tmp_path, row)
    store = RolloutStore(tmp_path / "store")
    assert store.read(store.write("imported", [found]), tokens=True) == [found]


def test_openai_messages_tell_turns_tools_and_reward(tmp_path: Path) -> None:
    found = read_one(tmp_path, OPENAI)
    assert (found.turns, found.rewards) == (2, {"reward": 1.0})
    (event,) = found.tool_events
    assert (event.tool, event.arguments, event.result) == ("bash", {"cmd": "ls"}, "a.py")
    assert absent(found) == {
        *("tool_ok", "stop_reason", "cut_replies", "outcome", "tokens", "flags", "task")
    }


def test_content_parts_become_text_and_images_are_counted(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "see "}, {"type": "image_url", "image_url": {"url": "x"}}]
    row = {"messages": [{"role": "user", "content": parts}, DIALOGUE[-1]]}
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row))
    (found,) = reading
    assert found.messages[0]["content"] == "see [image_url not carried over]"
    assert reading.tally.left_out == {"content part image_url": 1}


def test_a_mini_swe_agent_trajectory_tells_codes_ending_and_model(tmp_path: Path) -> None:
    found = read_one(tmp_path, MINI)
    assert (found.task_key, found.policy, found.turns) == ("x__y-1", "m", 2)
    assert [(e.arguments, e.ok) for e in found.tool_events] == [({"command": "ls"}, False)]
    assert found.stop_reason == "turn_limit"
    assert "usd" not in found.cost, "a cost of 0 after two calls is an unknown price"


@pytest.mark.parametrize(
    ("status", "kind"), [("RateLimitError", "infra"), ("KeyError", "policy"), ("APIError", "infra")]
)
def test_an_agent_that_crashed_is_an_error_of_its_kind(
    status: str, kind: str, tmp_path: Path
) -> None:
    found = read_one(tmp_path, {**MINI, "info": {"exit_status": status}})
    assert found.error is not None
    assert (found.error.kind, found.stop_reason) == (kind, "error")


def test_swe_agent_steps_are_a_dialogue_with_the_limit_that_ended_it(tmp_path: Path) -> None:
    path = tmp_path / "x__y-1.traj"
    path.write_text(json.dumps(SWE_AGENT, indent=2))
    (found,) = read_rollouts(path)
    assert (found.task_key, found.stop_reason) == ("x__y-1", "turn_limit")
    assert [m["role"] for m in found.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [event.tool for event in found.tool_events] == ["ls", "submit"]
    assert "tool_ok" in absent(found)


def test_nemo_gym_items_become_one_message_a_turn(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", NEMO)
    reading = read_rollouts(path)
    (found,) = reading
    assert [m["role"] for m in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.messages[1]["reasoning_content"] == "hm"
    assert (found.stop_reason, found.outcome, found.rewards) == ("length", True, {"reward": 0.5})
    assert found.tokens == TokenRecord([1, 2], [3], [1], [-0.1])
    assert reading.tally.left_out["response item web_search_call"] == 1


def test_an_evaluation_that_did_not_finish_is_no_failure_of_the_model(tmp_path: Path) -> None:
    found = read_one(tmp_path, {**NEMO, "resolved": False, "evaluation_completed": False})
    assert found.outcome is None
    assert found.error is not None
    assert found.error.kind == "verifier"


def test_verifiers_metrics_stand_beside_the_reward_without_weight(tmp_path: Path) -> None:
    found = read_one(tmp_path, VERIFIERS)
    assert found.task_key == "gsm8k/3"
    assert found.rewards == {"reward": 1.0, "exact": 1.0, "length": 0.5}
    assert found.total_reward == 1.0
    assert (found.stop_reason, found.timings) == ("turn_limit", {"generation": 1.5})
    assert found.tokens == TokenRecord([1], [2], [1], [-0.5])


def test_a_map_of_predictions_is_as_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "preds.json"
    path.write_text(json.dumps({"a": PREDICTION, "b": {**PREDICTION, "instance_id": "b"}}))
    found = list(read_rollouts(path))
    assert [one.task_key for one in found] == ["x__y-1", "b"]
    assert all({"messages", "outcome"} <= absent(one) for one in found)


def test_atif_pairs_results_by_id_and_joins_token_rows(tmp_path: Path) -> None:
    found = read_one(tmp_path, ATIF)
    assert [event.result for event in found.tool_events] == ["a.py", "/repo"]
    assert found.tokens == TokenRecord(
        [1, 2], [3, 4, 9, 5], [1, 1, 0, 1], [-0.1, -0.2, 0.0, -0.3], exact=True
    )
    assert (found.turns, found.cost) == (2, {"tokens": 10.0})


def test_a_call_that_breaks_the_prefix_leaves_the_last_segment_marked(tmp_path: Path) -> None:
    broken = json.loads(json.dumps(ATIF))
    broken["steps"][2]["metrics"]["prompt_token_ids"] = [8, 8]
    found = read_one(tmp_path, broken)
    assert found.tokens == TokenRecord([8, 8], [5], [1], [-0.3], exact=False)


def test_groups_number_their_attempts(tmp_path: Path) -> None:
    rows = [{**VERIFIERS, "example_id": n // 2} for n in range(4)]
    found = list(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows)))
    assert [(one.group_id, one.sample_idx) for one in found] == [
        ("gsm8k/0", 0),
        ("gsm8k/0", 1),
        ("gsm8k/1", 0),
        ("gsm8k/1", 1),
    ]


# --- nothing is dropped in silence ---------------------------------------------------------------


def test_bad_rows_are_skipped_counted_and_named(tmp_path: Path) -> None:
    rows = [
        OPENAI,
        "{not json",
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": "x" * 3, "reward": "high"},
        {"messages": []},
        [],
    ]
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows))
    assert len(list(reading)) == 1
    tally = reading.tally
    assert (tally.rows, tally.rollouts, tally.skipped_rows) == (6, 1, 5)
    assert tally.places["the line is not JSON"] == ["rows.jsonl:2"]
    assert "field reward: expected a number" in tally.skipped
    assert any("a message's role: expected one of" in reason for reason in tally.skipped)
    assert "skipped 1: the line is not JSON (first: rows.jsonl:2)" in tally.lines()


def test_nan_and_broken_unicode_pass_through_without_a_crash(tmp_path: Path) -> None:
    odd = [DIALOGUE[1], {"role": "assistant", "content": "\ud800 \x1b[31m"}]
    row = json.dumps({**VERIFIERS, "completion": odd, "info": {"loss": 1}, "reward": 2})
    row = row.replace('"loss": 1', '"loss": NaN').replace('"reward": 2', '"reward": Infinity')
    found = read_one(tmp_path, row)
    assert "reward" not in found.rewards
    assert found.verifier_inputs["info"] == {"loss": None}
    store = RolloutStore(tmp_path / "store")
    assert store.read(store.write("odd", [found]), tokens=True) == [found]


def test_fields_without_a_place_in_the_record_are_counted(tmp_path: Path) -> None:
    reading = read_rollouts(write_jsonl(tmp_path / "rows.jsonl", {**OPENAI, "judge": {"x": 1}}))
    list(reading)
    assert reading.tally.left_out == {"judge": 1}


def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rollout could be read"):
        list(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", {"messages": [1]})))


def test_a_task_file_is_told_from_rollouts(tmp_path: Path) -> None:
    row = {"instance_id": "a", "problem_statement": "x", "repo": "r"}
    with pytest.raises(ConfigError, match="the format is unknown") as caught:
        list(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", row)))
    assert "tasks check" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["", "\x00\x01", "[1, 2", "PAR1 but not really"])
def test_garbage_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError):
        list(read_rollouts(path))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, Any]:
    """A row of some format with any value put anywhere near its top."""
    name = draw(st.sampled_from(sorted(ROWS)))
    row = json.loads(json.dumps(ROWS[name]))
    place = row
    for _ in range(draw(st.integers(0, 3))):
        inner = [v for v in place.values() if isinstance(v, dict) and v]
        inner += [
            x for v in place.values() if isinstance(v, list) for x in v if isinstance(x, dict)
        ]
        place = draw(st.sampled_from(inner)) if inner else place
        if not place:
            break
    if place:
        place[draw(st.sampled_from(sorted(place)))] = draw(json_values)
    return name, row


@settings(max_examples=200, deadline=None)
@given(spoiled())
def test_no_value_anywhere_crashes_a_reader(case: tuple[str, Any]) -> None:
    name, row = case
    for one in FORMATS.values():
        one.claims(row)
    found = FORMATS[name]
    whole = Placed("here", row)
    for placed in found.expand(whole) if found.expand else (whole,):
        if isinstance(placed.value, dict):
            with suppress(RowError):
                draft = found.read(Row(placed.value), lambda _: None)
                assert isinstance(draft, Draft) and draft.absent() is not None


# --- files ---------------------------------------------------------------------------------------


def test_packed_files_lists_and_folders_are_read(tmp_path: Path) -> None:
    line = json.dumps(OPENAI).encode() + b"\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(line))
    (tmp_path / "c.json").write_text(json.dumps([OPENAI, OPENAI], indent=1))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "t.traj").write_text(json.dumps(SWE_AGENT))
    (tmp_path / "notes.txt").write_text("not read")
    reading = read_rollouts(tmp_path)
    assert len(list(reading)) == 5
    assert (reading.tally.files, reading.tally.format) == (4, "several formats")


def test_a_folder_may_hold_other_things_and_they_are_counted(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", OPENAI)
    write_jsonl(tmp_path / "config.json", {"learning_rate": 1})
    reading = read_rollouts(tmp_path)
    assert len(list(reading)) == 1
    assert reading.tally.places == {"a file of no known rollout format": ["config.json"]}


def test_a_store_of_our_own_is_read_as_a_folder(tmp_path: Path) -> None:
    RolloutStore(tmp_path / "store").write("run/g0", [ours(0, 0), ours(0, 1)])
    found = list(read_rollouts(tmp_path / "store"))
    assert [one.sample_idx for one in found] == [0, 1]


@pytest.mark.parametrize(
    ("name", "rollouts", "format_name"),
    [
        ("mini_swe_agent_local.traj.json", 1, "mini-swe-agent"),
        ("mini_swe_agent_github_issue.traj.json", 1, "mini-swe-agent"),
        ("nemo_gym_code_example_rollouts.jsonl", 5, "nemo-gym"),
        ("nemo_gym_swebench_example_rollouts.jsonl", 5, "nemo-gym"),
    ],
)
def test_the_samples_are_read_whole(name: str, rollouts: int, format_name: str) -> None:
    reading = read_rollouts(sample(name))
    assert len(list(reading)) == rollouts
    assert (reading.tally.format, reading.tally.skipped_rows) == (format_name, 0)


def test_the_sample_trajectory_says_which_commands_failed() -> None:
    (found,) = read_rollouts(sample("mini_swe_agent_github_issue.traj.json"))
    assert (found.turns, found.stop_reason) == (10, "submitted")
    assert sum(not event.ok for event in found.tool_events) == 2


# --- Parquet -------------------------------------------------------------------------------------


def test_a_table_as_a_trainer_writes_it_is_read(tmp_path: Path) -> None:
    """`log_completions` makes a data frame of messages and writes it by pandas."""
    pandas = pytest.importorskip("pandas", reason="needs the train extra")
    pytest.importorskip("pyarrow", reason="Parquet needs the train extra")
    prompts = [DIALOGUE[:2]] * 2
    completions = [DIALOGUE[2:], [{"role": "assistant", "content": "none"}]]
    table = {"step": [1, 1], "prompt": prompts, "completion": completions}
    frame = pandas.DataFrame({**table, "solved": [1.0, 0.0], "advantage": [0.7, -0.7]})
    frame.to_parquet(tmp_path / "completions_00001.parquet")
    first, second = read_rollouts(tmp_path)
    assert first.messages == DIALOGUE
    assert (first.turns, first.tool_events[0].arguments) == (2, {"cmd": "ls"})
    assert (second.rewards, second.advantage, second.sample_idx) == ({"solved": 0.0}, -0.7, 1)


def test_trl_tables_with_strings_and_missing_rewards_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the train extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "step": [5, 5, 5],
            "prompt": ["2+2", "2+2", "3+3"],
            "completion": ["4", "5", None],
            "accuracy": [1.0, float("nan"), 0.0],
            "advantage": [0.7, -0.7, 0.0],
            "note": ["a", "b", "c"],
        }
    )
    parquet.write_table(table, tmp_path / "completions_00005.parquet")
    reading = read_rollouts(tmp_path)
    first, second = reading
    assert first.group_id == second.group_id
    assert first.group_id.endswith("@5")
    assert first.rewards == {"accuracy": 1.0}
    assert "rewards" in absent(second)
    assert "tool_events" in absent(first), "a plain string says nothing about tools"
    assert reading.tally.skipped_rows == 1
    assert reading.tally.left_out["accuracy (not finite)"] == 1
    assert reading.tally.left_out["note (not a number)"] == 2
