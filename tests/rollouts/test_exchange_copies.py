"""An attempt that several files hold is one: a summary and its parts, a log in two forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.readers.evidence import read_foreign
from meta_agent.readers.formats import read_rollouts
from meta_agent.readers.formats._read import POINTER, REPEATED

from ._foreign import DATA, DIALOGUE, INSPECT, OPENHANDS, PREDICTION, write_jsonl

CASES = DATA / "cases"
POINTER_TEXT = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


def put(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def counts(folder: Path) -> tuple[int, int]:
    """How many rollouts, and how many rows that another file held."""
    reading = read_rollouts(folder)
    return len(list(reading)), reading.tally.skipped[REPEATED]


def test_a_job_of_harbor_is_its_trials(tmp_path: Path) -> None:
    rows = [
        {"id": f"t{n}", "task_name": f"task-{n}", "exception_info": None,
         "verifier_result": {"rewards": {"reward": 1.0}}}
        for n in range(2)
    ]  # fmt: skip
    put(tmp_path / "result.json", {"id": "job", "trial_results": rows})
    for row in rows:
        put(tmp_path / row["id"] / "result.json", row)
    assert counts(tmp_path) == (2, 2)


def test_a_log_of_inspect_in_two_forms_is_one(tmp_path: Path) -> None:
    log = {**INSPECT, "eval": {**INSPECT["eval"], "run_id": "r"}}
    put(tmp_path / "log.json", log)
    put(tmp_path / "copy.json", log)
    put(tmp_path / "other.json", {**log, "eval": {**log["eval"], "run_id": "s"}})
    assert counts(tmp_path) == (2, 1)


def test_an_evaluation_of_openhands_repeats_its_attempts(tmp_path: Path) -> None:
    """The copy that was evaluated is read, and lost attempts are counted once as well."""
    attempt = {k: v for k, v in OPENHANDS.items() if k != "report"}
    lost = {"instance_id": "x__x-9", "test_result": {}, "error": "no server", "history": None}
    judged = {**attempt, "report": {"resolved": True}}
    write_jsonl(tmp_path / "output.jsonl", attempt, lost)
    write_jsonl(tmp_path / "output.swebench_eval.jsonl", judged, lost)
    assert counts(tmp_path) == (2, 2)
    assert [r.outcome for r in read_rollouts(tmp_path)] == [True, None]
    (tmp_path / "again").mkdir()
    write_jsonl(tmp_path / "again" / "output.jsonl", lost)
    assert counts(tmp_path) == (3, 2), "another run lost the instance too"


def test_a_report_and_those_of_its_instances_are_one_verdict_each(tmp_path: Path) -> None:
    run = {"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": [], "submitted_ids": ["a"]}
    put(tmp_path / "model.run1.json", run)
    for name in ("a", "b"):
        report = {name: {"patch_exists": True, "patch_is_None": False, "resolved": name == "a"}}
        put(tmp_path / "logs" / "run1" / "model" / name / "report.json", report)
    assert counts(tmp_path) == (2, 2)
    rows = [{**PREDICTION, "instance_id": name} for name in ("a", "b")]
    rows = [{k: v for k, v in row.items() if k != "resolved"} for row in rows]
    write_jsonl(tmp_path / "preds.jsonl", *rows)
    assert [rollout.outcome for rollout in read_rollouts(tmp_path)] == [True, False]


# --- lost attempts --------------------------------------------------------------------------------


def test_lost_instances_of_openhands_stay_in_the_run() -> None:
    if not CASES.is_dir():
        pytest.skip("the sample data is not here")
    report = read_foreign(read_rollouts(CASES / "openhands_errored.jsonl"))
    assert report.benchmarks == {}
    assert report.evidence.score["n"] == 4
    assert report.evidence.score["n_infra_error"] == 2
    assert report.policies == {"m": 4}


def test_a_lost_row_may_come_first(tmp_path: Path) -> None:
    lost = {"instance_id": "x__x-9", "test_result": {}, "error": "no server", "metadata": None}
    first, second = read_rollouts(write_jsonl(tmp_path / "output.jsonl", lost, OPENHANDS))
    assert first.error is not None
    assert (first.domain, first.policy) == (second.domain, second.policy)


# --- bytes ----------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"messages": DIALOGUE}) + "\n", encoding="utf-8-sig")
    assert len(list(read_rollouts(path))) == 1
    put(tmp_path / "log.json", INSPECT)
    text = (tmp_path / "log.json").read_text()
    (tmp_path / "log.json").write_text(json.dumps(json.loads(text), indent=1), encoding="utf-8-sig")
    assert len(list(read_rollouts(tmp_path / "log.json"))) == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_by_name(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(("\ufeff" + json.dumps({"messages": DIALOGUE})).encode(encoding))
    with pytest.raises(ConfigError, match="UTF-16") as caught:
        list(read_rollouts(path))
    assert "iconv" in str(caught.value.hint)


def test_a_git_lfs_pointer_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(POINTER_TEXT)
    with pytest.raises(ConfigError, match="Git LFS pointer") as caught:
        list(read_rollouts(tmp_path / "a.jsonl"))
    assert caught.value.hint == "git lfs pull"
    write_jsonl(tmp_path / "b.jsonl", {"messages": DIALOGUE})
    reading = read_rollouts(tmp_path)
    assert len(list(reading)) == 1
    assert reading.tally.skipped[POINTER] == 1
