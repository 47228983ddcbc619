"""Files of other tools as they are found outside: what is read, and what is not said of them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import Rollout
from meta_agent.readers.evidence import read_foreign
from meta_agent.readers.formats import read_rollouts

from ._foreign import CALL, DIALOGUE, MINI, NEMO, shown, write_jsonl


def read(path: Path, document: Any) -> list[Rollout]:
    path.write_text(json.dumps(document))
    return list(read_rollouts(path))


def alerts(found: Any) -> list[str]:
    return [alert.metric for alert in found.evidence.alerts]


# --- readers -------------------------------------------------------------------------------------

TAU2 = {
    "info": {
        "environment_info": {"domain_name": "airline"},
        "agent_info": {"llm": "some-model"},
    },
    "tasks": [],
    "simulations": [
        {"id": "s1", "task_id": "3", "trial": 0, "messages": DIALOGUE,
         "reward_info": {"reward": 0.0}, "termination_reason": "max_steps", "agent_cost": 0.2},
        {"id": "s2", "task_id": "3", "trial": 1, "messages": DIALOGUE,
         "reward_info": {"reward": 1.0}, "termination_reason": "user_stop"},
    ],
}  # fmt: skip


def test_tau2_bench_simulations_are_read(tmp_path: Path) -> None:
    first, second = read(tmp_path / "t.json", TAU2)
    assert (first.outcome, first.stop_reason, first.cost) == (False, "turn_limit", {"usd": 0.2})
    assert (second.outcome, second.domain, second.policy) == (True, "airline", "some-model")
    assert first.group_id == second.group_id


# --- what the report says, and what it does not --------------------------------------------------


def _script(task: int, said: str, **more: Any) -> dict[str, Any]:
    call = {**CALL, "function": {"name": "execute", "arguments": "{}"}}
    return {
        "messages": [
            DIALOGUE[1],
            {"role": "assistant", "content": "I run it", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": said},
            {"role": "assistant", "content": "", "tool_calls": [
                {**CALL, "id": "c2", "function": {"name": "submit", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c2", "content": "thanks"},
        ],
        "task_id": f"t{task}",
        **more,
    }  # fmt: skip


def test_scripts_that_ran_are_no_failing_tests(tmp_path: Path) -> None:
    rows = [_script(task, f"{task}.5\n") for task in range(16)]
    found = read_foreign(read_rollouts(write_jsonl(tmp_path / "a.jsonl", *rows)))
    assert "submit_after_fail" not in found.evidence.behaviour
    assert "behaviour.submit_after_fail" not in alerts(found)


def test_handing_in_after_a_failure_says_how_many_of_what(tmp_path: Path) -> None:
    rows = [_script(task, "3 failed, 1 passed") for task in range(16)]
    found = read_foreign(read_rollouts(write_jsonl(tmp_path / "a.jsonl", *rows)))
    told = found.evidence.alert("behaviour.submit_after_fail")
    assert told is not None
    assert told.message.endswith("(n = 16 attempts whose last test failed)")


@pytest.mark.parametrize("attempts", [1, 2, 9])
def test_a_few_attempts_alert_nobody(attempts: int, tmp_path: Path) -> None:
    rows = [_script(n, "3 failed", reward=1.0, outcome=n % 2 == 0) for n in range(attempts)]
    assert alerts(read_foreign(read_rollouts(write_jsonl(tmp_path / "a.jsonl", *rows)))) == []


def test_a_patch_of_nothing_is_a_blank_patch(tmp_path: Path) -> None:
    made = [{**MINI, "info": {**MINI["info"], "submission": s}} for s in ("d", None, None, "", "d")]
    for at, one in enumerate(made):
        (tmp_path / f"{at}.traj.json").write_text(json.dumps(one))
    assert read_foreign(read_rollouts(tmp_path)).shape["empty_patch"] == 3 / 5


def test_a_patch_that_is_null_is_a_blank_patch_in_nemo_gym_too(tmp_path: Path) -> None:
    patches = ("diff", None, None, " ", "diff")
    rows = [{**NEMO, "hash_id": str(at), "model_patch": one} for at, one in enumerate(patches)]
    path = write_jsonl(tmp_path / "a.jsonl", *rows, {**NEMO, "hash_id": "says nothing of patches"})
    assert read_foreign(read_rollouts(path)).shape["empty_patch"] == 3 / 5


def test_the_interval_takes_tasks_as_the_units(tmp_path: Path) -> None:
    """Forty tasks of four trials that end alike are forty things seen, not a hundred and sixty."""
    rows = [
        {"messages": DIALOGUE, "task_id": f"t{task}", "outcome": task % 5 < 2}
        for task in range(40)
        for _ in range(4)
    ]
    score = read_foreign(read_rollouts(write_jsonl(tmp_path / "a.jsonl", *rows))).evidence.score
    alone = read_foreign(read_rollouts(write_jsonl(tmp_path / "b.jsonl", *rows[::4])))
    assert score["success_low"] == pytest.approx(alone.evidence.score["success_low"], abs=0.01)
    assert score["success_high"] - score["success_low"] > 0.25


def _log(task: str, solved: list[bool], **more: Any) -> dict[str, Any]:
    samples = [
        {"id": at, "epoch": 1, "messages": [DIALOGUE[1], {"role": "assistant", "content": f"{at}"}],
         "scores": {"exact": {"value": "C" if right else "I"}}}
        for at, right in enumerate(solved)
    ]  # fmt: skip
    return {"eval": {"task": task, "model": "m"}, "samples": samples, "status": "success", **more}


def test_several_benchmarks_are_not_pooled(tmp_path: Path) -> None:
    for name, solved in (("sums", [True] * 8), ("code", [False] * 8), ("trivia", [True, False])):
        (tmp_path / f"{name}.json").write_text(json.dumps(_log(name, solved)))
    found = read_foreign(read_rollouts(tmp_path))
    text = shown(found)
    assert {name: own["success"] for name, own in found.benchmarks.items()} == {
        "sums": 1.0, "code": 0.0, "trivia": 0.5,
    }  # fmt: skip
    assert "3 benchmarks, whose shares do not add up to one" in text
    assert "success 50.0%" not in text


@pytest.mark.parametrize("status", ["cancelled", "error", "started"])
def test_a_log_that_was_cut_short_is_mentioned(status: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(_log("sums", [True, False], status=status)))
    reading = read_rollouts(path)
    assert len(list(reading)) == 2
    assert f"ended as {status}, so there may be more: 2 of 2" in "\n".join(reading.tally.lines())


def test_an_archive_without_a_header_was_never_finished(tmp_path: Path) -> None:
    log = _log("sums", [True])
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"eval": log["eval"]}))
        archive.writestr("samples/0_epoch_1.json", json.dumps(log["samples"][0]))
    reading = read_rollouts(path)
    assert len(list(reading)) == 1
    assert "ended as started" in "\n".join(reading.tally.lines())
