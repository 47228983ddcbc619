"""Evidence as files: what is there, what never is, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_agent.core.gate import Finding
from meta_agent.core.proposals import EvidenceSource, PastAttempt
from meta_agent.core.protocols import Hypothesis, Rollout, RolloutFailure, ToolEvent, ViewChange
from meta_agent.proposers import evidence_files
from meta_agent.readers.evidence import build_evidence
from meta_agent.skills import SkillLibrary


def rollout(at: int, split: str = "search", **changes: Any) -> Rollout:
    facts: dict[str, Any] = {
        "run": "r",
        "version": "v0",
        "domain": "swe",
        "split": split,
        "task_key": f"task,{at}",
        "task_hash": "h",
        "group_id": f"g{at}",
        "sample_idx": 0,
        "seed": 0,
        "harness_commit": "c",
        "policy": "p",
        "evaluator_hash": "e",
        "outcome": at % 2 == 0,
        "turns": 2,
        "messages": [
            {"role": "user", "content": "fix it"},
            {"role": "assistant", "content": "v", "tool_calls": [{"id": "1"}]},
        ],
        "tool_events": [ToolEvent(0, "view", {}, "x+1", True)],
        "rewards": {"solved": 1 / 3, "submitted": 1.0},
        "timings": {"total": 0.123 + at},
        "cost": {"tokens": 40.0, "usd": 0.01},
    }
    return Rollout(**{**facts, **changes})


def source(rollouts: list[Rollout], **changes: Any) -> EvidenceSource:
    facts: dict[str, Any] = {
        "version": "v0",
        "evidence": build_evidence(rollouts),
        "findings": [Finding("conduct.leak", "veto", "leak: 3 of 4", ("t1 read the log",))],
        "rollouts": rollouts,
        "train_metrics": [
            {"step": 1, "reward_mean": 1 / 3, "train_sec": 1.23, "note": "x"},
            {"step": 2, "reward_mean": 0.5, "entropy": 0.25},
        ],
    }
    return EvidenceSource(**{**facts, **changes})


def test_every_page_of_the_map_is_there() -> None:
    files = evidence_files(source([rollout(n) for n in range(4)]))
    for path in ("README.md", "report.md", "metrics.csv", "training.csv", "exemplars.md",
                 "history.md", "calibration.md", "rollouts/index.csv", "rollouts/actions.md",
                 "rollouts/search-0003.md"):  # fmt: skip
        assert files[path], path
    assert "VETO conduct.leak: leak: 3 of 4\n  - t1 read the log" in files["report.md"].decode()


def test_confirm_and_vault_never_go_in() -> None:
    splits = ("train", "search", "confirm", "vault")
    files = evidence_files(source([rollout(n, split) for n, split in enumerate(splits)]))
    shown = [path for path in files if path.endswith(".md") and path.startswith("rollouts/s")]
    assert shown == ["rollouts/search-0000.md"]
    assert b"confirm" not in files["rollouts/index.csv"] + files["rollouts/actions.md"]
    assert not any(b"task,2" in data or b"task,3" in data for data in files.values())


def test_the_same_rollouts_make_the_same_bytes_whenever_they_were_made() -> None:
    quick = [rollout(n) for n in range(6)]
    slow = [rollout(n, timings={"total": 99.0}) for n in range(6)]
    assert evidence_files(source(quick)) == evidence_files(source(slow))


def test_training_rows_leave_out_the_machine() -> None:
    text = evidence_files(source([rollout(0)]))["training.csv"].decode()
    assert text == "step,entropy,reward_mean\n1,,0.3333\n2,0.25,0.5\n"


def test_a_result_that_the_conversation_holds_is_not_told_twice() -> None:
    long = "line one of the file\n" * 4
    said = [{"role": "user", "content": f"view:\n{long}"}]
    events = [ToolEvent(0, "view", {}, long, True), ToolEvent(1, "run", {}, "boom " * 20, False)]
    file = evidence_files(source([rollout(0, messages=said, tool_events=events)]))
    text = file["rollouts/search-0000.md"].decode()
    assert text.count(long) == 1 and "view() -> as the policy saw it" in text
    assert "run() -> boom boom" in text


def transcript_of(**changes: Any) -> str:
    return evidence_files(source([rollout(0, **changes)]))["rollouts/search-0000.md"].decode()


def test_a_transcript_says_what_each_call_no_longer_showed() -> None:
    said = [
        {"role": "user", "content": "fix it"},
        {"role": "user", "content": "2 lines left out"},
        {"role": "assistant", "content": "done"},
    ]
    gone = [
        {"role": "assistant", "content": "view a.py"},
        {"role": "user", "content": "line one of a.py"},
    ]
    lost = ViewChange(1, unchanged=1, lost=2, removed=gone)
    text = transcript_of(messages=said, views=[lost], turns=2, tool_events=[])
    section = text.partition("## Where a call showed something else")[2]
    assert (
        "call 1 kept the first 1 messages; no longer shown: 2\n  - assistant: view a.py" in section
    )
    assert "- user: line one of a.py\n  and after them it showed:\n" in section
    assert "- user: 2 lines left out" in section
    full = transcript_of(messages=said, views=[ViewChange(1, 1, 2, [])], turns=2, tool_events=[])
    assert "no longer shown: 2 (not recorded)\n  and after them it showed:" in full
    far = [ViewChange(1, 1, 2, gone), ViewChange(2, 1, 2, [])]
    full = transcript_of(messages=said, views=far, turns=3, tool_events=[])
    assert "- call 1: 2 messages no longer shown, not recorded" in full


def test_a_transcript_says_where_a_result_was_shown_as_something_else() -> None:
    said = [
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "run tests"},
        {"role": "user", "content": "all tests passed"},
        {"role": "assistant", "content": "done"},
    ]
    events = [ToolEvent(0, "run", {}, "1 failed", True)]
    text = transcript_of(messages=said, turns=2, tool_events=events)
    told = "- call 1, result_altered: run answered 1 failed; shown: all tests passed"
    assert told in text
    honest = [*said[:2], {"role": "user", "content": "1 failed"}, said[3]]
    assert "## Where a call" not in transcript_of(messages=honest, turns=2, tool_events=events)


def test_without_training_the_map_names_no_file_of_it() -> None:
    files = evidence_files(source([rollout(0)], train_metrics=[]))
    assert "training.csv" not in files
    assert b"train" not in files["README.md"]


def test_the_reading_before_training_is_a_page_that_says_what_drifted() -> None:
    begun = [rollout(n, outcome=True, turns=2) for n in range(4)]
    ended = [rollout(n, outcome=n == 0, turns=8) for n in range(4)]
    files = evidence_files(source(ended, untrained=build_evidence(begun), before=begun))
    page = files["untrained.md"].decode()
    moved, layers = page.split("## Layers before training")
    rows = [line for line in moved.splitlines() if line.startswith("| score.")]
    assert "| score.clean_success | 1 | 0.25 |" in rows
    assert "signal.reward_mean" not in moved and "clean_success" in layers
    assert "- untrained.md:" in files["README.md"].decode()


def test_attempts_before_training_are_told_from_those_after_it() -> None:
    begun = [rollout(n, outcome=True) for n in range(3)] + [rollout(9, "confirm")]
    ended = [rollout(n, outcome=False) for n in range(4)]
    files = evidence_files(source(ended, untrained=build_evidence(begun[:3]), before=begun))
    named = [path for path in files if path.startswith("rollouts/untrained-")]
    assert named == [f"rollouts/untrained-{n:04d}.md" for n in range(3)]
    counts = files["rollouts/counts.csv"].decode().splitlines()
    assert [row.split(",")[0] for row in counts[1:]] == ["search", "untrained"]
    assert "3 of the base policy before training" in files["README.md"].decode()


def test_a_frozen_policy_is_read_once_and_no_page_says_otherwise() -> None:
    files = evidence_files(source([rollout(0)], train_metrics=[]))
    assert not any(b"untrained" in data for data in files.values())


def test_what_an_analyst_noted_stands_in_the_history() -> None:
    files = evidence_files(source([rollout(0)], noted=[("g0", "the reward pays for length")]))
    said = files["history.md"].decode()
    assert "## Noted by the analyst of g0\nthe reward pays for length" in said


def test_the_index_is_one_row_per_rollout() -> None:
    failed = rollout(1, outcome=None, error=RolloutFailure("infra", "x\ny"), rewards={})
    lines = evidence_files(source([rollout(0), failed]))["rollouts/index.csv"].decode().split("\n")
    assert lines[1] == (
        'rollouts/search-0000.md,"task,0",0,yes,yes,solved,,returned,2,1.333,'
        "solved=0.3333 submitted=1,40"
    )
    assert lines[2].startswith('rollouts/search-0001.md,"task,1",0,no,unknown,infra_error')


def test_attempts_are_counted_by_how_they_ended() -> None:
    rollouts = [rollout(n, turns=2 if n < 3 else 5) for n in range(4)]
    files = evidence_files(source(rollouts))
    header, *rows = files["rollouts/counts.csv"].decode().splitlines()
    assert header == "attempts,mode,stop_reason,turns,rollouts"
    assert sorted(row.rsplit(",", 2)[1] for row in rows) == ["2", "2", "5"]
    assert sum(int(row.rsplit(",", 1)[1]) for row in rows) == 4


def test_many_rollouts_are_thinned_evenly() -> None:
    files = evidence_files(source([rollout(n) for n in range(1500)]))
    index = files["rollouts/index.csv"].decode()
    assert index.count("\n") == 601
    assert '"task,0"' in index and '"task,1497"' in index


def test_history_tells_failures_too_and_calibration_scores_predictions() -> None:
    told = Hypothesis("reward", "if a then b", "clean_success", "up", 0.1)
    past = [
        PastAttempt("g0/c0", "if a then b", "REJECT", ("no gain",), "reward", told, True, -0.02,
             (-0.02, -0.05, 0.01), ("swe/reward.py",), "diff --git a b\n"),
        PastAttempt("g0/c1", "if c then d", "REFUSED", ("looped: it repeats shell",)),
    ]  # fmt: skip
    files = evidence_files(source([rollout(0)], past=past))
    history = files["history.md"].decode()
    assert "## g0/c0: REJECT" in history and "## g0/c1: REFUSED" in history
    assert "looped" in history and "predicted: clean_success up by 0.1" in history
    assert files["history/g0-c0.diff"] == b"diff --git a b\n"
    calibration = files["calibration.md"].decode()
    assert "1 predictions scored: 0 moved in the predicted direction" in calibration
    assert "| g0/c0 | clean_success | 0.1 | -0.02 | REJECT |" in calibration


def test_skills_that_fit_are_there_whole() -> None:
    library = SkillLibrary(Path(__file__).parents[2] / "skills_library")
    skills = library.all()
    files = evidence_files(source([rollout(0)], skills=skills))
    for skill in skills:
        assert f"skills/{skill.name}/SKILL.md" in files
        assert skill.name in files["README.md"].decode()
