"""Programs and how each ends: right ones in any dress, wrong ones, and HumanEval's own judge.

A line of `programs.jsonl` is a program for one kind of task; without an `end` it must not pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _code_rows import row
from _humaneval import mutants, official

from meta_agent.domains.code import (
    CodeDomain,
    CodeRunner,
    code_in,
    code_runner,
    graded,
    same_output,
)

TABLE = Path(__file__).with_name("programs.jsonl").read_text(encoding="utf-8")
LINES: list[dict[str, Any]] = [json.loads(line) for line in TABLE.splitlines()]


@pytest.fixture(scope="module")
def runner() -> Iterator[CodeRunner]:
    made = code_runner("process", candidates_per_sandbox=25)
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["stdio", "function", "asserts"])
def test_each_ending_of_a_program_has_its_word(kind: str, runner: CodeRunner) -> None:
    wrong = {}
    for line in (line for line in LINES if line["kind"] == kind):
        more = {"program": line["tests"]} if "tests" in line else {}
        found = graded(row(kind, time_sec=2.0, **more), line["source"], runner)
        verdict = found.detail["verdict"]
        if verdict != line.get("end", verdict) or found.success != (line.get("end") == "passed"):
            wrong[line["name"]] = found
    assert wrong == {}


@pytest.mark.parametrize("filling", ["a", " "])
def test_a_fence_whose_line_never_ends_is_read_once(filling: str) -> None:
    text = "```" + filling * 1_000_000  # a quarter of an hour when it was read again from each sign
    assert code_in(text) == text


def test_a_line_of_numbers_is_read_no_further_than_it_may_match() -> None:
    assert not same_output("1 2", "1 2 " * 500_000)
    assert same_output("1 2", "1.0   2e0")
    assert not same_output("1 2", "1.0\u20032")


# --- HumanEval -----------------------------------------------------------------------------------


def problem(number: int, prompt: str, body: str, *asserts: str) -> dict[str, str]:
    """A problem of ours in the form of HumanEval."""
    name = prompt.rpartition("def ")[2].partition("(")[0]
    tests = "".join(f"    assert {line}\n" for line in asserts)
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": prompt,
        "entry_point": name,
        "canonical_solution": body,
        "test": f"def check(candidate):\n{tests}",
    }


PROBLEMS = [
    problem(
        0,
        "from typing import List\n\n\ndef longest(words: List[str]) -> int:\n    '''A length.'''\n",
        "    best = 0\n    for word in words:\n        if len(word) > best:\n"
        "            best = len(word)\n    return best\n",
        *("candidate([]) == 0", "candidate(['a', 'abc', 'ab']) == 3"),
    ),
    problem(
        1,
        "def encode(text):\n    '''Turns each three signs.'''\n"
        "    parts = [text[i : i + 3] for i in range(0, len(text), 3)]\n"
        "    return ''.join(p[1:] + p[0] if len(p) == 3 else p for p in parts)\n\n\n"
        "def decode(text):\n    '''Undoes it.'''\n",
        "    return encode(encode(text))\n",
        *("candidate(encode('abcdefgh')) == 'abcdefgh'", "candidate('bca') == 'abc'"),
    ),
    problem(
        2,
        "def mean(numbers):\n    '''The mean.'''\n",
        "    return sum(numbers) / len(numbers)\n",
        *("abs(candidate([1.0, 2.0, 4.5]) - 2.5) < 1e-6", "candidate([7]) == 7"),
    ),
]


@pytest.fixture(scope="module")
def human(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeDomain]:
    path = tmp_path_factory.mktemp("human") / "set.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in PROBLEMS))
    made = CodeDomain(path, code_runner("process", candidates_per_sandbox=40))
    yield made
    made.close()


@pytest.mark.parametrize("each", PROBLEMS, ids=lambda each: each["entry_point"])
def test_mutants_fail_where_the_official_executor_fails_them(
    each: dict[str, str], human: CodeDomain
) -> None:
    task = human.rows[f"humaneval-HumanEval-{each['task_id'].partition('/')[2]}"]
    assert human.runner.run(task, task.gold[0]).success
    said = {program: official({**each, "prompt": ""}, program) for program in mutants(each)}
    assert said and not all(said.values())
    assert {program: human.runner.run(task, program).success for program in said} == said


def test_a_body_alone_is_completed_and_a_whole_function_is_taken_as_it_is(
    human: CodeDomain,
) -> None:
    task, given = human.rows["humaneval-HumanEval-1"], PROBLEMS[1]
    body = given["canonical_solution"]
    whole = given["prompt"] + body
    for code in (body, whole, whole[whole.index("def decode") :]):
        assert graded(task, code, human.runner).success, code
    assert not graded(task, "    return text\n", human.runner).success
