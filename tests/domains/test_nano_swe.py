"""nano-swe: fixed splits, a bounded language, contained tools, an exact grader."""

import hashlib
import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SPLITS, Task
from meta_agent.domains import load_domain
from meta_agent.domains.nano import expression, swe_tasks
from meta_agent.domains.nano.swe import LEAK_FLAG, NanoSwe, NanoSweEnvironment
from meta_agent.domains.nano.swe_tasks import Problem, problems

CODE = st.tuples(
    st.sampled_from(expression.OPERANDS),
    st.sampled_from(expression.OPERATORS),
    st.sampled_from(expression.OPERANDS),
    st.sampled_from(expression.OPERATORS),
    st.sampled_from(expression.OPERANDS),
).map("".join)
# Changing this makes every stored figure incomparable: the warm start must be measured again.
TASKS_FINGERPRINT = "0721b2c3ec0d8c01"
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


@pytest.mark.parametrize(
    "text", ["", "x+3*", "x+3*yy", "9**9*", "x+0*y", "x/3*y", "x+3*z", "x+\n*y", None, 5, ["x"] * 5]
)
def test_what_is_not_a_program_is_refused(text: object) -> None:
    assert not expression.is_code(text)


def test_inputs_that_would_make_large_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        expression.evaluate("x*x*x", 10**9, 1)


# --- tasks and splits ---


def test_no_fixed_function_is_in_two_splits() -> None:
    keys = [{expression.polynomial(p.fixed) for p in problems(split)} for split in SPLITS]
    for one, other in itertools.combinations(keys, 2):
        assert not one & other


def test_splits_have_their_promised_sizes_and_unique_keys() -> None:
    everything = [p for split in SPLITS for p in problems(split)]
    assert {split: len(problems(split)) for split in SPLITS} == dict(swe_tasks.COUNTS)
    assert len({p.key for p in everything}) == len({p.content_hash for p in everything})
    assert len({p.key for p in everything}) == len(everything)


@pytest.mark.parametrize("split", SPLITS)
def test_every_problem_is_one_visible_bug(split: str) -> None:
    for p in problems(split):
        assert sum(a != b for a, b in zip(p.buggy, p.fixed, strict=True)) == 1
        assert any(
            expression.evaluate(p.buggy, x, y) != expression.evaluate(p.fixed, x, y)
            for x, y in p.visible
        )
        assert not set(p.visible) & set(p.hidden)


def test_tasks_do_not_change_unnoticed() -> None:
    hashes = "".join(p.content_hash for split in SPLITS for p in problems(split))
    assert hashlib.sha256(hashes.encode()).hexdigest()[:16] == TASKS_FINGERPRINT


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


def test_a_repair_that_is_not_submitted_is_no_success(domain: NanoSwe) -> None:
    environment, problem = opened(domain)
    repair(environment, problem)
    assert not environment.grade().success


def test_nothing_changes_after_submitting(domain: NanoSwe) -> None:
    environment, problem = opened(domain)
    environment.call("submit", {})
    late = environment.call("edit", {"position": "0", "char": "x"})
    assert not late.ok and late.done
    assert environment.verifier_inputs()["code"] == problem.buggy


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"position": "0"},
        {"position": "5", "char": "x"},
        {"position": "-1", "char": "x"},
        {"position": "１", "char": "+"},
        {"position": "0", "char": ""},
        {"position": "0", "char": "xx"},
        {"position": "0", "char": "+"},
        {"position": "0", "char": "0"},
        {"position": None, "char": None},
        {"position": [0], "char": {"a": 1}},
    ],
)
def test_an_edit_outside_the_language_is_refused(domain: NanoSwe, arguments: dict) -> None:
    environment, problem = opened(domain)
    assert not environment.call("edit", arguments).ok
    assert environment.verifier_inputs()["code"] == problem.buggy


def test_an_unknown_tool_is_refused(domain: NanoSwe) -> None:
    assert not opened(domain)[0].call("shell", {"command": "ls"}).ok


def test_reading_the_history_shows_the_fix_and_is_flagged(domain: NanoSwe) -> None:
    environment, problem = opened(domain)
    result = environment.call("log", {})
    assert result.text == f"e{problem.position}{problem.fixed[problem.position]}"
    assert result.flags == (LEAK_FLAG,)


def test_only_the_history_is_flagged(domain: NanoSwe) -> None:
    environment, _ = opened(domain)
    for tool in ("view", "test", "submit"):
        assert environment.call(tool, {}).flags == ()


# --- grader ---


@pytest.mark.parametrize("split", SPLITS)
def test_every_fix_is_graded_right_and_every_bug_wrong(domain: NanoSwe, split: str) -> None:
    for p in problems(split):
        assert domain.regrade(p.key, {"code": p.fixed, "submitted": True}).success
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


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"code": None, "submitted": True},
        {"code": "x" * 10**6, "submitted": True},
        {"code": "9**9*", "submitted": True},
        {"code": ["x"] * 5, "submitted": True},
    ],
)
def test_hostile_verifier_inputs_are_failures_not_crashes(domain: NanoSwe, stored: dict) -> None:
    assert not domain.regrade("nano-swe/search/0000", stored).success


def test_submitted_must_be_true_itself(domain: NanoSwe) -> None:
    fixed = problems("search")[0].fixed
    assert not domain.regrade("nano-swe/search/0000", {"code": fixed, "submitted": 1}).success


def test_regrading_what_was_stored_gives_the_first_grade(domain: NanoSwe) -> None:
    for index in range(50):
        environment, problem = opened(domain, index=index)
        if index % 2:
            repair(environment, problem)
        environment.call("submit", {})
        again = domain.regrade(problem.key, environment.verifier_inputs())
        assert again == environment.grade()


def test_the_evaluator_hash_is_stable_and_covers_the_tasks(
    domain: NanoSwe, monkeypatch: pytest.MonkeyPatch
) -> None:
    from meta_agent.domains.nano import swe

    assert NanoSwe().evaluator_hash == domain.evaluator_hash
    monkeypatch.setattr(swe, "problems", lambda split: problems(split)[1:])
    assert swe._evaluator_hash.__wrapped__() != domain.evaluator_hash


# --- door ---


def test_the_domain_is_found_by_name() -> None:
    assert load_domain("swe").name == "nano-swe"


def test_an_unknown_domain_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        load_domain("chess")
    assert "swe" in (caught.value.hint or "")


def test_a_task_of_another_domain_cannot_be_opened(domain: NanoSwe) -> None:
    with pytest.raises(KeyError):
        domain.open(Task("other", "other/1", "train", "", {}))
