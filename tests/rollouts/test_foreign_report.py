"""The health report on rollouts that somebody else made: what is known, and what is not said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.protocols import RolloutFailure
from meta_agent.readers.evidence import exemplars
from meta_agent.readers.foreign import read_foreign
from meta_agent.readers.foreign._shape import ShapeLayer
from meta_agent.readers.formats import read_rollouts

from ._foreign import DIALOGUE, GOLDEN, first, golden, ours, place, read, report, shown

CALL = DIALOGUE[2]["tool_calls"][0]
GIVEN = "replies of the prompt are not the attempt's"
MINI, NEMO = first("mini-swe-agent"), first("nemo-gym")


def row(task: str, text: str, **more: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "content": text}
    return {"messages": [DIALOGUE[1], answer], "task_id": task, "group_id": task, **more}


def alerts(folder: Path, *rows: Any) -> set[str]:
    return {alert.metric for alert in report(folder, *rows).evidence.alerts}


def unknown(found: Any) -> set[str]:
    """The fields that the report names as missing, in part or in all rows."""
    return {line.partition(":")[0] for line in found.missing}


# --- what is not in the data ----------------------------------------------------------------------


def test_what_is_not_in_the_data_is_named_and_never_zero(tmp_path: Path) -> None:
    found = report(tmp_path, row("a", "x"), row("a", "y"))
    assert found.evidence.score == {} == found.evidence.signal
    assert not {"truncation", "tool_failure_rate", "cut_replies"} & set(found.evidence.behaviour)
    assert {"outcome", "rewards", "cut_replies"} <= unknown(found)
    assert "outcome" in shown(found)


def test_part_of_the_rows_speaks_for_itself_alone(tmp_path: Path) -> None:
    rows = [row("a", "x", outcome=True), row("a", "y", outcome=False), row("b", "z")]
    found = report(tmp_path, *rows)
    assert (found.evidence.score["n"], found.evidence.score["success"]) == (2, 0.5)
    assert "outcome" in unknown(found)


def test_an_ending_is_a_share_of_all_attempts_and_a_cut_reply_of_those_that_say(
    tmp_path: Path,
) -> None:
    """Most data names an ending only where a limit ended the attempt."""
    rows = [row(f"t{n}", "a", **({"finish_reason": "length"} if n < 12 else {})) for n in range(40)]
    found = report(tmp_path, *rows)
    assert found.evidence.behaviour["truncation"] == pytest.approx(0.3)
    assert found.over["behaviour.truncation"].startswith("40 ")
    assert "cut_replies" not in found.evidence.behaviour and "stop_reason" in unknown(found)
    both = [row("a", "x", finish_reason=reason) for reason in ("length", "stop")]
    assert report(tmp_path, *both).evidence.behaviour["cut_replies"] == 0.5


def test_a_reward_is_missing_of_all_attempts(tmp_path: Path) -> None:
    rows = [row(f"t{n}", "a", **({"reward": float(n)} if n % 2 else {})) for n in range(6)]
    assert report(tmp_path, *rows).evidence.signal["reward_missing"] == 0.5


def test_tool_failures_show_only_where_results_tell(tmp_path: Path) -> None:
    assert report(tmp_path, MINI).evidence.behaviour["tool_failure.bash"] == 1.0
    silent = report(tmp_path, {"messages": DIALOGUE})
    assert silent.evidence.behaviour["tool_calls_mean"] == 1.0
    assert "tool_failure_rate" not in silent.evidence.behaviour


def test_a_call_that_was_cut_off_did_not_fail(tmp_path: Path) -> None:
    """An attempt that a limit ended is still one whose calls are known to have worked, or not."""
    block = {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True}
    says = [("user", "q"), ("assistant", [block]), ("user", [answer])]
    says.append(("assistant", [{**block, "id": "d"}]))
    messages = [{"role": role, "content": content} for role, content in says]
    found = report(tmp_path, {"messages": messages})
    assert found.evidence.behaviour["tool_failure_rate"] == 0.5


def test_errors_alone_are_no_success_rate(tmp_path: Path) -> None:
    """A machine that failed among attempts that nobody judged: a share of all, and no 0 %."""
    lost = {**MINI, "info": {"exit_status": "APIError"}}
    found = report(tmp_path, lost, *({**MINI, "instance_id": str(n)} for n in range(9)))
    assert found.evidence.score == {"n": 10.0, "n_infra_error": 1.0, "infra_share": 0.1}
    assert "outcome" in unknown(found)


def test_attempts_that_were_lost_stay_in_the_run(tmp_path: Path) -> None:
    (case,) = (case for case in golden("openhands") if "may come first" in case["case"])
    found = read_foreign(read_rollouts(place(tmp_path, case["files"])))
    assert found.benchmarks == {} and found.policies == {"m": 2}
    assert found.evidence.score["n_infra_error"] == 1


def test_a_log_without_scores_says_how_to_score_it(tmp_path: Path) -> None:
    log = first("inspect")
    bare = [{name: value for name, value in log["samples"][0].items() if name != "scores"}]
    text = shown(
        read_foreign(read_rollouts(place(tmp_path, {"log.json": {**log, "samples": bare}})))
    )
    assert "inspect score" in text and "SWE-bench" not in text


def test_no_rollouts_are_no_crash() -> None:
    assert "0 rollouts" in shown(read_foreign([]))


def test_rewards_at_the_edge_of_what_a_float_holds_are_no_crash(tmp_path: Path) -> None:
    rows = [row("a", "x", reward=1e308), row("a", "y", rewards={"a": 1e308, "b": 1e308})]
    found = report(tmp_path, *rows, row("a", "z", reward=-1e308))
    json.dumps(found.to_json(), allow_nan=False)
    assert "group_size_mean" in shown(found)


# --- what is seen ---------------------------------------------------------------------------------


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
    shape = report(tmp_path, *rows).shape
    assert (shape["duplicates"], shape["empty"], shape["looping"]) == (0.2, 0.2, 0.2)


def test_calls_worth_a_look_are_counted_and_are_no_flags(tmp_path: Path) -> None:
    def acting(command: str, outcome: bool) -> dict[str, Any]:
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        said = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": call}]}
        return {"messages": [DIALOGUE[1], said], "outcome": outcome}

    found = report(
        tmp_path,
        acting("git -C repo log --all", True),
        acting("echo pass > tests/test_a.py", False),
        acting("cat tests/test_a.py", True),
        acting("curl http://x", True),
    )
    suspects = {name: v for name, v in found.shape.items() if name.startswith("suspect")}
    assert suspects == {
        "suspect.reads_history": 0.25, "suspect.reads_history.solved": 1.0,
        "suspect.uses_network": 0.25, "suspect.uses_network.solved": 1.0,
        "suspect.edits_tests": 0.25, "suspect.edits_tests.solved": 0.0,
    }  # fmt: skip
    assert found.evidence.score["clean_success"] == 0.75


def test_flags_and_infrastructure_errors_of_our_own_records_count() -> None:
    lost = ours(1, outcome=None, rewards={}, error=RolloutFailure("infra", "gone"))
    found = read_foreign([ours(0, 3), ours(0, 1), lost])
    assert found.evidence.behaviour["leak_use"] == 0.5
    assert found.evidence.score["n_infra_error"] == 1
    assert found.evidence.score["success_known"] == 1.0


def test_what_only_measures_raises_no_alert_about_teaching(tmp_path: Path) -> None:
    metric = "signal.component.turns.constancy"
    rewards = [{"reward": float(n), "turns": 1.0} for n in range(1, 12)]
    measured = [row("a", "x", rewards=each, weights={"turns": 0.0}) for each in rewards]
    assert metric not in alerts(tmp_path, *measured)
    assert metric in alerts(tmp_path, *({**each, "weights": {}} for each in measured))


def test_blank_patches_are_counted_where_there_are_patches(tmp_path: Path) -> None:
    patches = ("diff", None, None, " ", "diff")
    rows = [{**first("swe-bench-predictions"), "model_patch": patch} for patch in patches]
    assert report(tmp_path, *rows).shape["empty_patch"] == 3 / 5
    assert "empty_patch" not in report(tmp_path, row("a", "x")).shape
    rows = [{**NEMO, "hash_id": str(n), "model_patch": each} for n, each in enumerate(patches)]
    found = report(tmp_path, *rows, {**NEMO, "hash_id": "says nothing of patches"})
    assert found.shape["empty_patch"] == 3 / 5
    info = MINI["info"]
    rows = [{**MINI, "info": {**info, "submission": each}} for each in patches]
    assert report(tmp_path, *rows).shape["empty_patch"] == 3 / 5


def _script(task: int, said: str, **more: Any) -> dict[str, Any]:
    names = ("execute", "submit")
    calls = [{**CALL, "id": name, "function": {"name": name, "arguments": "{}"}} for name in names]
    return {
        "messages": [
            DIALOGUE[1],
            {"role": "assistant", "content": "I run it", "tool_calls": calls[:1]},
            {"role": "tool", "tool_call_id": "execute", "content": said},
            {"role": "assistant", "content": "", "tool_calls": calls[1:]},
            {"role": "tool", "tool_call_id": "submit", "content": "thanks"},
        ],
        "task_id": f"t{task}",
        **more,
    }


def test_handing_in_after_a_failed_test_is_an_alert_and_after_a_script_is_not(
    tmp_path: Path,
) -> None:
    metric = "behaviour.submit_after_fail"
    assert metric in alerts(tmp_path, *(_script(n, "3 failed, 1 passed") for n in range(16)))
    assert metric not in alerts(tmp_path, *(_script(n, f"{n}.5\n") for n in range(16)))


@pytest.mark.parametrize("attempts", [1, 2, 9])
def test_a_few_attempts_alert_nobody(attempts: int, tmp_path: Path) -> None:
    rows = [_script(n, "3 failed", reward=1.0, outcome=n % 2 == 0) for n in range(attempts)]
    assert alerts(tmp_path, *rows) == set()


def test_the_interval_takes_tasks_as_the_units(tmp_path: Path) -> None:
    """Forty tasks of four attempts that end alike are forty units, not a hundred and sixty."""
    rows = [
        {"messages": DIALOGUE, "task_id": f"t{n // 4}", "outcome": n // 4 % 5 < 2}
        for n in range(160)
    ]
    score = report(tmp_path, *rows).evidence.score
    alone = report(tmp_path, *rows[::4]).evidence.score
    assert score["success_low"] == pytest.approx(alone["success_low"], abs=0.01)
    assert score["success_high"] - score["success_low"] > 0.25


def test_several_benchmarks_are_not_pooled(tmp_path: Path) -> None:
    def log(task: str, solved: list[bool]) -> dict[str, Any]:
        messages = [[DIALOGUE[1], {"role": "assistant", "content": f"{n}"}] for n in range(9)]
        scores = [{"exact": {"value": "C" if right else "I"}} for right in solved]
        samples = [
            {"id": n, "epoch": 1, "messages": messages[n], "scores": score}
            for n, score in enumerate(scores)
        ]
        return {"eval": {"task": task, "model": "m"}, "samples": samples, "status": "success"}

    logs = {"sums": [True] * 8, "code": [False] * 8, "trivia": [True, False]}
    files = {f"{name}.json": log(name, solved) for name, solved in logs.items()}
    found = read_foreign(read_rollouts(place(tmp_path, files)))
    assert {name: own["success"] for name, own in found.benchmarks.items()} == {
        "sums": 1.0, "code": 0.0, "trivia": 0.5,
    }  # fmt: skip
    text = shown(found)
    assert "3 benchmarks" in text and "success 50.0%" not in text


# --- replies that the prompt holds ----------------------------------------------------------------

WITH_EXAMPLES = sorted(path.stem for path in GOLDEN.iterdir() if GIVEN in path.read_text())


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_replies_of_the_prompt_are_not_counted(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in golden(name) if case["case"] == GIVEN)
    found = read_foreign(read_rollouts(place(tmp_path, case["files"])))
    assert found.shape["chars_mean"] == len("seven")
    assert found.evidence.behaviour["turns_mean"] == 1
    assert "unanswered" not in found.shape


def test_an_attempt_without_a_reply_has_no_last_words(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "two"}]
    (rollout,) = read(tmp_path, {"example_id": 1, "prompt": prompt, "completion": []})
    ((example,),) = exemplars([rollout]).values()
    assert "two" not in example.last_words


def test_quantiles_do_not_depend_on_the_order_of_rows() -> None:
    shape = ShapeLayer()
    for length, count in ((1, 4096), (1000, 11_904)):
        text = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x" * length}]
        attempt = ours(messages=text)
        for _ in range(count):
            shape.add(attempt, rewarded=False)
    metrics = shape.metrics()
    assert (metrics["chars_p50"], metrics["chars_p90"], metrics["chars_max"]) == (1000, 1000, 1000)


def test_what_a_log_does_not_say_in_a_field_is_read_from_its_texts(tmp_path: Path) -> None:
    def row(number: int, result: str) -> dict[str, Any]:
        call = {"id": "c", "function": {"name": "run", "arguments": "{}"}}
        completion = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result},
        ]
        prompt = [{"role": "user", "content": "2+2?"}]
        costs = {"timing": {"total_ms": 1500.0}}
        return {"example_id": 0, "prompt": prompt, "completion": completion, **costs} | {
            "reward": float(number % 2)
        }

    failed = "Traceback (most recent call last):\n  File x\nValueError: no"
    rows = [row(number, failed if number < 2 else "4") for number in range(4)]
    place(tmp_path, {"results.jsonl": rows, "metadata.json": {"env_id": "sums", "model": "acme/m"}})
    told = read_foreign(read_rollouts(tmp_path / "results.jsonl"))
    assert told.policies == {"acme/m": 4}, "metadata beside a file that is named is read"
    assert (told.shape["tracebacks"], told.over["shape.tracebacks"]) == (0.5, "4 tool results")
    assert told.shape["seconds_mean"] == 1.5
    missing = {line.partition(":")[0]: line for line in told.missing}
    assert "--solved-at 1" in missing["outcome"] and "50%" in missing["tool_ok"]
