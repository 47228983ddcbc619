"""`report --rollouts` from outside: documents and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ._command import Runner

ANSWER = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.jsonl"
    lines = [json.dumps({"messages": ANSWER, "task_id": "a", "reward": n / 2}) for n in range(3)]
    path.write_text("\n".join([*lines, "not json"]) + "\n")
    return path


def test_a_report_on_a_file_needs_no_workspace(meta_agent: Runner, rows: Path) -> None:
    command = ("report", "--rollouts", str(rows))
    done = meta_agent(*command, cwd=rows.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "theirs.jsonl:4" in done.stdout, "the row that could not be read"
    document = meta_agent(*command, "--json", cwd=rows.parent).document
    assert document["import"]["rows"] == 4 and document["rollouts"] == 3
    assert document["evidence"]["layers"]["score"] == {}
    assert document["shape"]["duplicates"] == pytest.approx(2 / 3)
    solved = meta_agent(*command, "--solved-at", "1", "--json", cwd=rows.parent).document
    score = solved["evidence"]["layers"]["score"]
    assert (score["n"], score["n_solved"]) == (3, 1), "a reward can be said to mean success"
