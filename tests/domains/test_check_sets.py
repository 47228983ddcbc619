"""`tasks check` on math and code: golds, cheats, repetitions, the same manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meta_agent.domains import DomainOptions
from meta_agent.domains.check import CheckReport, check_tasks, render, write_manifest
from meta_agent.domains.checking._subject import Subject, repetitions

STORY = (
    "Ada buys {n} apples at the market and gives two of them to her brother, who already has "
    "seven. How many apples does her brother have when she comes home in the evening?"
)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def check_file(path: Path, *, domain: str, sandbox: str = "docker", **more: Any) -> CheckReport:
    return check_tasks(DomainOptions(domain, path, sandbox=sandbox), **more)


def problem(n: int, split: str, answer: str = "9") -> dict[str, str]:
    return {"question": STORY.format(n=n), "answer": f"So: #### {answer}", "split": split}


def test_math_golds_pass_and_bare_problems_do_not(tmp_path: Path) -> None:
    path = write(
        tmp_path / "math.jsonl",
        {"question": "What is one half of three?", "answer": "#### 3/2"},
        {"question": "How many legs has a spider, with commas?", "answer": "#### 1,008"},
        {"question": "Who is it?", "answer": "#### Evelyn"},
    )
    said: list[str] = []
    report = check_file(path, domain="math", progress=said.append)
    assert all(task.ok for task in report.tasks), render(report)
    assert report.columns == ("gold", "empty") and len(said) == 3
    assert report.totals["gold"].clean == 3
    assert report.totals["empty"].unresolved == 3


def test_a_gold_that_cannot_be_graded_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "math.jsonl", problem(1, "train"), {"question": "q?", "answer": ""})
    report = check_file(path, domain="math")
    assert report.rows_refused == 1 and report.notes
    assert report.manifest()["rows_refused"] == 1


def test_a_repetition_says_of_what_and_whether_splits_overlap() -> None:
    facts = [
        Subject("a", "train", 1, "x", ("m",)),
        Subject("b", "train", 2, "x", ("m",)),
        Subject("c", "vault", 3, "y", ("n", "m")),
    ]
    found = repetitions(facts)
    assert " a" in found["b"] and "train" not in found["b"]
    assert "train" in found["c"] and "vault" in found["c"]


FUNCTION = {
    "task_id": "own/1",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "canonical_solution": "    return 2 * x\n",
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-1) == -2\n",
}


def test_a_gold_program_passes_and_cheats_fail(tmp_path: Path) -> None:
    report = check_file(
        write(tmp_path / "code.jsonl", FUNCTION), domain="code", sandbox="process", jobs=1
    )
    assert all(task.ok for task in report.tasks), render(report)
    assert report.totals["gold"].clean == 1
    assert {name: total.resolved for name, total in report.totals.items()} == {
        "gold": 1,
        "empty": 0,
        "exit_0": 0,
        "always_equal": 0,
        "forged_report": 0,
    }


def test_a_wrong_gold_and_tests_that_anything_passes_are_named(tmp_path: Path) -> None:
    wrong = {**FUNCTION, "canonical_solution": "    return x\n"}
    weak = {
        **FUNCTION,
        "task_id": "own/2",
        "prompt": FUNCTION["prompt"].replace("Twice", "Two times"),
        "test": "def check(candidate):\n    candidate(2)\n",
    }
    path = write(tmp_path / "code.jsonl", wrong, weak)
    first, second = check_file(path, domain="code", sandbox="process", jobs=1).tasks
    assert "gold" in first.reasons[0]
    assert any("always_equal" in reason for reason in second.reasons)


def test_every_solution_of_a_row_is_tried(tmp_path: Path) -> None:
    row = {
        "question": "Print twice the number.",
        "solutions": json.dumps(["print(2 * int(input()))", "print(int(input()))"]),
        "input_output": json.dumps({"inputs": ["2\n", "5\n"], "outputs": ["4\n", "10\n"]}),
    }
    path = write(tmp_path / "code.jsonl", row)
    (task,) = check_file(path, domain="code", sandbox="process", jobs=1).tasks
    assert not task.ok and "solution 2 of 2" in task.reasons[0]


def test_programs_without_a_solution_are_noted(tmp_path: Path) -> None:
    row = {key: value for key, value in FUNCTION.items() if key != "canonical_solution"}
    path = write(tmp_path / "code.jsonl", row)
    report = check_file(path, domain="code", sandbox="process", jobs=1)
    assert report.tasks[0].ok and "1 " in report.notes[-1]


def test_two_checks_write_the_same_manifest(tmp_path: Path) -> None:
    path = write(tmp_path / "math.jsonl", problem(11, "train"), problem(12, "vault"))
    for name, jobs in (("a.json", 1), ("b.json", 4)):
        write_manifest(check_file(path, domain="math", jobs=jobs), tmp_path / name)
    first, second = (tmp_path / name).read_bytes(), (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == second
    assert json.loads(second)["evaluator_hash"] and first


def test_a_row_without_a_gold_patch_is_read_and_the_check_names_it(tmp_path: Path) -> None:
    from meta_agent.domains.checking._swe import subjects_of
    from meta_agent.domains.swe import load_tasks_domain

    swe = {"instance_id": "o__r-1", "repo": "o/r", "base_commit": "f" * 40, "test_patch": ""}
    swe |= {"problem_statement": "It breaks.", "PASS_TO_PASS": "[]"}
    swe |= {"image": "x/r:1", "source": {"image_path": "/testbed"}}
    swe["FAIL_TO_PASS"] = '["t.py::test_a"]'
    path = write(tmp_path / "release.jsonl", swe)
    (first,) = subjects_of(load_tasks_domain(path, sandbox="process")).tasks
    assert first.key == "o__r-1" and first.size.endswith(" tests")
    assert "no gold patch" in first.complaints[0]
