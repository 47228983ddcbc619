"""Rows of each public set: told from the others, read with their own fields, refused by name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats import read_swebench
from meta_agent.domains.formats._swe_sets import commands_of, reversed_patch
from meta_agent.domains.swe._patch import apply, make, overlay, parse

FIX = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
TESTS = (
    "diff --git a/tests/units/test_x.py b/tests/units/test_x.py\n--- a/tests/units/test_x.py\n"
    "+++ b/tests/units/test_x.py\n@@ -1 +1 @@\n-b = 1\n+b = 2\n"
    "diff --git a/tests/data.json b/tests/data.json\n--- a/tests/data.json\n+++ b/tests/data.json\n"
    "@@ -1 +1 @@\n-{}\n+[]\n"
)
EVAL = f"""#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
git status
export LANG=C.UTF-8
python -m pip install -e .
git checkout {"f" * 40} tests/units/test_x.py
git apply -v - <<'EOF_1'
+: '>>>>> Start Test Output' as the patch has it
EOF_1
: '>>>>> Start Test Output'
./tests/runtests.py --verbosity 2 units.test_x
: '>>>>> End Test Output'
git checkout {"f" * 40} tests/units/test_x.py
"""
SHARED: dict[str, Any] = {
    "instance_id": "own__repo-12",
    "repo": "own/repo",
    "base_commit": "f" * 40,
    "problem_statement": "it breaks",
    "patch": FIX,
    "test_patch": TESTS,
    "FAIL_TO_PASS": ["tests/units/test_x.py::test_a"],
    "PASS_TO_PASS": ["tests/units/test_x.py::test_b"],
}
TEXTS = {
    "FAIL_TO_PASS": '["tests/units/test_x.py::test_a"]',
    "PASS_TO_PASS": '["tests/units/test_x.py::test_b"]',
}
INSTALL = {"python": "3.9", "install": "pip install -e .", "log_parser": "parse_log_pytest"}
ROWS: dict[str, dict[str, Any]] = {
    "swe-bench-4": {**SHARED, **TEXTS, "version": "1.0", "environment_setup_commit": "e" * 40},
    "swe-bench-5": {
        **SHARED,
        **TEXTS,
        "version": "1.0",
        "image": "swebench/own:1",
        "eval_script": EVAL,
        "log_parser": "parse_log_django",
        "eval_type": "pass_and_fail",
    },
    "swe-gym": {**SHARED, "version": "1.0", "created_at": "2023-01-01", "hints_text": ""},
    "swe-smith": {
        **{key: value for key, value in SHARED.items() if key not in ("base_commit", "test_patch")},
        "instance_id": "own__repo.1234abcd.func_basic__x1",
        "repo": "swesmith/own__repo.1234abcd",
        "image_name": "swebench/swesmith.x86_64.own_1776_repo.1234abcd",
    },
    "swe-rebench": {
        **SHARED,
        "version": "0.3",
        "install_config": INSTALL,
        "environment": "name: x",
        "docker_image": "swerebench/sweb.eval.x86_64.own_1776_repo-12",
    },
    "swe-rebench-v2": {
        **SHARED,
        "language": "python",
        "interface": "",
        "image_name": "swerebenchv2/own-repo:12",
        "install_config": {**INSTALL, "test_cmd": ["make", "pytest -rA tests"]},
    },
}


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(folder: Path, name: str, **changes: Any) -> Any:
    row = {**ROWS[name], **changes}
    kept = {field: value for field, value in row.items() if value is not ...}
    return read_swebench(write(folder, kept))[0]


IMAGES = {
    "swe-bench-4": "swebench/sweb.eval.x86_64.own_1776_repo-12:latest",
    "swe-bench-5": "swebench/own:1",
    "swe-gym": "xingyaoww/sweb.eval.x86_64.own_s_repo-12:latest",
    "swe-smith": "swebench/swesmith.x86_64.own_1776_repo.1234abcd",
    "swe-rebench": "swerebench/sweb.eval.x86_64.own_1776_repo-12",
    "swe-rebench-v2": "swerebenchv2/own-repo:12",
}


@pytest.mark.parametrize("name", ROWS)
def test_each_set_is_told_and_read_with_its_image(tmp_path: Path, name: str) -> None:
    row = read(tmp_path, name)
    assert (row.dialect, row.image) == (name, IMAGES[name])
    assert row.fail_to_pass == ("tests/units/test_x.py::test_a",)
    assert row.run and row.source and row.source.image_path


@pytest.mark.parametrize(
    ("name", "changes", "command", "parser"),
    [
        ("swe-bench-4", {}, "pytest -rA tests/units/test_x.py", "parse_log_pytest"),
        (
            "swe-bench-4",
            {"repo": "django/django"},
            "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 units.test_x",
            "parse_log_django",
        ),
        (
            "swe-bench-4",
            {"repo": "django/django", "version": "1.9"},
            "./tests/runtests.py --verbosity 2 units.test_x",
            "parse_log_django",
        ),
        ("swe-bench-5", {}, "./tests/runtests.py --verbosity 2 units.test_x", "parse_log_django"),
        (
            "swe-smith",
            {},
            "pytest --disable-warnings --color=no --tb=no --verbose tests/units/test_x.py",
            "parse_log_pytest_v2",
        ),
        (
            "swe-rebench",
            {},
            "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider tests/units/test_x.py",
            "parse_log_pytest",
        ),
        (
            "swe-rebench",
            {"install_config": json.dumps({**INSTALL, "test_cmd": "tox -e py"})},
            "tox -e py tests/units/test_x.py",
            "parse_log_pytest",
        ),
        ("swe-rebench-v2", {}, "make\npytest -rA tests", "parse_log_pytest"),
    ],
)
def test_the_tests_are_run_as_each_set_does(
    tmp_path: Path, name: str, changes: dict[str, Any], command: str, parser: str
) -> None:
    run = read(tmp_path, name, **changes).run
    assert (run.command, run.parser) == (command, parser)


def test_an_eval_script_gives_its_environment_and_its_command() -> None:
    found = commands_of(EVAL)
    assert found is not None
    assert found.command == "./tests/runtests.py --verbosity 2 units.test_x"
    assert found.prelude.split("\n") == [
        "source /opt/miniconda3/bin/activate",
        "conda activate testbed",
        "cd /testbed",
        "export LANG=C.UTF-8",
    ]


def test_a_smith_row_starts_from_the_bug_without_its_tests_and_ends_with_the_fix(
    tmp_path: Path,
) -> None:
    row = read(tmp_path, "swe-smith", patch=FIX)
    assert row.source.setup_patch == FIX
    assert row.source.hidden == ("tests/units/test_x.py",)
    sound = {"x.py": b"a = 1\n"}
    buggy = overlay(sound, apply(sound, parse(row.source.setup_patch)))
    assert overlay(buggy, apply(buggy, parse(row.patch))) == sound


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": b"1\n2\n3\n"}, {"a": b"1\n-- 2\n+++ 3\n4"}),
        ({"a": b"-- 1\n"}, {"a": None}),
        ({}, {"n/a": b"++ 1\n"}),
        ({"a": b"1\n", "b": b"2"}, {"a": b"2\n", "b": b"3\n"}),
    ],
)
def test_a_reversed_patch_undoes_a_patch(
    before: dict[str, bytes], after: dict[str, bytes | None]
) -> None:
    there = make(before, after)
    changed = overlay(before, apply(before, parse(there)))
    assert overlay(changed, apply(changed, parse(reversed_patch(there)))) == before
    assert reversed_patch(reversed_patch(there)) == there


BAD: list[tuple[str, str, Any]] = [
    ("swe-bench-5", "eval_script", "pytest"),
    ("swe-bench-5", "eval_type", "maybe"),
    ("swe-bench-5", "image", ...),
    ("swe-bench-5", "log_parser", ...),
    ("swe-smith", "image_name", 3),
    ("swe-smith", "patch", ...),
    ("swe-rebench", "docker_image", ...),
    ("swe-rebench", "install_config", "[not json"),
    ("swe-rebench", "install_config", [1]),
    ("swe-rebench-v2", "install_config", {"log_parser": "x"}),
    ("swe-rebench-v2", "install_config", {"test_cmd": ["a", 1], "log_parser": "x"}),
    ("swe-rebench-v2", "install_config", {"test_cmd": "a"}),
    ("swe-rebench-v2", "image_name", ...),
]


@pytest.mark.parametrize(("name", "field", "value"), BAD)
def test_a_bad_row_names_its_file_line_and_field(
    tmp_path: Path, name: str, field: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, name, **{field: value})
    assert str(caught.value).startswith(f"{tmp_path / 'tasks.jsonl'}:1: field {field}: ")


@pytest.mark.parametrize(
    "row",
    [
        {"question": "1 + 1", "answer": "2"},
        {"org": "a", "repo": "b", "number": 1, "fix_patch": FIX},
    ],
)
def test_an_unknown_set_is_refused_with_those_that_are_known(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_swebench(write(tmp_path, row))
    assert caught.value.hint and "SWE-rebench V2" in caught.value.hint


def test_a_list_gzip_and_parquet_hold_the_same_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{**ROWS["swe-gym"]}, {**ROWS["swe-gym"], "instance_id": "own__repo-13"}]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    (tmp_path / "rows.jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    )
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = [
        read_swebench(tmp_path / name) for name in ("list.json", "rows.jsonl.gz", "rows.parquet")
    ]
    first = [[(row.instance_id, row.image, row.run) for row in rows] for rows in found]
    assert first[0] == first[1] == first[2] and len(first[0]) == 2
