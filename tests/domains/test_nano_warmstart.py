"""nano-swe's demonstrations are honest transcripts of the train split."""

import importlib.util
from collections import Counter
from functools import cache
from typing import Any

import pytest

from maintain import swe_demos
from maintain.swe_demos import demonstration, guesses, problem_of
from meta_agent.domains.nano import swe_tasks
from meta_agent.domains.nano.expression import polynomial
from meta_agent.domains.nano.swe import NanoSwe
from meta_agent.policies.engines.nano_tokenizer import encode, render

HAS_TRAIN = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
needs_train = pytest.mark.skipif(not HAS_TRAIN, reason="needs the train extra")


@cache
def demos() -> list[list[dict[str, Any]]]:
    return [demonstration(index) for index in range(1000)]


def actions(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "assistant"]


def test_demonstrations_stay_on_functions_of_the_train_split() -> None:
    owned = set(swe_tasks.functions_of("train"))
    assert all(polynomial(problem_of(index).fixed) in owned for index in range(500))


def test_every_demonstration_fits_the_ceilings() -> None:
    for messages in demos():
        assert len(actions(messages)) <= NanoSwe.ceilings.max_turns
        assert all(len(a) < NanoSwe.ceilings.max_tokens_per_turn for a in actions(messages))
    long = [m for m in demos() if len(encode(render(m))) > NanoSwe.ceilings.max_context_tokens]
    assert len(long) < 0.01 * len(demos())  # the policy may read more than it will be given


def test_the_history_is_read_only_where_it_is_on_offer() -> None:
    for messages in demos():
        offered = messages[0]["content"].split(" ")[0]
        assert "l" not in actions(messages) or "l" in offered
    assert any("l" in actions(messages) for messages in demos())


def test_the_mixture_reaches_scaffolds_that_evolution_may_reach() -> None:
    first = [messages[0]["content"].split(" ") for messages in demos()]
    assert {line[0] for line in first} == {"vets", "vetls", "ets", "ves"}
    assert {len(line) for line in first} == {2, 3}  # 3: the code is in the first line
    told = Counter(m["content"] for messages in demos() for m in messages if m["role"] == "tool")
    assert {"2t ok", "2t lo", "2t hi", "2t ", "ok", "done", "don"} <= set(told)
    assert {len(actions(messages)) for messages in demos()} >= set(range(2, 11))


def test_the_fix_is_among_the_guesses_that_an_issue_allows() -> None:
    for index in range(500):
        problem = problem_of(index)
        right = swe_demos.Guess(problem.position, problem.fixed[problem.position])
        assert right in guesses(problem)


@pytest.mark.train
@needs_train
def test_only_the_policys_own_tokens_are_taught() -> None:
    from maintain.warmstart import IGNORED, labelled

    ids, labels = labelled(
        [{"role": "user", "content": "vets 35"}, {"role": "assistant", "content": "s"}]
    )
    assert ids == encode("vets 35\ns\n")
    assert labels == [IGNORED] * 8 + encode("s\n")
