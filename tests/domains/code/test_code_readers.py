"""Code data sets as files: every known form, refusals by line, tests packed as pickles."""

from __future__ import annotations

import base64
import json
import pickle
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from meta_agent.core.errors import ConfigError
from meta_agent.domains.formats._pickled import PackedError, pickled_string, unpacked
from meta_agent.domains.formats.code_sets import ProgramTest, read_code

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def one():\n",
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}
MBPP = {
    "task_id": 2,
    "text": "Write a function.",
    "code": "def twice(x):\n    return 2 * x\n",
    "test_list": ["assert twice(2) == 4", "assert twice(0) == 0"],
    "test_setup_code": "",
    "challenge_test_list": ["assert twice(-1) == -2"],
}
APPS = {
    "problem_id": 7,
    "question": "Add.",
    "solutions": '["print(sum(map(int, input().split())))"]',
    "input_output": json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}),
    "difficulty": "introductory",
    "starter_code": "",
}
APPS_FUNCTION = {
    **APPS,
    "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}),
}
STDIN_TESTS = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
LIVE = {
    "question_title": "T",
    "question_content": "C",
    "platform": "atcoder",
    "question_id": "abc_1",
    "starter_code": "",
    "public_test_cases": json.dumps(STDIN_TESTS),
    "private_test_cases": "",
    "metadata": "{}",
    "contest_date": "2025-01-01",
}
FUNCTION_TESTS = [{"input": "[1, 2]\n3", "output": "true", "testtype": "functional"}]


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def live(private: str) -> dict[str, Any]:
    return {**LIVE, "private_test_cases": private}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("row", "source", "kind", "tests"),
    [
        (HUMANEVAL, "humaneval", "asserts", 0),
        (MBPP, "mbpp", "asserts", 0),
        (APPS, "apps", "stdio", 2),
        (APPS_FUNCTION, "apps", "function", 1),
        (live(packed(json.dumps(STDIN_TESTS * 3))), "livecodebench", "stdio", 4),
        (live(json.dumps(STDIN_TESTS)), "livecodebench", "stdio", 2),
    ],
    ids=["humaneval", "mbpp", "apps", "apps-function", "live-packed", "live-json"],
)  # fmt: skip
def test_each_form_is_read(row: Any, source: str, kind: str, tests: int, tmp_path: Path) -> None:
    (task,) = read_code(write(tmp_path / "set.jsonl", row)).rows
    assert (task.source, task.kind, len(task.cases)) == (source, kind, tests)


def test_functional_tests_are_arguments_and_a_value(tmp_path: Path) -> None:
    row = {
        **LIVE,
        "public_test_cases": json.dumps(FUNCTION_TESTS),
        "private_test_cases": packed(json.dumps(FUNCTION_TESTS)),
        "metadata": json.dumps({"func_name": "solve"}),
    }
    (task,) = read_code(write(tmp_path / "set.jsonl", row)).rows
    assert (task.entry_point, task.cases) == ("solve", (ProgramTest([[1, 2], 3], True),) * 2)


def test_mbpp_calls_what_its_tests_use_of_the_solution(tmp_path: Path) -> None:
    code = "class Pair:\n    pass\ndef helper():\n    pass\ndef longest(x):\n    return 1\n"
    row = {**MBPP, "code": code, "test_list": ["assert longest([Pair()]) == max(1, 0)"]}
    row["challenge_test_list"] = []
    (task,) = read_code(write(tmp_path / "set.jsonl", row)).rows
    assert set(task.names) == {"longest", "Pair"}


BROKEN: list[dict[str, Any]] = [
    {"input_output": ""},
    {"input_output": "{broken"},
    {"input_output": '{"inputs": [], "outputs": []}'},
    {"input_output": '{"inputs": ["1"], "outputs": []}'},
    {"checker": "#include <testlib.h>"},
]


@pytest.mark.parametrize("change", BROKEN, ids=str)
def test_rows_that_cannot_be_graded_are_refused_by_line_and_field(
    change: dict[str, Any], tmp_path: Path
) -> None:
    found = read_code(write(tmp_path / "set.jsonl", APPS, {**APPS, "question": "B", **change}))
    assert (len(found.rows), list(found.refused)) == (1, [2]) and found.notes
    assert re.search("input_output|inputs and outputs|checker", found.refused[2])


def test_a_repeated_problem_is_one_task(tmp_path: Path) -> None:
    found = read_code(write(tmp_path / "set.jsonl", APPS, {**APPS, "problem_id": 8}))
    assert (len(found.rows), found.duplicates) == (1, 1)


# --- packed tests --------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


@pytest.mark.parametrize("value", [Bomb(), ["a"], {"a": "b"}, ("x", "y"), 3, None, [Bomb()]])
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_of_anything_but_one_string_is_refused_unexecuted(
    value: Any, protocol: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PackedError):
        pickled_string(pickle.dumps(value, protocol))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickled_string_is_read_in_every_protocol(protocol: int) -> None:
    text = json.dumps(STDIN_TESTS * 200) + "é"
    assert pickled_string(pickle.dumps(text, protocol)) == text


def test_packed_data_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_agent.domains.formats._pickled.UNPACKED_LIMIT_BYTES", 1000)
    with pytest.raises(PackedError):
        unpacked(packed("x" * 100_000))


@pytest.mark.parametrize("text", ["garbage", "", base64.b64encode(b"no zlib").decode()])
def test_what_is_neither_json_nor_packed_is_refused(text: str) -> None:
    with pytest.raises(PackedError):
        unpacked(text)


def test_a_file_of_another_kind_is_refused_with_its_fields(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="colour"):
        read_code(write(tmp_path / "set.jsonl", {"colour": 1}))
