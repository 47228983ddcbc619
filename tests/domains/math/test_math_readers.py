"""Math data sets as files: every known form, refusals by line, duplicates counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats.boxes import last_box
from meta_agent.domains.formats.math_sets import read_math

GSM8K = {"question": "2 and 3?", "answer": "2+3=<<2+3=5>>5\n#### 5"}
MATH = {
    "problem": "What?",
    "solution": r"First \boxed{1}, so \boxed{\frac{1}{2}}.",
    "level": "Level 2",
    "type": "Algebra",
}
MATH500 = {**MATH, "answer": "7", "unique_id": "test/algebra/12.json", "subject": "Algebra"}
BIG_MATH = {
    "problem": "P?",
    "answer": "3",
    "source": "cn_k12",
    "domain": ["x"],
    "llama8b_solve_rate": 0.5,
}
DRESSED = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer.\n\nWhat is 1?\n\nRemember to put your answer on its own line."
)
DAPO = {
    "data_source": "math_dapo",
    "prompt": [{"role": "user", "content": DRESSED}],
    "ability": "MATH",
    "reward_model": {"ground_truth": "34", "style": "rule"},
    "extra_info": {"index": "a"},
}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("row", "source", "problem", "gold"),
    [
        (GSM8K, "gsm8k", "2 and 3?", "5"),
        (MATH, "math", "What?", r"\frac{1}{2}"),
        (MATH500, "math", "What?", "7"),
        (BIG_MATH, "big-math", "P?", "3"),
        (DAPO, "dapo", "What is 1?", "34"),
        ({"user_prompt": "Q", "ground_truth": "23"}, "aime", "Q", "23"),
        ({"ID": "2024-I-1", "Problem": "Q", "Answer": 204, "Solution": "s"}, "aime", "Q", "204"),
        ({"problem": "Q", "answer": 12, "id": 4}, "pairs", "Q", "12"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_form_is_read(row: Any, source: str, problem: str, gold: str, tmp_path: Path) -> None:
    (task,) = read_math(write(tmp_path / "set.jsonl", row)).rows
    assert (task.source, task.problem, task.gold) == (source, problem, gold)


def test_a_repeated_problem_is_one_task(tmp_path: Path) -> None:
    rows = [DAPO, {**DAPO, "extra_info": {"index": "b"}}, DAPO]
    found = read_math(write(tmp_path / "set.jsonl", *rows))
    assert (len(found.rows), found.duplicates) == (1, 2)


def test_one_problem_with_two_golds_is_no_task(tmp_path: Path) -> None:
    other = {**GSM8K, "question": "other"}
    rows = [GSM8K, other, {**GSM8K, "answer": "#### 6"}]
    found = read_math(write(tmp_path / "set.jsonl", *rows))
    assert [row.problem for row in found.rows] == ["other"]
    assert sorted(found.refused) == [1, 3]


def test_a_row_without_a_gold_is_refused_by_line(tmp_path: Path) -> None:
    rows = [MATH, {"problem": "B", "solution": "no box"}, {"problem": "C", "solution": "x"}]
    found = read_math(write(tmp_path / "set.jsonl", *rows))
    assert list(found.refused) == [2, 3] and found.notes


def test_a_split_is_of_the_problem_and_not_of_its_place(tmp_path: Path) -> None:
    rows = [{"problem": f"p{n}", "answer": "1"} for n in range(40)]
    first = read_math(write(tmp_path / "a.jsonl", *rows)).rows
    second = read_math(write(tmp_path / "b.jsonl", *reversed(rows))).rows
    assert {r.key: r.split for r in first} == {r.key: r.split for r in second}


def test_a_stated_split_wins_unless_it_is_the_sets_own_word(tmp_path: Path) -> None:
    rows = [
        {"problem": "a", "answer": "1", "split": "vault"},
        {"problem": "b", "answer": "1", "split": "test"},
    ]
    first, _ = read_math(write(tmp_path / "set.jsonl", *rows)).rows
    assert first.split == "vault"


def test_lists_and_gzip_and_parquet_are_read(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps([GSM8K, {**GSM8K, "question": "b"}], indent=1))
    assert len(read_math(tmp_path / "list.json").rows) == 2
    packed = tmp_path / "set.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(GSM8K).encode()))
    assert len(read_math(packed).rows) == 1
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the train extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist([DAPO, DAPO]), tmp_path / "dapo.parquet")
    assert read_math(tmp_path / "dapo.parquet").duplicates == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"colour": 1}', "colour"),
        ('{"question": 1, "answer": "#### 2"}', "question"),
        *(("{", "set.jsonl:1"), ("[1]", "set.jsonl:1"), ("", "set.jsonl")),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_place_or_field(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_math(path)


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{41} no, \boxed{42}", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\fbox{7}", "7"),
        (r"\boxed 5.", "5"),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{a \boxed{b}}", "a b"),
        (r"\boxed{\boxed{b}}", "b"),
        ("no box", None),
        (r"\boxed{" * 400, None),
    ],
)
def test_the_last_whole_box_counts(text: str, box: str | None) -> None:
    assert last_box(text) == box
