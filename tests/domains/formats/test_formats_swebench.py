"""SWE-bench-format rows: what is read, and what is refused in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats import read_swebench, semantic_key

PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
ROW: dict[str, Any] = {
    "instance_id": "o__r-1",
    "repo": "o/r",
    "base_commit": "f" * 40,
    "problem_statement": "it breaks",
    "patch": PATCH,
    "test_patch": "",
    "FAIL_TO_PASS": '["t.py::test_a"]',
    "PASS_TO_PASS": '["t.py::test_b", "t.py::test_c[1-2]"]',
}


def write(path: Path, *rows: Any) -> Path:
    file = path / "tasks.jsonl"
    file.write_text(
        "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    )
    return file


def read_one(path: Path, **changes: Any) -> Any:
    return read_swebench(write(path, {**ROW, **changes}))[0]


def test_test_ids_may_be_json_strings_or_lists(tmp_path: Path) -> None:
    strings = read_one(tmp_path)
    lists = read_one(tmp_path, FAIL_TO_PASS=["t.py::test_a"])
    assert strings.fail_to_pass == lists.fail_to_pass == ("t.py::test_a",)
    assert strings.pass_to_pass == ("t.py::test_b", "t.py::test_c[1-2]")


def test_further_fields_are_kept_and_a_gold_patch_may_be_missing(tmp_path: Path) -> None:
    bare = {name: value for name, value in ROW.items() if name != "patch"}
    assert read_swebench(write(tmp_path, bare))[0].patch is None
    row = read_one(tmp_path, difficulty="1-4 hours", created_at="2020")
    assert row.extra == {"difficulty": "1-4 hours", "created_at": "2020"}


@pytest.mark.parametrize("name", ["image", "image_name", "docker_image"])
def test_the_image_has_three_spellings(tmp_path: Path, name: str) -> None:
    assert read_one(tmp_path, **{name: "repo:1"}).image == "repo:1"


BAD: list[tuple[str, Any]] = [
    ("instance_id", None),
    ("instance_id", "../../etc"),
    ("instance_id", "o__r-1"),  # that of the row before
    ("repo", 7),
    ("problem_statement", "  "),
    ("FAIL_TO_PASS", "[not json"),
    ("FAIL_TO_PASS", []),
    ("FAIL_TO_PASS", [1]),
    ("PASS_TO_PASS", {"a": 1}),
    ("split", "test"),
    ("source", "x.tar"),
    ("source", {}),
    ("source", {"archive": "a.tar", "image_path": "/x"}),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_field_is_named_with_file_and_line(tmp_path: Path, field: str, value: Any) -> None:
    bad = {**ROW, "instance_id": "other", field: value}
    if value is None:
        del bad[field]
    file = write(tmp_path, ROW, bad)
    with pytest.raises(ConfigError) as caught:
        read_swebench(file)
    assert str(caught.value).startswith(f"{file}:2: field {field}: ")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("tasks.jsonl", content) for content in ("{broken\n", "[1]\n", "")),
        *(("tasks.parquet", content) for content in ("PAR0", None)),
        ("none.jsonl", None),
    ],
)
def test_a_broken_or_missing_file_is_refused_by_name(
    tmp_path: Path, name: str, content: str | None
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=name):
        read_swebench(tmp_path / name)


def test_the_same_fix_under_two_names_falls_into_one_split(tmp_path: Path) -> None:
    moved = PATCH.replace("@@ -1 +1 @@", "@@ -9 +9 @@")
    rows = read_swebench(
        write(tmp_path, ROW, {**ROW, "instance_id": "copy", "patch": moved, "version": "2"})
    )
    assert rows[0].split == rows[1].split
    assert semantic_key("o/r", PATCH, "") == semantic_key("o/r", moved, "other words")


def test_all_splits_are_filled_by_the_hash(tmp_path: Path) -> None:
    rows = [
        {**ROW, "instance_id": f"i{n}", "patch": PATCH.replace("a = 2", f"a = {n}")}
        for n in range(200)
    ]
    found = [row.split for row in read_swebench(write(tmp_path, *rows))]
    shares = {split: found.count(split) / 200 for split in set(found)}
    assert set(shares) == {"train", "search", "confirm", "vault"}
    assert 0.3 < shares["train"] < 0.5


def test_an_explicit_split_wins(tmp_path: Path) -> None:
    row = read_one(tmp_path, split="vault")
    assert (row.split, row.split_is_explicit) == ("vault", True)
