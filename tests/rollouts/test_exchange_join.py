"""Trajectories, the predictions made of them and the harness's verdicts are one attempt each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.readers.formats import absent, read_rollouts

from ._foreign import ATIF, MINI, PREDICTION, REPORT, VERIFIERS, write_jsonl

FOUND: dict[str, tuple[bool | None, str | None]] = {
    "a": (True, None),
    "b": (False, None),
    "c": (False, None),
    "d": (None, "verifier"),
}


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4))
    return path


def prediction(task: str, patch: str = "") -> dict[str, Any]:
    return {**PREDICTION, "instance_id": task, "model_patch": patch}


def trajectory(task: str, patch: str = "") -> dict[str, Any]:
    info = {"exit_status": "Submitted", "submission": patch}
    return {**MINI, "instance_id": task, "info": info}


def outcomes(*paths: Path) -> dict[str, tuple[bool | None, str | None]]:
    return {
        one.task_key: (one.outcome, one.error.kind if one.error else None)
        for one in read_rollouts(*paths)
    }


def test_a_report_alone_is_outcomes(tmp_path: Path) -> None:
    reading = read_rollouts(write(tmp_path / "gpt.run.json", REPORT))
    assert {r.task_key: (r.outcome, r.error and r.error.kind) for r in reading} == FOUND
    assert reading.tally.skipped == {"the row has no prediction for its instance": 1}


@pytest.mark.parametrize("resolved", [True, False])
def test_reports_by_instance_are_outcomes_too(resolved: bool, tmp_path: Path) -> None:
    told = {"patch_is_None": False, "patch_exists": True, "resolved": resolved}
    write(tmp_path / "run" / "a" / "report.json", {"a": told})
    write(tmp_path / "run" / "b" / "report.json", {"b": told})
    assert outcomes(tmp_path) == {"a": (resolved, None), "b": (resolved, None)}


def test_predictions_get_the_outcomes_of_the_report_beside_them(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "preds.jsonl", *(prediction(name) for name in "abcd"))
    write(tmp_path / "report.json", REPORT)
    reading = read_rollouts(tmp_path)
    found = list(reading)
    assert {r.task_key: (r.outcome, r.error and r.error.kind) for r in found} == FOUND
    assert all("outcome" not in absent(one) for one in found)
    assert (reading.tally.joined, reading.tally.files) == (4, 2)


def test_a_trajectory_and_its_prediction_are_one_attempt(tmp_path: Path) -> None:
    for name in ("a", "z"):
        write(tmp_path / name / f"{name}.traj.json", trajectory(name, f"diff {name}"))
    write(tmp_path / "preds.json", {n: prediction(n, f"diff {n}") for n in "az"})
    write(tmp_path / "report.json", REPORT)
    reading = read_rollouts(tmp_path)
    found = list(reading)
    assert [(one.task_key, one.turns, one.outcome) for one in found] == [
        ("a", 2, True),
        ("z", 2, None),
    ]
    assert reading.tally.skipped["the patch of a trajectory that is read too"] == 2


def test_a_patch_that_is_no_trajectorys_is_an_attempt_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.traj.json", trajectory("a", "diff 1"))
    write(tmp_path / "preds.json", {"a": prediction("a", "diff 2")})
    assert len(list(read_rollouts(tmp_path))) == 2


def test_of_several_attempts_none_gets_the_verdict(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "preds.jsonl", prediction("a", "1"), prediction("a", "2"))
    write(tmp_path / "report.json", REPORT)
    reading = read_rollouts(tmp_path)
    assert [one.outcome for one in reading] == [None, None]
    assert reading.tally.joined == 0
    unused = next(n for reason, n in reading.tally.skipped.items() if "verdict" in reason)
    assert unused == 4


def test_what_a_row_says_of_itself_stands(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "preds.jsonl", {**prediction("a"), "resolved": False})
    write(tmp_path / "report.json", REPORT)
    assert outcomes(tmp_path) == {"a": (False, None)}


def test_a_report_that_tells_nothing_is_refused(tmp_path: Path) -> None:
    told = {"patch_exists": True, "resolved": "maybe"}
    with pytest.raises(ConfigError, match="true or false"):
        list(read_rollouts(write(tmp_path / "report.json", {"a": told})))


# --- Harbor --------------------------------------------------------------------------------------


def trial(folder: Path, reward: float | None, failed: str = "", attach: bool = True) -> None:
    told = {"exception_type": failed, "exception_message": "x"} if failed else None
    result = {
        "task_name": "org/task",
        "trial_name": folder.name,
        "agent_info": {"name": "a", "model_info": {"name": "gpt", "provider": "p"}},
        "agent_result": {"n_input_tokens": 10, "n_output_tokens": 5, "cost_usd": 0.2},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": told,
    }
    write(folder / "result.json", result)
    if attach:
        write(folder / "agent" / "trajectory.json", ATIF)


def test_a_trial_of_harbor_is_its_result_and_its_trajectory(tmp_path: Path) -> None:
    trial(tmp_path / "task__1", 1.0)
    trial(tmp_path / "task__2", 0.0, "AgentTimeoutError")
    write(tmp_path / "result.json", {"n_total_trials": 2})
    reading = read_rollouts(tmp_path)
    first, second = reading
    assert (first.task_key, first.rewards, first.turns) == ("org/task", {"reward": 1.0}, 2)
    assert (second.rewards, second.stop_reason, second.error) == (
        {"reward": 0.0},
        "wall_limit",
        None,
    )
    assert (first.group_id, second.sample_idx) == (second.group_id, 1)
    assert (reading.tally.format, reading.tally.left_out) == ("harbor", {})


@pytest.mark.parametrize(
    ("failed", "kind"),
    [("EnvironmentStartError", "infra"), ("RewardFileNotFoundError", "verifier")],
)
def test_a_trial_that_failed_before_its_trajectory_is_an_attempt(
    failed: str, kind: str, tmp_path: Path
) -> None:
    trial(tmp_path / "task__1", None, failed, attach=False)
    (found,) = read_rollouts(tmp_path)
    assert found.error is not None
    assert (found.error.kind, found.policy, found.cost) == (kind, "gpt", {"usd": 0.2, "tokens": 15})
    assert "messages" in absent(found)


# --- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cut.json", "cut.parquet", "cut.eval", "cut.traj"])
def test_one_damaged_file_does_not_end_the_reading_of_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{\n "trajectory": [')
    write(tmp_path / "whole.traj.json", trajectory("a"))
    reading = read_rollouts(tmp_path)
    assert [one.task_key for one in reading] == ["a"]
    assert [name] in reading.tally.places.values()


def test_a_trial_keeps_its_reward_where_its_trajectory_is_damaged(tmp_path: Path) -> None:
    trial(tmp_path / "task__1", 1.0)
    (tmp_path / "task__1" / "agent" / "trajectory.json").write_text('{\n "steps": [')
    reading = read_rollouts(tmp_path)
    assert [one.rewards for one in reading] == [{"reward": 1.0}]
    assert "trajectory.json beside it is damaged" in reading.tally.skipped


def test_a_result_on_one_line_has_its_trajectory_too(tmp_path: Path) -> None:
    trial(tmp_path / "task__1", 1.0)
    path = tmp_path / "task__1" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert [one.turns for one in read_rollouts(tmp_path)] == [2]


# --- verifiers -----------------------------------------------------------------------------------


def test_results_of_several_models_and_environments_are_groups_of_their_own(tmp_path: Path) -> None:
    row = {name: value for name, value in VERIFIERS.items() if name != "task"}
    for env, model in (("gsm8k", "a"), ("gsm8k", "b"), ("wordle", "a")):
        folder = tmp_path / f"{env}--{model}" / "1c2d"
        write(folder / "metadata.json", {"env_id": env, "model": model})
        write_jsonl(folder / "results.jsonl", row, row)
    reading = read_rollouts(tmp_path)
    found = list(reading)
    assert [(one.policy, one.sample_idx) for one in found[:4]] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert {one.task_key for one in found} == {"gsm8k/3", "wordle/3"}
    assert len({one.group_id for one in found}) == 3
    assert (reading.tally.skipped_rows, reading.tally.left_out) == (0, {})


def test_a_verdict_may_be_about_an_attempt_that_failed(tmp_path: Path) -> None:
    failed = {**trajectory("a"), "info": {"exit_status": "APIError"}}
    write(tmp_path / "1.traj.json", failed)
    write(tmp_path / "2.traj.json", trajectory("a"))
    write(tmp_path / "report.json", REPORT)
    reading = read_rollouts(tmp_path)
    assert [one.outcome for one in reading] == [None, None]
    assert reading.tally.joined == 0


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "preds.jsonl", prediction("a"))
    assert len(list(read_rollouts(tmp_path, path, path))) == 1


def test_rows_whose_fields_are_mapped_are_read_beside_a_report(tmp_path: Path) -> None:
    """The files are read twice there, by the same names."""
    rows = write_jsonl(tmp_path / "rows.jsonl", {"name": "a", "text": "Mend a.", "patch": "diff"})
    report = write(tmp_path / "report.json", REPORT)
    mapped = read_rollouts(rows, report, fields="name=example_id,text=prompt,patch=completion")
    assert [(one.task_key, one.outcome) for one in mapped] == [("rows/a", None)]
