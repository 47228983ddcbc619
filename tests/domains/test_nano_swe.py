"""nano-swe: fixed splits, a bounded language, contained tools, an exact grader."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.protocols import SPLITS
from meta_agent.domains.nano import _suite, expression, swe_tasks
from meta_agent.domains.nano.swe import LEAK_FLAG, NanoSwe, NanoSweEnvironment
from meta_agent.domains.nano.swe_tasks import Problem, problems

CODE = st.tuples(
    st.sampled_from(expression.OPERANDS),
    st.sampled_from(expression.OPERATORS),
    st.sampled_from(expression.OPERANDS),
    st.sampled_from(expression.OPERATORS),
    st.sampled_from(expression.OPERANDS),
).map("".join)
INPUT = st.integers(-expression.MAX_INPUT, expression.MAX_INPUT)


@pytest.fixture(scope="module")
def domain() -> NanoSwe:
    return NanoSwe()


def opened(
    domain: NanoSwe, split: str = "search", index: int = 0
) -> tuple[NanoSweEnvironment, Problem]:
    problem = problems(split)[index]
    return domain.open(domain.tasks(split)[index]), problem


def repair(environment: NanoSweEnvironment, problem: Problem) -> None:
    char = problem.fixed[problem.position]
    assert environment.call("edit", {"position": str(problem.position), "char": char}).ok


# --- language ---


@given(CODE, INPUT, INPUT)
def test_the_interpreter_agrees_with_arithmetic(code: str, x: int, y: int) -> None:
    assert expression.evaluate(code, x, y) == eval(code, {}, {"x": x, "y": y})  # noqa: S307


@given(CODE, st.integers(-50, 50), st.integers(-50, 50))
def test_the_normal_form_has_the_value_of_the_code(code: str, x: int, y: int) -> None:
    value = sum(n * x**i * y**j for (i, j), n in expression.polynomial(code))
    assert value == expression.evaluate(code, x, y)


def test_what_is_not_a_program_is_refused() -> None:
    texts = ("", "x+3*", "x+3*yy", "9**9*", "x+0*y", "x/3*y", "x+3*z", "x+\n*y", None, 5)
    assert not any(map(expression.is_code, (*texts, ["x"] * 5)))


def test_inputs_that_would_make_large_numbers_are_refused() -> None:
    with pytest.raises(ValueError):
        expression.evaluate("x*x*x", 10**9, 1)


# --- tasks and splits ---


@pytest.mark.parametrize("split", SPLITS)
def test_every_problem_is_one_visible_bug(split: str) -> None:
    for p in problems(split):
        assert sum(a != b for a, b in zip(p.buggy, p.fixed, strict=True)) == 1
        assert any(
            expression.evaluate(p.buggy, x, y) != expression.evaluate(p.fixed, x, y)
            for x, y in p.visible
        )
        assert not set(p.visible) & set(p.hidden)


def test_a_task_shows_the_issue_and_nothing_else(domain: NanoSwe) -> None:
    assert all(set(task.view) == {"issue"} for task in domain.tasks("train"))


# --- environment ---


def test_a_repair_is_tested_submitted_and_solved(domain: NanoSwe) -> None:
    environment, problem = opened(domain)
    assert environment.call("view", {}).text == problem.buggy
    assert environment.call("test", {}).text in {"2t lo", "2t hi"}
    repair(environment, problem)
    assert environment.call("test", {}).text == "2t ok"
    assert environment.call("submit", {}).done
    assert environment.grade().success


def test_an_edit_outside_the_language_is_refused(domain: NanoSwe) -> None:
    places = (
        {},
        {"position": "0"},
        {"position": None, "char": None},
        {"position": [0], "char": {}},
    )
    chars = (("5", "x"), ("-1", "x"), ("１", "+"), ("0", ""), ("0", "xx"), ("0", "+"), ("0", "0"))
    for arguments in (*places, *({"position": place, "char": char} for place, char in chars)):
        environment, problem = opened(domain)
        assert not environment.call("edit", arguments).ok
        assert environment.verifier_inputs()["code"] == problem.buggy


def test_reading_the_history_shows_the_fix_and_is_flagged(domain: NanoSwe) -> None:
    environment, problem = opened(domain)
    result = environment.call("log", {})
    assert result.text == f"e{problem.position}{problem.fixed[problem.position]}"
    assert result.flags == (LEAK_FLAG,)


# --- grader ---


@pytest.mark.parametrize("split", SPLITS)
def test_every_bug_is_graded_wrong(domain: NanoSwe, split: str) -> None:
    for p in problems(split):
        assert not domain.regrade(p.key, {"code": p.buggy, "submitted": True}).success


@given(CODE, st.integers(0, 511))
def test_the_grader_decides_equality_of_functions_exactly(code: str, index: int) -> None:
    problem = problems("confirm")[index]
    same = expression.polynomial(code) == expression.polynomial(problem.fixed)
    assert nano().regrade(problem.key, {"code": code, "submitted": True}).success == same


@cache
def nano() -> NanoSwe:
    return NanoSwe()


def test_passing_the_visible_tests_is_not_enough(domain: NanoSwe) -> None:
    fooled = 0
    for p in problems("search"):
        for code in swe_tasks._sources():
            if fooled:
                break
            passes = all(
                expression.evaluate(code, x, y) == expression.evaluate(p.fixed, x, y)
                for x, y in p.visible
            )
            if passes and expression.polynomial(code) != expression.polynomial(p.fixed):
                fooled += 1
                assert not domain.regrade(p.key, {"code": code, "submitted": True}).success
    assert fooled


def test_the_evaluator_hash_is_stable_and_covers_the_tasks(
    domain: NanoSwe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NanoSwe().evaluator_hash == domain.evaluator_hash
    monkeypatch.setattr(NanoSwe, "problems", staticmethod(lambda split: problems(split)[1:]))
    assert _suite._evaluator_hash.__wrapped__(NanoSwe) != domain.evaluator_hash
