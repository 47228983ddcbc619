"""The benchmark of gates: its rules say what their names say, and its data is what it claims."""

from __future__ import annotations

import acceptor
import gate_nulls
import numpy as np
import pytest


def row(wins: int, losses: int, ties: int = 30) -> np.ndarray:
    return np.array([[1.0] * wins + [-1.0] * losses + [0.0] * ties])


@pytest.mark.parametrize(
    ("wins", "losses", "accepted"),
    [
        (9, 0, {"ours", "fixed", "bet", "mixture", "greedy"}),
        (4, 3, {"greedy"}),
        (0, 0, set()),
        (0, 9, set()),
    ],
)
def test_rules_accept_what_they_should(wins: int, losses: int, accepted: set[str]) -> None:
    moved = row(wins, losses)
    assert {name for name, rule in acceptor.RULES.items() if rule(moved)[0]} == accepted


def test_the_outcomes_are_of_nine_settings_and_a_null_has_no_gain() -> None:
    seen = acceptor._outcomes()
    assert len(seen) == 9 and {one.shape for one in seen.values()} == {(215, 3)}
    one = next(iter(seen.values()))
    draw = np.random.default_rng(0)
    gains = [acceptor._moved(draw, (one, one), 215, 1).mean() for _ in range(60)]
    assert abs(np.mean(gains)) < 0.02


def test_a_gate_alone_falls_to_every_attack_and_the_loop_to_few() -> None:
    for attack in acceptor.ATTACKS:
        found = np.array([attack(np.random.default_rng(at)) for at in range(30)])
        alone, loop = found.mean(axis=0)
        assert alone > 0.3 > loop, attack.__name__


@pytest.mark.parametrize("name", [name for name in gate_nulls.CASES if "API" in name])
def test_a_model_that_changes_looks_like_a_gain_unless_sides_take_turns(name: str) -> None:
    found = np.array([gate_nulls.CASES[name](np.random.default_rng(at)) for at in range(60)])
    turns, after = found.mean(axis=0)
    assert turns < 0.15 and after > turns + 0.1


def test_more_tasks_find_more() -> None:
    draws = range(60)
    found = [
        np.mean([gate_nulls.promoted(make(np.random.default_rng(at))) for at in draws])
        for make in (gate_nulls.exam(tasks, 0.2, samples=1) for tasks in (12, 32, 96))
    ]
    assert found == sorted(found) and found[-1] > found[0] + 0.4
