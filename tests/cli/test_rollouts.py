"""`report --rollouts` from outside: documents, sentences, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meta_agent.cli import main

ANSWER = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["meta-agent", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capfd.readouterr())

    return call


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.jsonl"
    lines = [json.dumps({"messages": ANSWER, "task_id": "a", "reward": n / 2}) for n in range(3)]
    path.write_text("\n".join([*lines, "not json"]) + "\n")
    return path


def test_a_report_on_a_file_needs_no_workspace(run: Any, rows: Path) -> None:
    done = run("report", "--rollouts", rows)
    assert (done.code, done.err) == (0, "")
    assert "4 rows of openai-messages: 3 rollouts, 1 skipped" in done.out
    assert "skipped 1: the line is not JSON (first: theirs.jsonl:4)" in done.out
    assert "not in this data (" in done.out


def test_the_report_is_one_json_document(run: Any, rows: Path) -> None:
    document = json.loads(run("report", "--rollouts", rows, "--json").out)
    assert document["import"]["rows"] == 4
    assert document["rollouts"] == 3
    assert document["evidence"]["layers"]["score"] == {}
    assert document["shape"]["duplicates"] == pytest.approx(2 / 3)


def test_a_reward_can_be_said_to_mean_success(run: Any, rows: Path) -> None:
    done = run("report", "--rollouts", rows, "--solved-at", "1", "--json")
    score = json.loads(done.out)["evidence"]["layers"]["score"]
    assert (score["n"], score["n_solved"]) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--rollouts", "nowhere.jsonl"], "the rollouts nowhere.jsonl do not exist"),
        (["report", "--rollouts", "tasks.jsonl", "--format", "csv"], "no rollout format 'csv'"),
        (["report", "--rollouts", "tasks.jsonl"], "the format is unknown"),
    ],
)
def test_mistakes_end_in_a_sentence_and_code_2(
    arguments: list[str], said: str, run: Any, tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"question": "x", "answer": "#### 1"}\n')
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
