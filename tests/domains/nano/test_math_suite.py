"""nano-math: fixed splits, totals in range, an exact grader, a key that tells on its reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.protocols import SPLITS, Split
from meta_agent.domains.nano import math_tasks
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.math import LEAK_FLAG, NanoMath, NanoMathEnvironment
from meta_agent.domains.nano.math_tasks import (
    Problem,
    draw_chain,
    owner_of,
    problems,
    semantic_key,
    totals,
)

CHAINS = st.text(min_size=1, max_size=30).map(lambda key: draw_chain(Draw(key)))


@pytest.fixture(scope="module")
def domain() -> NanoMath:
    return NanoMath()


def opened(
    domain: NanoMath, split: Split = "search", index: int = 0
) -> tuple[NanoMathEnvironment, Problem]:
    return domain.open(domain.tasks(split)[index]), problems(split)[index]


# --- tasks and splits ---


def test_a_chain_is_done_from_left_to_right() -> None:
    assert totals("9+6*3-4") == [15, 45, 41]


@given(CHAINS)
def test_every_total_on_the_way_is_in_range(chain: str) -> None:
    assert all(0 <= total <= math_tasks.MAX_TOTAL for total in totals(chain))
    assert 2 <= len(totals(chain)) <= 6


@given(CHAINS)
def test_a_chain_belongs_to_one_split_whichever_way_its_start_is_written(chain: str) -> None:
    swapped = chain[2] + chain[1] + chain[0] + chain[3:]
    if chain[1] != "-":
        assert semantic_key(swapped) == semantic_key(chain)
        assert owner_of(swapped) == owner_of(chain)
        assert totals(swapped) == totals(chain)
    elif chain[0] != chain[2]:
        assert semantic_key(swapped) != semantic_key(chain)


def test_no_computation_is_twice_in_a_split() -> None:
    keys = [[semantic_key(p.chain) for p in problems(split)] for split in SPLITS]
    assert all(len(set(found)) == len(found) for found in keys)


def test_no_answer_is_so_common_that_a_constant_would_do() -> None:
    for split in SPLITS:
        answers = [p.answer for p in problems(split)]
        assert max(answers.count(value) for value in set(answers)) < 0.05 * len(answers)


def test_a_task_shows_the_sum_and_nothing_of_its_answer(domain: NanoMath) -> None:
    for task, problem in zip(domain.tasks("search"), problems("search"), strict=True):
        assert task.view == {"sum": problem.chain}
        assert (task.domain, task.key, task.split) == ("nano-math", problem.key, "search")


# --- environment and grader ---


def test_any_other_spelling_is_another_answer(domain: NanoMath) -> None:
    forms = ("0{}", "+{}", " {}", "{} ", "{}.0", "{}\n", "{0},{0}", "#{}", "{}e0", "\u0661{}", "")
    for form in forms:
        environment, problem = opened(domain)
        environment.call("submit", {"answer": form.format(problem.answer)})
        assert not environment.grade().success, form


def test_what_is_no_answer_is_refused_and_the_attempt_stays_open(domain: NanoMath) -> None:
    for answer in (None, 41, True, ["41"], {"answer": "41"}, "", "1" * 9):
        environment, problem = opened(domain)
        assert not environment.call("submit", {"answer": answer}).ok
        assert environment.call("submit", {"answer": str(problem.answer)}).ok
        assert environment.grade().success


def test_the_key_shows_the_answer_and_tells_on_its_reader(domain: NanoMath) -> None:
    environment, problem = opened(domain)
    shown = environment.call("key", {})
    assert shown.text == str(problem.answer) and shown.flags == (LEAK_FLAG,)
