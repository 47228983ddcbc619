"""Commands that texts point at exist: the example of each help, and those of hints and messages."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.cli import command
from meta_agent.cli._examples import EXAMPLES

PACKAGE = Path(__file__).parents[2] / "meta_agent"
POINTER = re.compile(
    r"(^|[`:;(]\s*|\brun )?meta-agent ((?:[a-z]+\b ?)+)((?:[^;,:.`'\"()]|(?<=\S)\.(?=\S))*)"
)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in getattr(group, "commands", {}).items():
        yield from leaves(inner, (*path, name)) if hasattr(inner, "commands") else [(*path, name)]


def found(words: list[str]) -> tuple[Any, list[str]]:
    """The command or group that words begin with, and the words after it."""
    at, rest = command(), list(words)
    while rest and rest[0] in getattr(at, "commands", {}):
        at = at.commands[rest.pop(0)]
    return at, rest


def test_every_command_has_one_example() -> None:
    first = [tuple(example.split()[:2]) for example in EXAMPLES]
    every = list(leaves(command()))
    assert [path for path in every if not any(path == words[: len(path)] for words in first)] == []
    assert len(EXAMPLES) == len(every)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_understood_and_ends_the_help(example: str) -> None:
    at, rest = found(shlex.split(example))
    with at.make_context("meta-agent", rest) as context:
        assert " ".join(at.get_help(context).split()).endswith(example)


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the package with its file, docstrings left out."""
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in docstrings:
                yield file.name, text


def wrong_pointers(text: str) -> Iterator[str]:
    """Commands and flags that a text names and that do not exist.

    A first word that is no command counts only where a command is given: after a colon, say.
    """
    for is_given, names, rest in POINTER.findall(text):
        at, unknown = found(names.split())
        if hasattr(at, "commands"):
            yield from [names] if unknown and (is_given or at is not command()) else []
            continue
        options = {"--help", *(name for part in at.params for name in part.opts)}
        options |= {name for part in at.params for name in part.secondary_opts}
        yield from (f"{names}{flag}" for flag in FLAG.findall(rest) if flag not in options)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("run meta-agent calibrate", ["calibrate"]),
        ("see: meta-agent tasks list", ["tasks list"]),
        ("meta-agent status --html FILE", ["status --html"]),
        ("the run needs meta-agent and a key", []),
        ("meta-agent report --html FILE", []),
    ],
)
def test_a_dead_pointer_is_found(text: str, wrong: list[str]) -> None:
    assert list(wrong_pointers(text)) == wrong


def test_commands_and_flags_in_hints_exist() -> None:
    assert [(file, text) for file, text in texts() if list(wrong_pointers(text))] == []


def test_no_message_points_at_a_page_that_a_wheel_lacks() -> None:
    assert [(file, text) for file, text in texts() if re.search(r"\bdocs/\S+\.md", text)] == []
