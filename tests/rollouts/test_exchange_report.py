"""The health report on rollouts that somebody else made: what is known, and what is not said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meta_agent.core.protocols import RolloutFailure
from meta_agent.readers.evidence import read_foreign
from meta_agent.readers.formats import read_rollouts

from ._foreign import DIALOGUE, MINI, PREDICTION, ours, sample, shown, write_jsonl


def report(tmp_path: Path, *rows: Any) -> Any:
    return read_foreign(read_rollouts(write_jsonl(tmp_path / "rows.jsonl", *rows)))


def row(task: str, text: str, **more: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "content": text}
    return {"messages": [DIALOGUE[1], answer], "task_id": task, "group_id": task, **more}


def test_what_is_not_in_the_data_is_named_and_never_zero(tmp_path: Path) -> None:
    found = report(tmp_path, row("a", "x"), row("a", "y"))
    assert found.evidence.score == {}
    assert found.evidence.signal == {}
    assert "truncation" not in found.evidence.behaviour
    assert "tool_failure_rate" not in found.evidence.behaviour
    text = shown(found)
    assert "not in this data (" in text
    assert "outcome: not in this data" in text
    assert "rewards: not in this data" in text


def test_part_of_the_rows_speaks_for_itself_alone(tmp_path: Path) -> None:
    rows = [row("a", "x", outcome=True), row("a", "y", outcome=False), row("b", "z")]
    found = report(tmp_path, *rows)
    assert found.evidence.score["n"] == 2
    assert found.evidence.score["success"] == 0.5
    assert any(line.startswith("outcome: in 2 of 3 rollouts") for line in found.missing)


def test_dead_groups_and_length_against_reward_are_seen(tmp_path: Path) -> None:
    dead = [row(f"a{g}", "x" * n, reward=1.0) for n in (1, 2, 3) for g in range(4)]
    alive = [row(f"b{g}", "x" * n * 10, reward=float(n)) for n in (1, 2, 3) for g in range(4)]
    found = report(tmp_path, *dead, *alive)
    assert found.evidence.signal["dead_group_ratio"] == 0.5
    assert found.shape["reward_chars_corr_within"] > 0.99
    assert "reward_corr_success" not in found.evidence.signal
    assert found.evidence.alert("signal.dead_group_ratio") is not None


def test_duplicates_empty_answers_and_loops_are_counted(tmp_path: Path) -> None:
    loop = "all work and no play makes a model say the same sentence over and over again. " * 5
    rows = [row("a", "same"), row("a", "same"), row("b", "same"), row("b", ""), row("c", loop)]
    found = report(tmp_path, *rows)
    assert found.shape["duplicates"] == 0.2
    assert found.shape["empty"] == 0.2
    assert found.shape["looping"] == 0.2


def test_tool_failures_show_only_where_results_tell(tmp_path: Path) -> None:
    assert report(tmp_path, MINI).evidence.behaviour["tool_failure.bash"] == 1.0
    silent = report(tmp_path, {"messages": DIALOGUE})
    assert silent.evidence.behaviour["tool_calls_mean"] == 1.0
    assert "tool_failure_rate" not in silent.evidence.behaviour


def test_calls_worth_a_look_are_counted_and_are_no_flags(tmp_path: Path) -> None:
    def acting(command: str, **more: Any) -> dict[str, Any]:
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        said = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": call}]}
        return {"messages": [DIALOGUE[1], said], **more}

    rows = [
        acting("git -C repo log --all", outcome=True),
        acting("echo pass > tests/test_a.py", outcome=False),
        acting("cat tests/test_a.py", outcome=True),
        acting("curl http://x", outcome=True),
    ]
    found = report(tmp_path, *rows)
    suspects = {name: v for name, v in found.shape.items() if name.startswith("suspect")}
    assert suspects == {
        "suspect.reads_history": 0.25,
        "suspect.reads_history.solved": 1.0,
        "suspect.uses_network": 0.25,
        "suspect.uses_network.solved": 1.0,
        "suspect.edits_tests": 0.25,
        "suspect.edits_tests.solved": 0.0,
    }
    assert found.evidence.score["clean_success"] == 0.75


def test_flags_and_infrastructure_errors_of_our_own_records_count() -> None:
    lost = ours(1, outcome=None, rewards={}, error=RolloutFailure("infra", "gone"))
    found = read_foreign([ours(0, 3), ours(0, 1), lost])
    assert found.evidence.behaviour["leak_use"] == 0.5
    assert found.evidence.score["n_infra_error"] == 1
    assert found.evidence.score["success_known"] == 1.0


def test_the_samples_have_a_report() -> None:
    found = read_foreign(read_rollouts(sample("nemo_gym_swebench_example_rollouts.jsonl")))
    assert found.evidence.score["success_known"] == 0.25
    assert found.evidence.score["n_verifier_error"] == 1
    assert any(line.startswith("messages: not in this data") for line in found.missing)


def test_no_rollouts_are_no_crash() -> None:
    assert shown(read_foreign([])).lstrip().startswith("0 rollouts")


def test_errors_alone_are_no_success_rate(tmp_path: Path) -> None:
    """Two machines that failed among attempts that nobody judged: a share of all, and no 0 %."""
    lost = {**MINI, "info": {"exit_status": "APIError"}}
    found = report(tmp_path, lost, *({**MINI, "instance_id": str(n)} for n in range(9)))
    assert found.evidence.score == {"n": 10.0, "n_infra_error": 1.0, "infra_share": 0.1}
    text = shown(found)
    assert "not in this data (" in text
    assert "outcome: not in this data" in text


def test_what_only_measures_raises_no_alert_about_teaching(tmp_path: Path) -> None:
    rows = [
        row("a", "x" * n, rewards={"reward": float(n), "turns": 1.0}, weights={"turns": 0.0})
        for n in range(1, 12)
    ]
    assert report(tmp_path, *rows).evidence.alert("signal.component.turns.constancy") is None
    taught = [{**one, "weights": {}} for one in rows]
    alert = report(tmp_path, *taught).evidence.alert("signal.component.turns.constancy")
    assert alert is not None


def test_blank_patches_are_counted_where_there_are_patches(tmp_path: Path) -> None:
    rows = [{**PREDICTION, "model_patch": patch} for patch in ("diff", " \n", None)]
    assert report(tmp_path, *rows).shape["empty_patch"] == 2 / 3
    assert "empty_patch" not in report(tmp_path, row("a", "x")).shape


def test_rewards_at_the_edge_of_what_a_float_holds_are_no_crash(tmp_path: Path) -> None:
    rows = [row("a", "x", reward=1e308), row("a", "y", rewards={"a": 1e308, "b": 1e308})]
    found = report(tmp_path, *rows, row("a", "z", reward=-1e308))
    json.dumps(found.to_json(), allow_nan=False)
    assert "group_size_mean" in shown(found)
