"""`report --rollouts F --html OUT`, and rows of any form by `--map`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS = [
    {"input": f"What is {n % 4} + 1?", "output": "<b>five</b>" * 9, "score": float(n % 2)}
    for n in range(40)
]
MAP = "input=prompt,output=completion,score=reward"


def test_a_page_is_written_and_explains_its_numbers(tmp_path: Path, meta_agent: Any) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    asked = ("report", "--rollouts", "rows.jsonl", "--map", MAP, "--solved-at", "1")
    done = meta_agent(*asked, "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and "wrote page.html" in done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "40 rollouts of 4 tasks" in page
    assert "Share of attempts that solved their task." in page
    assert "<b>five" not in page and "<script" not in page
    document = meta_agent(*asked, "--json", cwd=tmp_path).document
    assert document["evidence"]["layers"]["score"]["success"] == 0.5


def test_a_table_is_read_by_mapping_too(tmp_path: Path, meta_agent: Any) -> None:
    (tmp_path / "rows.csv").write_text('q,a,s\n"one, two",three,1\nfour,five,0\n')
    asked = ("report", "--rollouts", "rows.csv", "--map", "q=prompt,a=completion,s=reward")
    assert meta_agent(*asked, "--json", cwd=tmp_path).document["rollouts"] == 2


def test_a_single_rollout_warns_of_nothing(tmp_path: Path, meta_agent: Any) -> None:
    (tmp_path / "one.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    asked = ("report", "--rollouts", "one.jsonl", "--map", MAP, "--solved-at", "1", "--json")
    assert meta_agent(*asked, cwd=tmp_path).document["evidence"]["alerts"] == []


def test_a_mapping_that_does_not_fit_is_one_sentence(tmp_path: Path, meta_agent: Any) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    for mapping, said in (
        ("inpt=prompt", "names the field 'inpt'; this row has input, output, score"),
        ("input=promt", "names 'promt', which no rollout has"),
        ("output=reward", "is no number"),
        ("input", "expected THEIRS=OURS pairs"),
    ):
        done = meta_agent("report", "--rollouts", "rows.jsonl", "--map", mapping, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, (mapping, done.stderr)
