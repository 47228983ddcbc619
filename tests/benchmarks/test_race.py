"""The simulated race: as many attempts as are declared on either side, and the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from race import UNSEEN, World, by_gepa, by_race


class Counted(World):
    made = 0

    def attempt(self, version: int, tasks: Sequence[int] | Any) -> list[bool]:
        self.made += len(tasks)
        assert max(tasks) < len(self.versions[0]) - UNSEEN, "the truth is over other tasks"
        return super().attempt(version, tasks)


def world(kind: str, seed: int = 7) -> Counted:
    return Counted(kind, 30, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", ["A", "B", "nothing"])
def test_the_race_makes_no_attempt_beyond_those_declared(kind: str) -> None:
    one, two = world(kind), world(kind)
    assert by_race(one, 600) == by_race(two, 600)
    assert one.made <= 600


def test_the_engine_beside_it_gets_as_many() -> None:
    drawn = world("A")
    ended = by_gepa(drawn, 600)
    assert 0.9 * 600 <= drawn.made <= 600 + 36 and ended.asked > 3
