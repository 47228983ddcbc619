"""A table of replies: which solve their problem, and where the official graders say otherwise.

A line of `answers.jsonl` is replies to one gold that end alike. A family that an official grader
exists for says what it says too, with a reason where that differs and none where it does not.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _math_official import (
    aime_correct,
    gsm8k_answer,
    gsm8k_correct,
    gsm8k_last_number,
    last_box,
    math_equal,
)

from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math import Gold, Verifier, grade_text, sort_golds

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)
TABLE = Path(__file__).with_name("answers.jsonl").read_text(encoding="utf-8")
LINES: list[dict[str, Any]] = [json.loads(line) for line in TABLE.splitlines()]
FAMILIES = sorted({line["family"] for line in LINES})
LM_EVAL = "lm-eval==0.4.13"


def plain(gold: str) -> str:
    return gold.replace(",", "")


OFFICIAL: dict[str, Callable[[str, str], bool]] = {
    "GSM8K": gsm8k_correct,
    "GSM8K by the last number": lambda reply, gold: gsm8k_last_number(reply, plain(gold)),
    "AIME": aime_correct,
    "MATH": lambda reply, gold: math_equal(gold, last_box(reply)),
}


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=4.0)
    yield made
    made.close()


def read_gold(line: dict[str, Any], verifier: Verifier) -> Gold:
    problem = line.get("problem", "A problem of ours.")
    found = sort_golds([MathRow("k", problem, line["gold"], "train", 1, "t")], verifier)
    assert not found.refused, found.refused
    return found.usable["k"]


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_are_graded_as_the_table_says(family: str, verifier: Verifier) -> None:
    wrong = []
    for line in (line for line in LINES if line["family"] == family):
        gold = read_gold(line, verifier)
        for reply in line["replies"]:
            outcome = grade_text(gold, reply, verifier)
            if outcome.success != line["solved"]:
                wrong.append((line["gold"], reply, outcome.detail))
    assert wrong == []


def test_every_disagreement_with_an_official_grader_has_its_reason_and_no_other() -> None:
    for line in (line for line in LINES if "official" in line):
        official = OFFICIAL[line["family"].partition(",")[0]]
        said = {reply: official(reply, line["gold"]) for reply in line["replies"]}
        assert set(said.values()) == {line["official"]}, (line["gold"], said)
        assert bool(line.get("why")) is (line["official"] != line["solved"]), line


def test_two_missing_answers_are_not_equal_here(verifier: Verifier) -> None:
    assert math_equal(None, None), "officially no answer equals no answer"
    assert not grade_text(Gold("7", "literal"), "no idea", verifier).success


SOLUTIONS = {
    "18": "Of 16 eggs 9 are left: 16-3-4=<<16-3-4=9>>9.\nThey bring 9*2=$<<9*2=18>>18.\n#### 18",
    "70,000": "Before repairs: 80,000+50,000=$<<80000+50000=130000>>130,000\n#### 70,000",
    "-3": "It falls by 5 from 2: 2 - 5 = <<2-5=-3>>-3 degrees.\n#### -3",
    "0.5": "Half of them: 1/2 = <<1/2=.5>>0.5\n#### 0.5",
    "1000": "Ten bags of 100: 10*100 = <<10*100=1000>>1000 marbles\nSo 1,000 in sum.\n#### 1000",
}  # fmt: skip


@pytest.mark.parametrize("gold", SOLUTIONS)
def test_a_worked_solution_solves_its_problem(gold: str, verifier: Verifier) -> None:
    assert grade_text(Gold(gold, "literal"), SOLUTIONS[gold], verifier).success


# --- the official graders themselves -------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The graders as lm-eval ships them, so that what is written down here is what they do."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    try:
        subprocess.run([*command, LM_EVAL], check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError) as problem:
        pytest.skip(f"the package index does not give {LM_EVAL}: {problem}")
    names: dict[str, Any] = {}
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in ("hendrycks_math", "aime"):
            source = wheel.read(f"lm_eval/tasks/{name}/utils.py").decode()
            source = source.replace("import datasets", "").replace("datasets.Dataset", "object")
            made: dict[str, Any] = {}
            with warnings.catch_warnings(action="ignore"):  # it spells escapes in an old way
                exec(compile(source, name, "exec"), made)  # noqa: S102 - the evaluator's own code
            names[name] = made
        names["gsm8k"] = wheel.read("lm_eval/tasks/gsm8k/gsm8k.yaml").decode()
    return names


@pytest.mark.slow
def test_the_official_graders_are_written_down_as_they_are(published: dict[str, Any]) -> None:
    patterns = re.findall(r'regex_pattern: "(.*)"', published["gsm8k"])
    strict, flexible = (pattern.replace("\\\\", "\\") for pattern in patterns)
    for line in (line for line in LINES if "official" in line):
        family, gold = line["family"].partition(",")[0], line["gold"]
        for reply in line["replies"]:
            if family == "MATH":
                is_equiv = published["hendrycks_math"]["is_equiv"]
                assert is_equiv(gold, last_box(reply)) is math_equal(gold, last_box(reply)), reply
            elif family == "AIME":
                said = published["aime"]["process_results"]({"answer": gold}, [reply])
                assert bool(said["exact_match"]) is aime_correct(reply, gold), reply
            else:
                found = re.findall(strict, reply)
                assert (found[0].replace(",", "") if found else None) == gsm8k_answer(reply), reply
                groups = re.findall(flexible, reply)
                last = next((each for each in groups[-1] if each), "") if groups else ""
                number = re.sub(r",|\$|\.$", "", last)
                assert (number == plain(gold)) is gsm8k_last_number(reply, plain(gold)), reply
