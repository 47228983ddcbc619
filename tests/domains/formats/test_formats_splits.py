"""What a task file says about splits, and rows that are not what they seem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats.graded_sets import read_graded
from meta_agent.domains.formats.math_sets import read_math
from meta_agent.domains.formats.rows import stream_rows


def _file(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_row_with_more_cells_than_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('prompt,gold\n"1,000 + 1?",1001\nHow many is 1,000 + 1?,1001\n')
    with pytest.raises(ConfigError, match=r"rows\.csv:3"):
        list(stream_rows(path))


def test_one_prompt_in_several_splits_is_named(tmp_path: Path) -> None:
    prompts = {"train": "What is 2 + 2?", "confirm": "what is 2+2 ?", "search": "What is 2 + 2? "}
    rows = [{"prompt": text, "gold": "4", "split": split} for split, text in prompts.items()]
    others = [{"prompt": f"{n}?", "gold": "4", "split": "train"} for n in range(2)]
    (note,) = read_graded(_file(tmp_path / "rows.jsonl", *rows, *others), {}).notes
    assert "train, search, confirm" in note and "1, 2, 3" in note


def test_a_split_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "gold": "4", "split": "test"} for n in range(2)]
    (note,) = read_graded(_file(tmp_path / "rows.jsonl", *rows), {}).notes
    assert "'test'" in note and note.startswith("2 ")


def test_a_question_with_a_plain_answer_is_a_math_problem(tmp_path: Path) -> None:
    rows = [
        {"question": "Half of 3?", "answer": "1.5"},
        {"question": "Half of 4?", "answer": 2},
        {"question": "Half of 6?", "answer": "Halve it.\n#### 3"},
    ]
    read = read_math(_file(tmp_path / "rows.jsonl", *rows))
    assert [row.gold for row in read.rows] == ["1.5", "2", "3"]
