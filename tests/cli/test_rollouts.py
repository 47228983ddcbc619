"""`meta-agent rollouts` and `report --rollouts` from outside: documents, sentences, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meta_agent.cli import main
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.workspace import init_workspace

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
    assert "success: not in this data" in done.out


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


def test_an_import_is_stored_and_exported_again(run: Any, rows: Path, tmp_path: Path) -> None:
    place = init_workspace(tmp_path / "w", domain="swe", create_repo=Path.mkdir)
    done = run("rollouts", "import", rows, "--name", "theirs", "--workspace", place.root, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["import"]["rollouts"] == 3
    assert len(RolloutStore(place.rollouts).read("theirs")) == 3
    out = tmp_path / "out.jsonl"
    done = run(
        "rollouts", "export", "theirs", "--to", "prime-rl", "--out", out, "--workspace", place.root
    )
    assert done.code == 0, done.err
    assert "prime-rl has no place for" in done.out
    assert len(out.read_text().splitlines()) == 3


@pytest.mark.parametrize("name", ["two words", "run-1/g0/c0", "..", ""])
def test_an_import_has_a_name_of_its_own(name: str, run: Any, rows: Path, tmp_path: Path) -> None:
    """A slash would name the evidence of a run, which an import must never replace."""
    place = init_workspace(tmp_path / "w", domain="swe", create_repo=Path.mkdir)
    done = run("rollouts", "import", rows, "--name", name, "--workspace", place.root)
    assert (done.code, done.out) == (2, "")
    assert "expected letters, digits" in done.err
    assert RolloutStore(place.rollouts).names() == []


def test_a_file_is_converted_without_a_workspace(run: Any, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "prime.jsonl"
    assert run("rollouts", "export", rows, "--to", "prime-rl", "--out", out).code == 0
    assert "example_id" in out.read_text()


def test_an_export_says_what_had_no_dialogue(run: Any, tmp_path: Path) -> None:
    source, out = tmp_path / "mixed.jsonl", tmp_path / "out.jsonl"
    prediction = {"instance_id": "a", "model_patch": "diff"}
    dialogue = {"messages": [{"role": "user", "content": "x"}]}
    source.write_text(f"{json.dumps(prediction)}\n{json.dumps(dialogue)}\nbroken\n")
    done = run("rollouts", "export", source, "--to", "openai-messages", "--out", out)
    assert "wrote 1 rollouts" in done.out
    assert "for they have no messages: 1" in done.out
    assert "skipped 1: the line is not JSON" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--rollouts", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["rollouts", "export", "x.jsonl", "--to", "csv", "--out", "y"], "no rollout format 'csv'"),
        (["report", "--rollouts", "tasks.jsonl"], "no known rollout format"),
    ],
)
def test_mistakes_end_in_a_sentence_and_code_2(
    arguments: list[str], said: str, run: Any, tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"question": "x", "answer": "#### 1"}\n')
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_every_format_is_listed(run: Any) -> None:
    document = json.loads(run("rollouts", "formats", "--json").out)
    names = {row["name"] for row in document["formats"]}
    assert {"atif", "nemo-gym", "openai-messages", "trl-completions", "mini-swe-agent"} <= names
