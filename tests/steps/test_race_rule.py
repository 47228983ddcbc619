"""The race of a frozen policy: its model, what it buys, and what follows from a block."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from meta_agent.core.loop.plan import BLOCK, exam_of
from meta_agent.strategies._race_rule import TERMS, Buy, Field, Race, Word

TASKS = 24


def filled(edits: list[float], attempts: int, seed: int = 0, base: int = 10) -> Field:
    """Edits of the start with these effects (logits), each with so many attempts at every task."""
    rng, field = np.random.default_rng(seed), Field(TASKS)
    level = rng.normal(0, 1.5, TASKS)
    for version, moved in enumerate((0.0, *edits)):
        assert not version or field.enter(0) == version
        for task in range(TASKS):
            for _ in range(attempts if version else base):
                field.add(version, task, bool(rng.random() < expit(level[task] + moved)))
    return field


def test_a_gain_a_loss_and_nothing_are_told_apart() -> None:
    field = filled([1.0, -1.0, 0.0], attempts=40, base=40)
    better, worse, same = (field.chance(at) for at in (1, 2, 3))
    assert better.worth > 0.95 and better.gain > 0.08
    assert worse.worth < 0.01 and worse.gain < -0.05
    assert abs(same.gain) < 0.02 and same.worth < TERMS.accept


def test_where_nothing_was_solved_a_first_success_keeps_an_edit_in_the_race() -> None:
    """No attempt of 48 succeeds at the start. Success that is new is no small move of logits."""
    worth = []
    for solved in (0, 1, 3):
        field = Field(48)
        for task in range(48):
            field.add(0, task, False)
        version = field.enter(0)
        for at in range(BLOCK):
            field.add(version, 5 * at, at < solved)
        worth.append(field.chance(version).worth)
    nothing, first, several = worth
    assert TERMS.hopeless < nothing < TERMS.drop < first < several
    assert several > TERMS.accept


def test_attempts_at_dropped_edits_say_how_good_the_start_is() -> None:
    """The start was lucky once; forty edits that do nothing tell."""
    alone, among = Field(TASKS), Field(TASKS)
    for field, others in ((alone, 0), (among, 40)):
        for task in range(TASKS):
            field.add(0, task, task < 16)
        rng = np.random.default_rng(3)
        for _ in range(others):
            version = field.enter(0)
            for task in rng.permutation(TASKS)[:16]:
                field.add(version, int(task), bool(rng.random() < 1 / 3))
        last = field.enter(0)
        for task in range(TASKS):
            field.add(last, task, task < 12)
    assert among.chance(41).gain > alone.chance(1).gain + 0.02


def test_what_a_strong_edit_brought_is_not_taken_for_the_next_ones() -> None:
    """From 3 of 12 to all, and the next one solves all as well: it brought nothing."""
    field = Field(12)
    for task in range(12):
        field.add(0, task, task < 3)
    strong = field.enter(0)
    for task in [*range(12), *range(8)]:
        field.add(strong, task, True)
    assert field.chance(strong).worth > 0.9
    neutral = field.enter(strong)
    for task in [*range(12), *range(12), *range(8)]:
        field.add(neutral, task, True)
    assert field.chance(neutral).worth < 0.4


def raced(rates: list[float], attempts: int, seed: int = 1) -> Race:
    """Edits with these rates, until one is on the tip for good or all are gone."""
    rng, race = np.random.default_rng(seed), Race(TASKS, attempts)
    rate, queue = {0: 0.3}, list(rates)
    while not race.over:
        buy = race.next()
        if buy is None:
            if not queue:
                break
            rate[race.enter()] = queue.pop(0)
            continue
        word, _ = race.record(buy, (bool(rng.random() < rate[buy.version]) for _ in buy.tasks))
        race.apply(buy, word)
    race.finish()
    return race


def test_the_better_edit_is_found_among_ones_that_do_nothing() -> None:
    race = raced([0.3, 0.1, 0.7, 0.3, 0.3], 2000)
    assert race.trail == [0, 3]
    assert race.attempts(3) >= TASKS + BLOCK, "the tip has fresh attempts"
    assert race.attempts(2) < race.attempts(3), "what harms loses its place early"


def test_no_attempt_is_bought_beyond_those_declared() -> None:
    for attempts in (0, 7, 8, 60, 333):
        race = raced([0.35] * 50, attempts)
        assert race.bought <= attempts
        assert race.bought == sum(race.attempts(at) for at in range(len(race._made)))


def test_a_lost_attempt_is_bought_and_tells_nothing() -> None:
    race = Race(TASKS, 500)
    while (buy := race.next()) is not None:
        race.apply(buy, race.record(buy, [None] * len(buy.tasks))[0])
    assert race.settled and race.bought >= TASKS and not race.field._tried.any()


def test_a_tip_that_does_not_bear_out_what_it_won_by_is_taken_back() -> None:
    race = Race(TASKS, 2000)
    while (buy := race.next()) is not None:
        race.apply(buy, race.record(buy, [task % 2 == 0 for task in buy.tasks])[0])
    lucky = race.enter()
    words = []
    while (buy := race.next()) is not None:
        won = buy.kind == "screen"
        word, _ = race.record(buy, [won or task % 3 == 0 for task in buy.tasks])
        race.apply(buy, word)
        words.append(word)
    assert "accepted" in words and words[-1] == "taken back"
    assert race.tip == 0 and race.attempts(lucky) > 0 and race.settled


def test_an_unlucky_beginning_drops_nothing_where_edits_are_scarce() -> None:
    made = {}
    for edits in (None, 3):
        race = Race(TASKS, 1000, edits=edits)
        while (buy := race.next()) is not None:
            race.apply(buy, race.record(buy, [task % 2 == 0 for task in buy.tasks])[0])
        edit = race.enter()
        while (
            (buy := race.next()) is not None and buy.version == edit and race.attempts(edit) < 400
        ):
            unlucky = race.attempts(edit) < BLOCK
            won = [task % 4 == 0 if unlucky else task % 4 > 0 for task in buy.tasks]
            race.apply(buy, race.record(buy, won)[0])
        made[edits] = race.tip, race.attempts(edit)
    assert made[None] == (0, BLOCK)
    assert made[3][0] == 1, "the same edit, given a second look, is on the tip"


def test_what_ran_out_before_an_attempt_at_each_task_is_no_tip() -> None:
    race = Race(TASKS, TASKS + 2 * BLOCK)
    while (buy := race.next()) is not None and not race.settled:
        race.apply(buy, race.record(buy, [False] * len(buy.tasks))[0])
    race.enter()
    while (buy := race.next()) is not None:
        race.apply(buy, race.record(buy, [True] * len(buy.tasks))[0])
    assert race.tip == 1
    race.finish()
    assert race.tip == 0


def test_a_fifth_is_left_for_the_exam() -> None:
    assert exam_of(1000, 30) == (3, 10)
    assert exam_of(100, 30) == (0, 10) and exam_of(100, 0) == (0, 0)


def test_where_the_model_changed_the_tip_is_asked_anew_and_not_taken_back_for_want_of_a_rival() -> (
    None
):
    race = Race(40, 4000)
    race.apply(*_bought(race, 0.3))
    edit = race.enter()
    while race.tip != edit:
        race.apply(*_bought(race, 0.9))
    made = race.attempts(edit)
    race.model_changed()
    while not race.settled:
        race.apply(*_bought(race, 0.5))
    assert race.tip == edit and race.attempts(edit) >= made + 40
    assert race.attempts(0) == 80, "the start is no tip any more, so nothing is spent on it"


def _bought(race: Race, share: float) -> tuple[Buy, Word]:
    buy = race.next()
    assert buy is not None
    solved = [at < share * len(buy.tasks) for at in range(len(buy.tasks))]
    return buy, race.record(buy, solved)[0]
