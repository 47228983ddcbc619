"""R2E-Gym rows: read beside SWE-bench ones, passed by the whole map of statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats import read_swebench
from meta_agent.domains.swe._patch import apply, overlay, parse
from meta_agent.domains.swe.grading._command import is_whole_map

ROW: dict[str, Any] = {
    "repo": "aiohttp",
    "commit_hash": "dfaafac078d3",
    "docker_image": "x/aiohttp:d",
    "problem_statement": "It breaks.",
    "relevant_files": "['a.py']",
    "parsed_commit_content": None,
    "expected_output_json": '{"test_a": "PASSED", "test_b": "FAILED"}',
}


def write(path: Path, row: Any) -> Path:
    path.write_text(json.dumps(row) + "\n")
    return path


def test_rows_of_both_kinds_stand_in_one_file(tmp_path: Path) -> None:
    """As in a release that drops the gold patches."""
    swe = {"instance_id": "o__r-1", "repo": "o/r", "base_commit": "f" * 40, "test_patch": ""}
    swe |= {"problem_statement": "It breaks.", "PASS_TO_PASS": "[]", "idx": 0}
    swe["FAIL_TO_PASS"] = '["t.py::test_a"]'
    path = tmp_path / "both.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (swe, {**ROW, "idx": 1})))
    first, second = read_swebench(path)
    assert (first.instance_id, first.fail_to_pass) == ("o__r-1", ("t.py::test_a",))
    assert first.patch is None
    assert second.repo == "aiohttp" and is_whole_map(second.expected, dict(second.expected))


def test_only_the_whole_map_passes_and_no_tests_are_never_a_pass() -> None:
    expected = json.loads(ROW["expected_output_json"])
    coloured = {"\x1b[1mtest_a\x1b[0m": "PASSED", "test_b - assert 1 == 2": "FAILED"}
    assert is_whole_map(expected, expected) and is_whole_map(expected, coloured)
    fewer, more = {"test_a": "PASSED"}, {**expected, "test_c": "PASSED"}
    for seen in (fewer, more, {**expected, "test_b": "PASSED"}, {}):
        assert not is_whole_map(expected, seen)
    assert not is_whole_map({}, {})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"expected_output_json": "{}"}, "expected_output_json"),
        ({"expected_output_json": "not json"}, "expected_output_json"),
        ({"expected_output_json": '{"a": "GOOD"}'}, "expected_output_json"),
        ({"commit_hash": "HEAD; rm -rf"}, "commit_hash"),
        ({"parsed_commit_content": "{}", "relevant_files": "f()"}, "relevant_files"),
        ({"docker_image": ""}, "docker_image"),
        ({"parsed_commit_content": "{}"}, "parsed_commit_content"),
        ({"repo": None}, "repo_name"),
    ],
)
def test_a_bad_row_names_its_field(change: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"r2e.jsonl:1: field {field}"):
        read_swebench(write(tmp_path / "r2e.jsonl", {**ROW, **change}))


def line(kind: str, content: str) -> dict[str, str]:
    return {"type": kind, "content": content}


def file_diff(path: str, *lines: dict[str, str]) -> dict[str, Any]:
    counts = {
        side: sum(one["type"] in kinds for one in lines)
        for side, kinds in (
            ("old_range", ("context", "deleted")),
            ("new_range", ("context", "added")),
        )
    }
    descriptor = {side: {"start": 1, "length": count} for side, count in counts.items()}
    return {
        "header": {"file": {"path": path}},
        "minus_file": {"path": f"a/{path}"},
        "plus_file": {"path": f"b/{path}"},
        "hunks": [{"descriptor": descriptor, "line_group": {"all_lines": list(lines)}}],
    }


COMMIT = {
    "file_diffs": [
        file_diff("a.py", line("context", "x = 1"), line("deleted", "y"), line("added", "y = 2")),
        file_diff("tests/test_a.py", line("added", "assert y == 2")),
    ]
}


@pytest.mark.parametrize("relevant", [{"relevant_files": ["a.py"]}, {}])
def test_the_fix_is_rebuilt_from_the_commit_without_its_tests(
    relevant: dict[str, Any], tmp_path: Path
) -> None:
    raw = {**ROW, **relevant, "parsed_commit_content": json.dumps(COMMIT)}
    (row,) = read_swebench(write(tmp_path / "r2e.jsonl", raw))
    tree = {"a.py": b"x = 1\ny\n"}
    assert overlay(tree, apply(tree, parse(row.patch or ""))) == {"a.py": b"x = 1\ny = 2\n"}


def test_a_row_as_a_task_keeps_its_tests_from_the_agent(tmp_path: Path) -> None:
    (row,) = read_swebench(write(tmp_path / "r2e.jsonl", ROW))
    assert row.instance_id == "aiohttp-dfaafac078d3"
    assert row.patch is None and row.source and row.run
    assert row.source.hidden == ("r2e_tests", "run_tests.sh")
    assert row.run.whole and row.expected == {"test_a": "PASSED", "test_b": "FAILED"}
