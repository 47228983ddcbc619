"""Runs that one seed disturbs: kills, power cuts, torn commits, full disks, clocks, providers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.simulation._faults import FAULTS, planted
from tests.simulation._loop import simulate, undisturbed
from tests.simulation._world import ViolationError

ROOT = Path(__file__).parents[2]
SEEDS = 50
MOST_SEEDS = 300  # for a planted fault; measured: 6


@pytest.fixture(scope="module")
def expected() -> Mapping[str, Any]:
    return undisturbed()


def test_no_seed_breaks_a_promise(expected: Mapping[str, Any]) -> None:
    lives = [simulate(seed, expected).lives for seed in range(SEEDS)]
    assert sum(lives) > SEEDS


@pytest.mark.slow
def test_no_seed_of_a_thousand_breaks_a_promise(expected: Mapping[str, Any]) -> None:
    for seed in range(SEEDS, SEEDS + 1000):
        simulate(seed, expected)


def test_a_seed_repeats_itself(expected: Mapping[str, Any]) -> None:
    for seed in range(8):
        first, second = (simulate(seed, expected) for _ in range(2))
        assert (first.lives, first.now, first.billed_usd) == (
            second.lives,
            second.now,
            second.billed_usd,
        )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, expected: Mapping[str, Any]) -> None:
    with planted(fault), pytest.raises(ViolationError):
        for seed in range(MOST_SEEDS):
            simulate(seed, expected)


def test_a_seed_that_fails_names_the_command_that_repeats_it() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--fault", "main-moves-twice"]
    done = subprocess.run(
        [*command, "--seeds", "5"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    again = done.stdout.splitlines()[-1].partition("repeat it: python ")[2].split()
    repeated = subprocess.run(
        [sys.executable, *again], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert repeated.stdout == done.stdout
