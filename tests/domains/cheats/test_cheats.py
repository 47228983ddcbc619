"""No cheat passes: the table against each grader, a family at a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from _cheat_graders import HONEST, Ours
from _cheat_row import GRADERS, Cheat, Grader
from _cheat_table import CHEATS, pairs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="needs the math extra"
)

QUICK: tuple[Grader, ...] = ("math", "nano-swe", "nano-math", "nano-code")
LOGGED = {"configuration", "exit", "hooks", "plugin", "report edits", "skipping", "start-up"}
"""Families that aim at what a test command prints."""


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with Ours("process") as made:
        yield made


def families(*graders: Grader) -> list[object]:
    """By grader and family: a command differs from our own runner in its log alone, so other
    families are tried once by it."""
    found: dict[tuple[Grader, str], list[Cheat]] = {}
    for cheat, grader in pairs(*graders):
        found.setdefault((grader, cheat.family), []).append(cheat)
    few = {family: 1 for _, family in found if family not in LOGGED}
    return [
        pytest.param(
            grader,
            cheats[: few.get(family) if grader == "swe-command" else None],
            id=f"{grader}-{family}",
        )
        for (grader, family), cheats in found.items()
    ]


def passed(grader: Grader, cheats: list[Cheat], ours: Ours) -> dict[str, object]:
    """The cheats that a grader takes for success, and what it says of them."""
    found = {cheat.name: ours.judge(grader, cheat.forms[grader]) for cheat in cheats}
    return {name: verdict for name, verdict in found.items() if verdict.passes}


@pytest.mark.parametrize(
    "grader",
    [pytest.param(each, marks=[pytest.mark.slow] * (each not in QUICK)) for each in GRADERS],
)
def test_honest_work_passes_so_that_a_failure_means_something(grader: Grader, ours: Ours) -> None:
    assert ours.judge(grader, HONEST[grader]).passes


@pytest.mark.parametrize(("grader", "cheats"), families(*QUICK))
def test_no_answer_that_is_none_passes(grader: Grader, cheats: list[Cheat], ours: Ours) -> None:
    assert passed(grader, cheats, ours) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grader", "cheats"), families(*(grader for grader in GRADERS if grader not in QUICK))
)
def test_no_code_that_cheats_passes(grader: Grader, cheats: list[Cheat], ours: Ours) -> None:
    assert passed(grader, cheats, ours) == {}


def test_the_table_names_each_cheat_once_and_every_grader() -> None:
    assert len({(cheat.name, *sorted(cheat.forms)) for cheat in CHEATS}) == len(CHEATS)
    assert {grader for cheat in CHEATS for grader in cheat.forms} == set(GRADERS)
