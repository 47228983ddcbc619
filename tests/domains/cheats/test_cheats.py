"""No cheat passes: each row of the table against each grader that it applies to."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from cheat_graders import HONEST, Ours
from cheat_row import GRADERS, Cheat, Grader
from cheat_table import CHEATS, pairs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)

QUICK: tuple[Grader, ...] = ("math", "nano-swe", "nano-math", "nano-code")
SANDBOXED = tuple(grader for grader in GRADERS if grader not in QUICK)
LOGGED = {"configuration", "exit", "hooks", "plugin", "report edits", "skipping", "start-up"}
"""Families that aim at what a test command prints."""


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with Ours("process") as made:
        yield made


@pytest.mark.parametrize("grader", GRADERS)
def test_honest_work_passes_so_that_a_failure_means_something(grader: Grader, ours: Ours) -> None:
    assert ours.judge(grader, HONEST[grader]).passes


def _named(rows: list[tuple[Cheat, Grader]]) -> list[str]:
    return [f"{grader}-{cheat.name}" for cheat, grader in rows]


@pytest.mark.parametrize(("cheat", "grader"), pairs(*QUICK), ids=_named(pairs(*QUICK)))
def test_no_answer_that_is_none_passes(cheat: Cheat, grader: Grader, ours: Ours) -> None:
    found = ours.judge(grader, cheat.forms[grader])
    assert not found.passes, found


def _in_sandboxes() -> list[tuple[Cheat, Grader]]:
    """A command differs from our own runner in its log: other families are tried once by it."""
    firsts = {cheat.family: cheat for cheat, _ in reversed(pairs("swe-command"))}
    return [
        (cheat, grader)
        for cheat, grader in pairs(*SANDBOXED)
        if grader != "swe-command" or cheat.family in LOGGED or cheat is firsts[cheat.family]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("cheat", "grader"), _in_sandboxes(), ids=_named(_in_sandboxes()))
def test_no_code_that_cheats_passes(cheat: Cheat, grader: Grader, ours: Ours) -> None:
    found = ours.judge(grader, cheat.forms[grader])
    assert not found.passes, found


def test_the_table_is_broad_and_says_each_thing_once() -> None:
    assert len({cheat.name for cheat in CHEATS if cheat.family != "lookalike"}) >= 25
    assert len({(cheat.name, *sorted(cheat.forms)) for cheat in CHEATS}) == len(CHEATS)
    assert all(cheat.forms for cheat in CHEATS)
    assert {grader for cheat in CHEATS for grader in cheat.forms} == set(GRADERS)
