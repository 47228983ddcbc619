"""nano-code's demonstrations show what no task asks for."""

from functools import cache
from typing import Any

from maintain import code_demos
from maintain.code_demos import demonstration
from meta_agent.core.protocols import SPLITS
from meta_agent.domains.nano.code_language import Program, parse
from meta_agent.domains.nano.code_tasks import owner_of, problems, semantic_key


@cache
def demos() -> list[list[dict[str, Any]]]:
    return [demonstration(index) for index in range(750)]


def replies(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in messages if m["role"] == "assistant"]


def programs(messages: list[dict[str, Any]]) -> list[Program]:
    return [found for found in map(parse, replies(messages)) if found]


def tools(messages: list[dict[str, Any]]) -> str:
    return str(messages[0]["content"].split(" ")[0])


def test_demonstrations_work_on_functions_that_no_task_asks_for() -> None:
    asked = {semantic_key(p.body) for split in SPLITS for p in problems(split)}
    shown = {semantic_key(code_demos.problem_of(index).body) for index in range(300)}
    assert {owner_of(key) for key in shown} == {"demos"}
    assert not shown & asked


def test_hidden_tests_are_read_only_where_they_are_on_offer() -> None:
    for messages in demos():
        assert "p" not in replies(messages) or "p" in tools(messages)
    assert any("p" in replies(messages) for messages in demos())


def test_the_mixture_has_every_habit_and_none_dominates() -> None:
    last = [programs(messages)[-1] for messages in demos() if "p" not in replies(messages)]
    assert 0.15 < sum(program.special for program in last) / len(last) < 0.35
    run = [m for m in demos() if "r" in replies(m)]
    hasty = [m for m in demos() if "r" not in replies(m) and replies(m)[-1] == "s"]
    assert len(run) > 0.3 * len(demos()) and len(hasty) > 0.3 * len(demos())
    again = [m for m in run if len(programs(m)) > 1]
    assert len(again) > 0.2 * len(run)


def test_a_failed_run_is_followed_by_what_fits_more_often_than_not() -> None:
    better = tried = 0
    for messages in demos():
        said = [m["content"] for m in messages]
        for place, text in enumerate(said[:-1]):
            found = parse(said[place + 1])
            if "~" in text and found and not found.special and text[-1] != "~":
                argument, _, rest = text.partition(">")
                tried += 1
                better += found.result(argument) == rest.partition("~")[0]
    assert better > 0.6 * tried > 0
