"""Cells: which sets of ideas are trained, what each member adds, and which cell goes on."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from meta_agent.core.gate import Finding
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.loop.verbs import propose as propose_step
from meta_agent.core.loop.verbs.cells import (
    Cell,
    Mix,
    assembled,
    beside,
    best,
    fraction,
    kept_of,
    leave_one_out,
    mixed,
    pruned,
)
from meta_agent.core.protocols import Candidate
from meta_agent.reports import reduce, run_sections
from meta_agent.reports.pages.html import render_html
from meta_agent.reports.terminal.paint import painted_page
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, having, marks, outcomes, prepare, searched, solving

FOUR = [Idea("a", "reward"), Idea("b", "data"), Idea("c", "filter"), Idea("d", "scaffold")]
LEAK = Finding("conduct.leak", "veto", "it leaks")


def ideas(bench: Bench, *chosen: Idea) -> list[Candidate]:
    having(bench, *chosen)
    return propose_step.propose(bench.run, bench.collected(), bench.reading, 0)


def names(bench: Bench, mix: Mix) -> str:
    return "".join(sorted(marks(bench.repo.tree(mix.commit))))


def test_cells_are_chains_of_merges_without_one_each_and_a_fraction_of_all(bench: Bench) -> None:
    """In the fraction each member is in half of the cells, and any two in a quarter."""
    prepare(bench)
    members, head = ideas(bench, *FOUR), bench.repo.head()
    one = mixed(bench.run, head, "all", members[:2])
    assert mixed(bench.run, head, "all", members[:2]).commit == one.commit
    last, first = bench.repo.log(1, ref=one.commit)[0], members[0]
    assert last.parents[1] == members[1].commit
    assert bench.repo.log(1, ref=last.parents[0])[0].parents == (head, first.commit)
    assert bench.repo.head() == head
    mixes = leave_one_out(bench.run, head, members[:3])
    assert [names(bench, mix) for mix in mixes] == ["abc", "bc", "ac", "ab"]
    assert [mix.name for mix in mixes] == ["all", *(f"without g0/c{n}" for n in range(3))]
    assert len(leave_one_out(bench.run, head, members[:1])) == 1
    found = [names(bench, mix) for mix in fraction(bench.run, head, members)]
    rows = [*found, "abcd"]  # the eighth is the bundle, the first of the eight was all of them
    assert len(set(rows)) == len(rows)
    for one_name in "abcd":
        assert sum(one_name in row for row in rows) == 4
        others = set("abcd") - {one_name}
        assert all(sum({one_name, two} <= {*row} for row in rows) == 2 for two in others)
    for count in (1, 2, 8):
        many: list[Any] = [object()] * count
        assert fraction(bench.run, head, many) == [], "it is for three to seven"


def test_what_clashes_or_finds_no_room_waits(bench: Bench) -> None:
    prepare(bench)
    members = ideas(bench, FOUR[0], Idea("same", "reward"), FOUR[1], FOUR[2])
    one, same, two, three = (member.hypothesis.rule for member in members)
    kept, waiting = assembled(bench.run, bench.repo.head(), members, 2)
    assert (one, same, two, three) == ("a", "b", "c", "same")
    assert [member.hypothesis.rule for member in kept] == ["a", "b"]
    assert [member.hypothesis.rule for member in waiting] == ["c", "same"]
    kept, waiting = assembled(bench.run, bench.repo.head(), members, 4)
    assert [member.hypothesis.rule for member in waiting] == ["same"]


def test_what_waited_is_tried_beside_what_it_does_not_clash_with(bench: Bench) -> None:
    prepare(bench, candidates=7)
    two = [Idea("a", "reward"), Idea("b", "reward", first=True)]
    waiting = [
        Idea("e", "scaffold", first=True, strength=0.4),
        Idea("f", "reward", strength=0.3),
        Idea("g", "reward", both=True, strength=0.2),
    ]
    *members, e, f, g = ideas(bench, *two, Idea("c", "filter"), Idea("d", "data"), *waiting)
    first = bench.repo.head()
    tip = mixed(bench.run, first, "all", members).commit
    for waited, held, name in (
        (e, "abcde", "plus g0/c4"),
        (f, "bcdf", "g0/c5 for g0/c0"),
        (g, "cdg", "g0/c6 for g0/c0 and g0/c1"),
    ):
        mix = beside(bench.run, first, tip, members, waited)
        assert mix is not None and names(bench, mix) == held and mix.name == name
        assert {m.hypothesis.rule for m in mix.members} == {*held}


# --- which cell goes on --------------------------------------------------------------------------


class Member:
    """As much of a candidate as choosing asks for."""

    def __init__(self, name: str) -> None:
        self.id = f"r/{name}"


MEMBERS = {name: Member(name) for name in "abc"}


def cell(names: str, clean: int, *, flawless: bool = True, leaks: bool = False) -> Cell:
    members: Any = tuple(MEMBERS[name] for name in names)
    seen = Evaluated({}, 100, clean, clean, 0)
    vetoes = (LEAK,) if leaks else ()
    return Cell(Mix(names, members, names), seen, None, vetoes, flawless and not leaks)


@pytest.mark.parametrize(
    ("cells", "below", "chosen"),
    [
        ([cell("ab", 60), cell("a", 50)], 0.4, "ab"),
        ([cell("ab", 60), cell("a", 60)], 0.4, "a"),  # of equals the smaller
        ([cell("ab", 90, leaks=True), cell("a", 50)], 0.4, "a"),
        ([cell("ab", 90, flawless=False), cell("a", 50)], 0.4, "a"),
        ([cell("ab", 90, flawless=False), cell("a", 40)], 0.4, "ab"),
        ([cell("ab", 42), cell("a", 41)], 0.4, None),  # two points are not worth it
        ([cell("ab", 90, leaks=True)], 0.4, None),
        ([], 0.4, None),
    ],
)
def test_the_best_valid_cell_that_is_better(
    cells: list[Cell], below: float, chosen: str | None
) -> None:
    found = best(cells, below)
    assert (found.mix.name if found else None) == chosen


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        ([cell("abc", 60), cell("bc", 70), cell("ac", 65), cell("ab", 50)], "c"),
        ([cell("abc", 60), cell("bc", 60), cell("ac", 50), cell("ab", 50)], "abc"),
        ([cell("abc", 90, leaks=True), cell("bc", 50), cell("ac", 95, leaks=True)], "bc"),
        ([cell("abc", 60), cell("bc", 90, leaks=True)], "abc"),
    ],
)
def test_what_does_better_absent_goes(cells: list[Cell], kept: str) -> None:
    assert "".join(one.id[2:] for one in kept_of(cells)) == kept


def test_the_rest_is_made_only_where_no_cell_is_just_that(bench: Bench) -> None:
    assert pruned(bench.run, bench.repo.head(), [cell("ab", 60), cell("b", 70)]) is None


# --- what is told --------------------------------------------------------------------------------


def test_every_cell_is_a_step_of_the_journal_and_a_row_on_the_screen(bench: Bench) -> None:
    prepare(bench)
    having(bench, *FOUR[:2])
    solving(bench, lambda found: 0.3 + 0.1 * len(found))
    searched(bench)
    told = outcomes(bench, "cell")
    assert [one["name"] for one in told] == ["all", "without g0/c0", "without g0/c1"]
    assert [round(one["delta"], 2) for one in told] == [0.2, 0.1, 0.1]
    state = reduce(bench.run.ledger, "r")
    assert [view.chosen for view in state.cells] == [True, False, False]
    with (console := Console(width=160)).capture() as seen:
        console.print(painted_page(run_sections.page(state)))
    assert "without g0/c1" in seen.get() and "without g0/c1" in render_html(state)
