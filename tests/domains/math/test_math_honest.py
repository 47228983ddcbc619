r"""Right answers in unusual notation pass, and answers that let the grader do the work do not."""

# ruff: noqa: E501 - answers as they are handed in
from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from meta_agent.domains.formats.math_sets import MathRow
from meta_agent.domains.math import Gold, Verifier, final_answer, grade_text, literal, sort_golds

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(wall_sec=4.0)
    yield made
    made.close()


def gold_of(text: str, verifier: Verifier, problem: str = "p") -> Gold:
    found = sort_golds([MathRow("k", problem, text, "train", 1, "t")], verifier)
    assert not found.refused, found.refused
    return found.usable["k"]


def verdict(gold: Gold, answer: str, verifier: Verifier) -> str:
    return str(grade_text(gold, f"\\boxed{{{answer}}}", verifier).detail["verdict"])


HONEST = {
    "42": [
        r"\text{42 dollars}", r"\boldsymbol{42}", r"\pmb{42}", r"\underline{42}", r"\color{red}{42}",
        r"\textcolor{red}{42}", r"\large 42", r"\bf{42}", r"\pounds 42", r"\$42.00", "£42",
        r"42\text{ (mod 100)}", r"42 \text{ out of 100}", r"42\text{ cm}^2", r"6×7", r"6\cdot7=42",
        r"42\,\text{cm}", r"a+b=42", r"\angle ABC=42^\circ", r"|x|=42", r"42_{10}", r"42 \approx 42.0",
        r"\text{Total cost} = 42", r"\text{Area of } ABC = 42", r"\frac{dy}{dx}=42", r"\boxed{42}", r"x=\boxed{42}",
        r"42\text{ square feet}", r"42\text{ feet per second squared}", r"42\text{ km/h}", r"42\text{ dollars a day}",
    ],
    "A": ["(A)", r"\textbf{(A)}", r"\mathbf{(A)}", r"\text{A}", "A.", "A)", "[A]", r"\textbf{(A) } 5"],
    r"\text{(B)}": ["B", "(B)", r"\mathrm{(B)}", r"\textbf{(B)}\ 12"],
    r"\frac{1}{3}": [r"0.\overline{3}", r"0.\overline{33}", r"0.\dot{3}", r"\frac13", r"\tfrac{1}{3}"],
    r"0.\overline{1331}": [r"\frac{1331}{9999}", r"\frac{121}{909}"],
    r"-0.1\overline{6}": [r"-\frac{1}{6}"],
    r"\text{June 20}": ["June 20", r"\text{June 20}", "june 20."],
    r"6\text{ PM}": ["6 PM", r"\text{6 PM}", r"6 \text{ pm}"],
    "1,2": [r"1 \text{ and } 2", r"x=1\text{ or }x=2", r"2\text{ or }1", "1 and 2"],
    "y=2x+1": ["f(x)=2x+1", "2x+1", "y = 1+2x", "y=2x+1=1+2x"],
    "x=5": ["5", "x=2+3=5"],
    r"\sqrt{2}": ["√2", r"\sqrt2", "√(2)"],
    "-2": ["\u22122", "\u20132", "(-2)"],
    r"\frac{\pi}{2}": ["π/2", r"\pi/2", r"0.5π"],
    r"\frac{22}{7}": [r"\frac{22}{7} \approx 3.14"],
    "2516_8": ["2516_{8}", "2516", "2516_8"],
    "2516": ["2516_8", "2516"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("gold", "answer"), [(gold, answer) for gold, answers in HONEST.items() for answer in answers]
)
def test_a_right_answer_passes_in_any_notation(gold: str, answer: str, verifier: Verifier) -> None:
    assert verdict(gold_of(gold, verifier), answer, verifier) == "equal"


WRONG = {
    "e^{-20}": ["0.0", "0.000000001"],
    "2^{-30}": ["0.0", "0.0000001"],
    r"\frac{1}{\binom{52}{5}}": ["0.0", "0.0000003"],
    "x=5": ["x=6=5", "x=5=6", "6=5"],
    "x^2+1": [r"\not=x^2+1", r"x^2+2=x^2+1", r"x^2+1 \text{ or } x"],
    "2516_8": ["2516_9", "2516_{10}", "2517_8"],
    "2516": ["2516_6", "2516_{41}"],
    "A": ["A or B", r"\textbf{(A)} \text{ or } \textbf{(B)}", "(A), (B)", r"\textbf{(A)(B)}", "(B) A"],
    r"\text{June 20}": ["June 21", r"\text{June}", "20"],
    "1,2": [r"1 \text{ or } 3", r"1 \text{ and } 2 \text{ and } 3"],
    r"\frac{22}{7}": [r"\frac{22}{7} \approx 4"],
    r"\frac{n(n+1)}{2}": [r"\sum_{k=1}^{n} k"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("gold", "answer"), [(gold, answer) for gold, answers in WRONG.items() for answer in answers]
)
def test_what_stands_beside_a_right_value_or_near_it_is_looked_at(
    gold: str, answer: str, verifier: Verifier
) -> None:
    assert verdict(gold_of(gold, verifier), answer, verifier) != "equal"


RESTATED = [
    ("Factor $x^2-1$.", "(x-1)(x+1)", "x^2-1"),
    (r"Simplify $\sqrt{18}$.", r"3\sqrt{2}", r"\sqrt{18}"),
    (r"Compute $\dbinom{10}{3} + 5^3$.", "245", r"\dbinom{10}{3}+5^3"),
    (r"What is $\frac{1}{2}+\frac{1}{3}$?", r"\frac{5}{6}", r"\frac{1}{2} + \dfrac{1}{3}"),
]


@pytest.mark.parametrize(("problem", "gold", "answer"), RESTATED)
def test_an_expression_of_the_problem_is_no_answer_to_it(
    problem: str, gold: str, answer: str, verifier: Verifier
) -> None:
    found = gold_of(gold, verifier, problem)
    assert verdict(found, answer, verifier) == "restates_the_problem"
    assert verdict(found, gold, verifier) == "equal"


def test_a_gold_that_stands_in_its_problem_may_be_said(verifier: Verifier) -> None:
    gold = gold_of(r"\frac{\pi}{2}", verifier, r"Which is larger, $\sqrt{2}$ or $\frac{\pi}{2}$?")
    assert verdict(gold, r"\dfrac{\pi}{2}", verifier) == "equal"
    number = gold_of("1234", verifier, "Is it 1233 or 1234?")
    assert verdict(number, "1234", verifier) == "equal"


def test_periods_are_read_exactly() -> None:
    assert literal(r"0.\overline{3}") == literal("1/3")
    assert literal(r"2.1\overline{6}") == literal("13/6")
    assert literal(r"0.\overline{9}") == literal("1")


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is $42$.",
        "answer: $x = 42$",
        "**Answer:** $42$ dollars.",
        "#### 42 ####",
        "#### $42",
        "The answer is 42 (since 40+2=42).",
        "The answer is 42, since 6 times 7 is 42.",
        "The answer is 42. I hope it is correct.",
        "The answer is 42. Each of 6 rows has 7 of them.",
        "The answer is 42, which is 2 times 21.",
        r"$\boxed{42}$, where $x = 6$ and $y = 7$.",
        r"So $\boxed{42}$ dollars (rejecting $-5$).",
        r"$\boxed{42}^\circ$",
        r"$\boxed{42} \pmod{97}$",
        r"$\boxed{42}$, or equivalently $84/2$.",
        r"\boxed{42}, or 42.0",
        r"$\boxed{42} = 40 + 2$",
        r"Of 41 we need one more. \boxed{42}. Before there were 41.",
        "\\boxed{42}\n\nConfidence: 95%",
    ],
)
def test_a_right_answer_after_a_marker_passes(reply: str, verifier: Verifier) -> None:
    assert grade_text(gold_of("42", verifier), reply, verifier).success


def test_blanks_without_end_after_a_marker_are_read_once() -> None:
    assert final_answer("answer is" + "\n" * 200_000) is None  # it took cubic time: days
