"""Task files as they lie around: byte order marks, pointers, other names for fields."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats.code_sets import read_code
from meta_agent.domains.formats.graded_sets import read_graded
from meta_agent.domains.formats.math_sets import read_math
from meta_agent.domains.formats.rows import stream_rows

ROW = {"prompt": "1+1", "gold": "2"}


def put(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", json.dumps(ROW) + "\n"),
        ("a.json", json.dumps([ROW], indent=1)),
        ("a.csv", "prompt,gold\n1+1,2\n"),
        ("b.csv", '"prompt","gold"\n"1+1","2"\n'),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_byte_order_mark_is_no_part_of_a_task_file(
    name: str, text: str, pack: Any, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(pack(text.encode("utf-8-sig")))
    assert [fields.row for fields in stream_rows(path)] == [ROW]


def test_a_git_lfs_pointer_is_no_task_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(ConfigError, match="Git LFS") as caught:
        list(stream_rows(path))
    assert caught.value.hint == "git lfs pull"


def test_a_row_that_is_no_json_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(ROW) + "\n{broken\n")
    with pytest.raises(ConfigError, match=r"tasks.jsonl:2: .*\{broken"):
        list(stream_rows(path))


@pytest.mark.parametrize(
    ("row", "mapping", "gold"),
    [
        ({"question": "q", "expected": "3"}, {"question": "prompt", "expected": "gold"}, "3"),
        ({"question": "q", "answer": "long #### 3", "final": "4"}, {"final": "gold"}, "4"),
        ({"problem": "q", "solution": r"\boxed{3}", "key": 4}, {"key": "answer"}, "4"),
        ({"q": "q", "a": "work\n#### 3"}, {"q": "question", "a": "answer"}, "3"),
        ({"extra": {"q": "q"}, "a": "3"}, {"extra.q": "problem", "a": "gold"}, "3"),
    ],
)  # fmt: skip
def test_what_is_mapped_wins_over_a_known_form(
    row: dict[str, Any], mapping: dict[str, str], gold: str, tmp_path: Path
) -> None:
    (task,) = read_math(put(tmp_path / "a.jsonl", row), mapping).rows
    assert (task.problem, task.gold) == ("q", gold)


def test_without_a_mapping_a_form_reads_as_before(tmp_path: Path) -> None:
    row = {"question": "q", "answer": "long #### 3", "gold": "4"}
    assert [task.gold for task in read_math(put(tmp_path / "a.jsonl", row)).rows] == ["3"]


def test_a_mapping_chooses_the_form_of_a_program(tmp_path: Path) -> None:
    tests = {"inputs": ["1\n"], "outputs": ["2\n"]}
    row = {"test_list": ["assert f(1) == 2"], "text": "t", "q": "double it", "io": tests}
    path = put(tmp_path / "a.jsonl", row)
    assert read_code(path, {"q": "question", "io": "input_output"}).rows[0].source == "apps"


def test_a_grader_reads_mapped_rows_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question,truth\n1+1,2\n", encoding="utf-8-sig")
    (task,) = read_graded(path, {"question": "prompt", "truth": "gold"}).rows
    assert (task.prompt, task.gold) == ("1+1", {"answer": "2"})
