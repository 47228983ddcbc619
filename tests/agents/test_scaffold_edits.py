"""Edits that let words through a scaffold, judged by what the edited scaffold then does."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.proposers.rules._source import PythonFile, Surgery
from meta_agent.proposers.rules._wiring import (
    act_as_written,
    go_on,
    keep_conversation,
    show_results,
    show_task,
)

Operation = Callable[[Surgery], None]
SUM = "7+6+4"
VIEWS: dict[str, dict[str, Any]] = {
    "swe": {"issue": "3?"},
    "math": {"sum": SUM},
    "code": {"call": "f", "sketch": "x*?+4", "examples": [["0", "4"], ["1", "6"], ["2", "8"]]},
}
WORDS = {
    "swe": ("v", "e3+", "t", "eX0", "e12", "t", "v", "e4x", "s"),
    "math": ("7+6=13+4=17#17",),
    "code": ("=x*3+4", "r", "=x*2+4", "r", "s"),
}
ANSWERS = {
    "view": "x-3*y", "edit": "ok", "test": "2t lo", "log": "e3+", "submit": "done",
    "write": "ok", "run": "5>14~12", "key": "17",
}  # fmt: skip


class Played(NamedTuple):
    """What an attempt saw and asked."""

    heard: tuple[tuple[str, ...], ...]
    called: tuple[tuple[str, str], ...]
    limits: tuple[int | None, ...]


def play(suite: str, source: str) -> Played:
    """Plays one attempt with a policy that says the same whatever it hears."""
    scope: dict[str, Any] = {}
    exec(compile(source, "agent.py", "exec"), scope)  # noqa: S102 - our own sources
    said = iter(WORDS[suite])
    heard: list[tuple[str, ...]] = []
    called: list[tuple[str, str]] = []
    limits: list[int | None] = []

    async def chat(messages: Sequence[Any], max_tokens: int | None = None) -> SimpleNamespace:
        heard.append(tuple(f"{m['role']}: {m['content']}" for m in messages))
        limits.append(max_tokens)
        return SimpleNamespace(content=next(said, ""), finish_reason="stop")

    async def call(name: str, **arguments: Any) -> SimpleNamespace:
        called.append((name, repr(arguments)))
        return SimpleNamespace(text=ANSWERS[name], ok=True, done=name == "submit")

    task = SimpleNamespace(key="k", view=VIEWS[suite])
    asyncio.run(scope["run"](task, SimpleNamespace(chat=chat), SimpleNamespace(call=call)))
    return Played(tuple(heard), tuple(called), tuple(limits))


def edited(source: str, *operations: Operation) -> str:
    for operation in operations:
        surgery = Surgery(PythonFile("agent.py", source))
        operation(surgery)
        source = surgery.text
    return source


ASK = "        reply = await model.chat(messages,"
OWN = '        messages.append({"role": "assistant", "content": reply.content})\n'
RETURN = "    return result.text[:OBSERVATION_CHARS], result.done"
OVER = "        if done:\n"
STEP = "await step(reply.content, tools)"

MISTAKES: dict[str, tuple[str, str, str, Operation]] = {
    "the last three messages": (
        "swe", ASK, "        messages = messages[-3:]\n" + ASK, keep_conversation,
    ),
    "a window of them": (
        "swe", ASK,
        "        window = messages[:1] + messages[-4:]\n" + ASK.replace("(messages", "(window"),
        keep_conversation,
    ),
    "by a function": (
        "swe", ASK, ASK.replace("(messages", "(list(messages[-2:])"), keep_conversation,
    ),
    "deleted": ("swe", OVER, "        del messages[1:-2]\n" + OVER, keep_conversation),
    "popped": (
        "swe", OVER, "        if len(messages) > 5:\n            messages.pop(1)\n" + OVER,
        keep_conversation,
    ),
    "without its own words": ("swe", OWN, "", keep_conversation),
    "with a part of its own words": (
        "swe", OWN, OWN.replace("reply.content", "reply.content[:1]"), keep_conversation,
    ),
    "its own words as a tool's": (
        "swe", OWN, OWN.replace('"assistant"', '"tool"'), keep_conversation,
    ),
    "a result is rewritten": (
        "swe", "result.text[:", 'result.text.replace("lo", "hi")[:', show_results,
    ),
    "edits always look fine": (
        "swe", RETURN, '    if name == "test":\n        return "2t ok", result.done\n' + RETURN,
        show_results,
    ),
    "the tail of a result": (
        "swe", "result.text[:OBSERVATION_CHARS]", "result.text[-2:]", show_results,
    ),
    "lower case": ("swe", STEP, "await step(reply.content.strip().lower(), tools)", act_as_written),
    "two characters of a reply": (
        "swe", f"        text, done = {STEP}",
        "        said = reply.content[:2]\n        text, done = await step(said, tools)",
        act_as_written,
    ),
    "a program is cut": ("code", '{"code": action}', '{"code": action[:4]}', act_as_written),
    "a program is changed": (
        "code", '{"code": action}', '{"code": action.replace("*", "+")}', act_as_written,
    ),
    "one more than the answer": (
        "math", "answer=answer)", "answer=str(int(answer) + 1))", act_as_written,
    ),
    "over after the first test": ("swe", RETURN, RETURN + ' or name == "test"', go_on),
    "half of the issue": (
        "swe", 'task.view["issue"]', 'task.view["issue"].replace("?", "")', show_task,
    ),
    "half of the sketch": ("code", 'task.view["sketch"]', 'task.view["sketch"][:3]', show_task),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_stands_in_the_way_is_taken_away(name: str) -> None:
    suite, old, new, operation = MISTAKES[name]
    clean = sources(suite, "competent")[f"{suite}/agent.py"].decode()
    assert old in clean
    faulty = clean.replace(old, new, 1)
    faulty = faulty.replace("    for _ in range", '    last = ""\n    for _ in range')
    assert play(suite, faulty) != play(suite, clean)
    assert play(suite, edited(faulty, operation)) == play(suite, clean)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(
    "operation", [keep_conversation, show_results, act_as_written, go_on, show_task]
)
def test_where_nothing_stands_in_the_way_nothing_is_taken(suite: str, operation: Operation) -> None:
    clean = sources(suite, "competent")[f"{suite}/agent.py"].decode()
    assert play(suite, edited(clean, operation)) == play(suite, clean)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_place_is_the_one_that_python_means_whatever_ends_the_lines(newline: str) -> None:
    lines = [
        "# a\x0cb\u2028c",
        "def f(x):",
        "    é = 'ü'",
        "    return (é,",
        "        x)",
        "",
        "LIMIT = 1",
    ]
    file = PythonFile("agent.py", newline.join(lines))
    nodes = list(ast.walk(file.tree))
    assert len(nodes) > 10
    for node in nodes:
        assert file.source_of(node) == (ast.get_source_segment(file.text, node) or "")
    assert file.with_constant("LIMIT", 3).text == file.text.replace("LIMIT = 1", "LIMIT = 3")
    assert file.without_function("f").text == newline.join([lines[0], lines[-1]])
