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
from tests.agents._attempts import rollout


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
    assert text.count(long) == 1 and "boom boom" in text


def transcript_of(**changes: Any) -> str:
    return evidence_files(source([rollout(0, **changes)]))["rollouts/search-0000.md"].decode()


def test_of_what_a_grader_said_a_proposer_reads_the_feedback_alone() -> None:
    page = transcript_of(outcome_detail={"feedback": "two words", "gold": "Paris"})
    assert "two words" in page and "Paris" not in page


def test_a_transcript_says_what_a_call_no_longer_showed_and_what_it_showed_otherwise() -> None:
    said = [
        {"role": "user", "content": "fix it"},
        {"role": "user", "content": "2 lines left out"},
        {"role": "assistant", "content": "done"},
    ]
    gone = [{"role": "user", "content": "line one of a.py"}]
    for removed in (gone, []):
        lost = ViewChange(1, unchanged=1, lost=2, removed=removed)
        text = transcript_of(messages=said, views=[lost], turns=2, tool_events=[])
        section = text.partition("## Where a call showed something else")[2]
        assert "call 1" in section and "- user: 2 lines left out" in section
        assert ("line one of a.py" in section) == bool(removed)
    told = [said[0], {"role": "assistant", "content": "run tests"}]
    events = [ToolEvent(0, "run", {}, "1 failed", True)]
    for shown in ("all tests passed", "1 failed"):
        messages = [*told, {"role": "user", "content": shown}, said[2]]
        text = transcript_of(messages=messages, turns=2, tool_events=events)
        assert ("result_altered" in text) == (shown != "1 failed")


def test_the_reading_before_training_is_a_page_and_its_attempts_are_told_apart() -> None:
    begun = [rollout(n, outcome=True, turns=2) for n in range(3)]
    ended = [rollout(n, outcome=n == 0, turns=8) for n in range(4)]
    before = [*begun, rollout(9, "confirm")]
    files = evidence_files(source(ended, untrained=build_evidence(begun), before=before))
    moved, layers = files["untrained.md"].decode().split("## Layers before training")
    assert "| score.clean_success | 1 | 0.25 |" in moved
    assert "signal.reward_mean" not in moved and "clean_success" in layers
    assert "untrained.md" in files["README.md"].decode()
    named = [path for path in files if path.startswith("rollouts/untrained-")]
    assert named == [f"rollouts/untrained-{n:04d}.md" for n in range(3)]
    counts = files["rollouts/counts.csv"].decode().splitlines()
    assert {row.split(",")[0] for row in counts[1:]} == {"search", "untrained"}
    frozen = evidence_files(source([rollout(0)], train_metrics=[]))
    assert not any(b"untrained" in data for data in frozen.values())


def test_the_index_is_one_row_per_rollout() -> None:
    failed = rollout(1, outcome=None, error=RolloutFailure("infra", "x\ny"), rewards={})
    lines = evidence_files(source([rollout(0), failed]))["rollouts/index.csv"].decode().split("\n")
    assert lines[1] == (
        'rollouts/search-0000.md,"task,0",0,yes,yes,solved,,returned,2,1.333,'
        "solved=0.3333 submitted=1,40"
    )
    assert lines[2].startswith('rollouts/search-0001.md,"task,1",0,no,unknown,infra_error')


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
    assert "looped" in history and "clean_success up by 0.1" in history
    assert files["history/g0-c0.diff"] == b"diff --git a b\n"
    calibration = files["calibration.md"].decode()
    assert "| g0/c0 | clean_success | 0.1 | -0.02 | REJECT |" in calibration


def test_skills_that_fit_are_there_whole() -> None:
    library = SkillLibrary(Path(__file__).parents[2] / "skills_library")
    skills = library.all()
    files = evidence_files(source([rollout(0)], skills=skills))
    for skill in skills:
        assert f"skills/{skill.name}/SKILL.md" in files
        assert skill.name in files["README.md"].decode()
