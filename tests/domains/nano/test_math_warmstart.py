"""nano-math's demonstrations stay on the train split."""

import re
from collections import Counter
from functools import cache
from typing import Any

from maintain import math_demos
from maintain.math_demos import demonstration, worked
from meta_agent.domains.nano._draw import Draw
from meta_agent.domains.nano.math_tasks import owner_of, problems, semantic_key, totals


@cache
def demos() -> list[list[dict[str, Any]]]:
    return [demonstration(index) for index in range(1000)]


def chain(messages: list[dict[str, Any]]) -> str:
    return str(messages[0]["content"].split(" ")[1])


def replies(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "assistant"]


def test_demonstrations_use_what_the_train_split_owns_and_none_of_its_tasks() -> None:
    tasks = {semantic_key(p.chain) for p in problems("train")}
    for messages in demos():
        assert owner_of(chain(messages)) == "train"
        assert semantic_key(chain(messages)) not in tasks


def test_the_key_is_read_only_where_it_is_on_offer() -> None:
    for messages in demos():
        assert "k" not in replies(messages) or "k" in messages[0]["content"].split(" ")[0]
    assert any("k" in replies(messages) for messages in demos())


def test_working_has_every_step_and_a_slip_is_carried_on() -> None:
    assert worked("9+6*3-4") == ("9+6=15*3=45-4=41", 41)
    for index in range(200):
        text, total = worked("9+6*3-4", Draw(f"slip/{index}"))
        assert total != 41 or text != "9+6=15*3=45-4=41"
        assert int(text.rpartition("=")[2]) == total >= 0


def test_the_mixture_has_every_habit_and_every_way_of_asking() -> None:
    asked = Counter(messages[0]["content"].split(" ")[0].lstrip("sk") for messages in demos())
    assert set(asked) == set(math_demos.ASKS)
    last = [replies(messages)[-1] for messages in demos()]
    assert any("," in text for text in last)  # worked twice
    assert any("#" not in text for text in last)
    guesses = [text for text in last if re.fullmatch(r"#\d+", text)]
    assert 0.3 < len(guesses) / len(last) < 0.7


def test_guesses_are_seldom_right_where_there_are_many_steps() -> None:
    long = [m for m in demos() if len(totals(chain(m))) >= 4 and "k" not in replies(m)]
    guessed = [m for m in long if "=" not in replies(m)[0]]
    right = [m for m in guessed if replies(m)[0] == f"#{totals(chain(m))[-1]}"]
    assert len(right) < 0.15 * len(guessed)
