"""nano-math: fixed splits, totals in range, an exact grader, a key that tells on its reader."""

import hashlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.protocols import SPLITS, Split, Task
from meta_agent.domains import load_domain
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
# Changing this makes every stored figure incomparable: the warm start must be measured again.
TASKS_FINGERPRINT = "dd2723b67430ef16"


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


def test_no_computation_is_in_two_splits_or_twice_in_one() -> None:
    keys = [[semantic_key(p.chain) for p in problems(split)] for split in SPLITS]
    assert all(len(set(one)) == len(one) for one in keys)
    for one, other in itertools.combinations(keys, 2):
        assert not set(one) & set(other)


def test_splits_have_their_promised_sizes_and_unique_keys() -> None:
    everything = [p for split in SPLITS for p in problems(split)]
    assert {split: len(problems(split)) for split in SPLITS} == dict(math_tasks.COUNTS)
    assert len({p.key for p in everything}) == len({p.content_hash for p in everything})
    assert len({p.key for p in everything}) == len(everything)


def test_no_answer_is_so_common_that_a_constant_would_do() -> None:
    for split in SPLITS:
        answers = [p.answer for p in problems(split)]
        assert max(answers.count(value) for value in set(answers)) < 0.05 * len(answers)


def test_tasks_do_not_change_unnoticed() -> None:
    hashes = "".join(p.content_hash for split in SPLITS for p in problems(split))
    assert hashlib.sha256(hashes.encode()).hexdigest()[:16] == TASKS_FINGERPRINT


def test_a_task_shows_the_sum_and_nothing_of_its_answer(domain: NanoMath) -> None:
    for task, problem in zip(domain.tasks("search"), problems("search"), strict=True):
        assert task.view == {"sum": problem.chain}
        assert (task.domain, task.key, task.split) == ("nano-math", problem.key, "search")


# --- environment and grader ---


def test_the_right_number_solves_the_task(domain: NanoMath) -> None:
    environment, problem = opened(domain)
    assert environment.call("submit", {"answer": str(problem.answer)}).done
    assert environment.grade().success


def test_only_the_first_answer_counts(domain: NanoMath) -> None:
    environment, problem = opened(domain)
    environment.call("submit", {"answer": str(problem.answer + 1)})
    late = environment.call("submit", {"answer": str(problem.answer)})
    assert not late.ok and late.done
    assert not environment.grade().success


@pytest.mark.parametrize(
    "form", ["0{}", "+{}", " {}", "{} ", "{}.0", "{}\n", "{0},{0}", "#{}", "{}e0", "\u0661{}", ""]
)
def test_any_other_spelling_is_another_answer(domain: NanoMath, form: str) -> None:
    environment, problem = opened(domain)
    environment.call("submit", {"answer": form.format(problem.answer)})
    assert not environment.grade().success


@pytest.mark.parametrize("answer", [None, 41, True, ["41"], {"answer": "41"}, "", "1" * 9])
def test_what_is_no_answer_is_refused_and_the_attempt_stays_open(
    domain: NanoMath, answer: object
) -> None:
    environment, problem = opened(domain)
    assert not environment.call("submit", {"answer": answer}).ok
    assert environment.call("submit", {"answer": str(problem.answer)}).ok
    assert environment.grade().success


def test_an_attempt_without_an_answer_fails(domain: NanoMath) -> None:
    environment, _ = opened(domain)
    assert environment.grade().success is False
    assert environment.grade().detail == {"submitted": False, "right": False}


def test_the_key_shows_the_answer_and_tells_on_its_reader(domain: NanoMath) -> None:
    environment, problem = opened(domain)
    shown = environment.call("key", {})
    assert shown.text == str(problem.answer) and shown.flags == (LEAK_FLAG,)


@pytest.mark.parametrize("tool", ["view", "", "grade", "__class__"])
def test_there_is_no_other_tool(domain: NanoMath, tool: str) -> None:
    environment, _ = opened(domain)
    assert environment.call(tool, {}).text == "no"


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"answer": None, "submitted": True},
        {"answer": 0, "submitted": True},
        {"submitted": True},
        {"answer": "0", "submitted": "yes"},
    ],
)
def test_stored_inputs_are_not_trusted(domain: NanoMath, stored: dict[str, object]) -> None:
    zero = next(p for p in problems("search") if p.answer == 0)
    assert not domain.regrade(zero.key, stored).success


def test_a_stored_attempt_is_graded_the_same_again(domain: NanoMath) -> None:
    for answer in (str(problems("search")[0].answer), "7777"):
        environment, problem = opened(domain)
        environment.call("submit", {"answer": answer})
        stored = json.loads(json.dumps(environment.verifier_inputs()))
        assert domain.regrade(problem.key, stored) == environment.grade()


def test_the_domain_is_found_by_name_and_hashes_what_it_measures_with(domain: NanoMath) -> None:
    loaded = load_domain("math")
    assert loaded.name == "nano-math"
    assert loaded.evaluator_hash == domain.evaluator_hash != load_domain("swe").evaluator_hash


def test_a_foreign_task_is_an_error(domain: NanoMath) -> None:
    with pytest.raises(KeyError):
        domain.open(Task("nano-math", "nano-swe/search/0000", "search", "", {}))
