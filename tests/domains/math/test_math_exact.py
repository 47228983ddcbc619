r"""Numbers are compared exactly, units count, and what stands beside an answer is read."""

# ruff: noqa: E501 - answers as they are handed in
from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.domains.formats.math_sets import MathRow, read_math
from meta_agent.domains.math import Gold, Verifier, grade_text, sort_golds

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=4.0)
    yield made
    made.close()


def solves(gold: str, reply: str, verifier: Verifier, problem: str = "A problem of ours.") -> bool:
    golds = sort_golds([MathRow("k", problem, gold, "train", 1, "t")], verifier)
    assert not golds.refused, golds.refused
    return grade_text(golds.usable["k"], reply, verifier).success


def boxed(answer: str) -> str:
    return answer if "**" in answer else f"\\boxed{{{answer}}}"


def test_the_pairs_that_were_graded_wrongly(verifier: Verifier) -> None:
    path = DATA / "cases" / "math_pairs.jsonl"
    if not path.is_file():
        pytest.skip("no shared sample math_pairs.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    wrong = [r for r in rows if solves(r["gold"], boxed(r["answer"]), verifier) != r["equal"]]
    assert not wrong


@pytest.mark.parametrize("name", ["gsm8k_test.jsonl"])
def test_every_official_solution_is_solved(name: str, verifier: Verifier) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"no shared sample {name}")
    rows = read_math(DATA / name).rows
    lines = map(json.loads, (DATA / name).read_text().splitlines())
    solutions = {line["question"]: line["answer"] for line in lines}
    unsolved = [
        row.line
        for row in rows
        if not grade_text(
            Gold(row.gold, "literal", row.problem), solutions[row.problem], verifier
        ).success
    ]
    assert not unsolved


EQUAL = [
    ("2 1/3", r"2\frac{1}{3}"), (r"3\frac12", "7/2"), (r"3\frac12", "3.5"), ("7/3", "2 1/3"), ("1000", r"1\,000"),
    ("1, 2, 3", "3,2,1"), ("1e-30", "10^{-30}"), ("2.5e-8", r"2.5 \times 10^{-8}"), ("1e-07", "0.0000001"),
    ("6.02e23", r"6.02 \times 10^{23}"), (r"3\cdot 10^8", "3e8"), ("12:30", r"\text{12:30}"), ("2:3", r"\frac{2}{3}"),
    (r"5\text{ cm}", r"50\text{ mm}"), (r"\$5", "500 cents"), (r"\$5", "5 dollars"), ("5 feet 6 inches", "66 inches"),
    ("5 feet 6 inches", r"5\text{ ft }6\text{ in}"), ("2 hours 30 minutes", "150 minutes"), (r"10\text{ km/h}", "10 km per hour"),
    (r"0.\overline{142857}", r"\frac{1}{7}"), (r"0.1\overline{6}", "1/6"), (r"\{\}", r"\varnothing"),
    (r"\pm 2021", "2021, -2021"), (r"\sqrt{2}", "1.41421356"), (r"5\text{ apples}", "5"), (r"3 \text{ million}", "3000000"),
    (r"x=1 \text{ or } x=2", "1,2"), (r"30^\circ", "30 degrees"), ("x<3", "3>x"), ("2x", "2 x"), ("(100,200)", "(100, 200)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
]  # fmt: skip
DIFFERENT = [
    ("1 1/2", "11/2"), ("21/3", "2 1/3"), ("1000", "1 000"), ("100,200", "100, 200"), ("1, 2, 3", "123"), ("10x", "1 0x"),
    (r"\frac{1}{30!}", "0"), ("10^{-30}", "0"), ("1e-30", "1e-31"), ("1.5E-5", "1.5E-6"), (r"\frac{1}{3}", "0.333"),
    (r"\sqrt2", "1.414"), (r"\sqrt2", "1.41421357"), ("12:30", "2:5"), ("3:45", "0.0667"), ("7:05", "7:5"),
    (r"5\text{ cm}", r"5\text{ m}"), ("5 feet 6 inches", "11"), ("5 feet 6 inches", "30"), (r"60\text{ mph}", "60 km/h"),
    ("2 hours 30 minutes", "30 hours 2 minutes"), (r"5\text{ apples}", r"5\text{ oranges}"), (r"3 \text{ million}", "3"),
    ("0.5", r"50\%"), (r"\pi(R^2-r^2)", "0"), ("x^2+1=0", "x^2+2=0"), (r"6\text{ PM}", "6 AM"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_the_same_value_in_another_notation(gold: str, answer: str, verifier: Verifier) -> None:
    assert solves(gold, boxed(answer), verifier)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_another_value_that_looks_like_it(gold: str, answer: str, verifier: Verifier) -> None:
    assert not solves(gold, boxed(answer), verifier)


BESIDE = [
    r"\boxed{42} / 41", "\\boxed{42}. Alternatively 41", "\\boxed{42}\n\nAlternatively 41", "\\boxed{42} \u8981\u4e48\u662f41",
    "\\boxed{42}\n\u8981\u4e48\u662f41", r"\boxed{41} ou \boxed{42}", r"\boxed{41} oder \boxed{42}", "\\boxed{41}\u6216\\boxed{42}",
    r"\boxed{41} and/or \boxed{42}", r"$\boxed{41}$ oder $\boxed{42}$", r"\boxed{41}, \boxed{42}", r"\boxed{41}/\boxed{42}",
    r"\boxed{42} oder 41", r"\boxed{42} ou bien 41", "\\boxed{41}\n\nor\n\n\\boxed{42}", r"\boxed{41} or else \boxed{42}",
    "Answer: 42 / 41", "Answer: 42 oder 41",
]  # fmt: skip
MARKED = [
    "**Answer**: 42",
    "**Answer:** 42",
    "**Final Answer**: $42$",
    "Answer = 42",
    "**Answer: 42**",
]


@pytest.mark.parametrize("reply", BESIDE)
def test_a_second_answer_beside_the_first_in_any_language(reply: str, verifier: Verifier) -> None:
    assert not solves("42", reply, verifier)


@pytest.mark.parametrize("reply", MARKED)
def test_a_marker_in_bold_is_a_marker(reply: str, verifier: Verifier) -> None:
    assert solves("42", reply, verifier)


ASKED = [
    (r"Compute $77 \cdot 1023$.", "78771", r"1023 \cdot 77", False),
    ("What is 77 times 1,023?", "78771", r"1023 \cdot 77", False),
    (r"Compute $2^{10}$", "1024", "2^{10}", False),
    ("Factor $x^2-1$", "(x-1)(x+1)", "(1+x)(x-1)", True),
    ("Factor $x^2-1$", "(x-1)(x+1)", "-1+x^2", False),
    ("Factor completely: $x^4-1$", "(x-1)(x+1)(x^2+1)", "(x^2-1)(x^2+1)", False),
    ("Expand $(x+1)^2$", "x^2+2x+1", "1+2x+x^2", True),
    ("Expand $(x+1)^2$", "x^2+2x+1", "(x+1)(x+1)", False),
    ("Find the prime factorization of 360.", r"2^3\cdot 3^2\cdot 5", "360", False),
    ("Find the prime factorization of 360.", r"2^3\cdot 3^2\cdot 5", r"5\cdot 3^2 \cdot 2^3", True),
    ("What is the largest factor of 12 below 12?", "6", "6", True),
    ("Solve $x^2-5x+6=0$", "2, 3", r"x=2 \text{ or } x=3", True),
    ("Tom has 7 marbles and buys 35.", "42", "42 marbles", True),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "gold", "answer", "is_solved"), ASKED)
def test_work_that_the_problem_asks_for_is_done(
    problem: str, gold: str, answer: str, is_solved: bool, verifier: Verifier
) -> None:
    assert solves(gold, boxed(answer), verifier, problem) is is_solved


def test_a_gold_with_two_numbers_side_by_side_is_refused(verifier: Verifier) -> None:
    golds = sort_golds([MathRow("k", "p", "1 2", "train", 7, "t")], verifier)
    assert golds.refused == {7: "the gold has two numbers side by side"}
