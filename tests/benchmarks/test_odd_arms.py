"""The lists of honest and of faulty arms, each drawn once; the benchmark draws them often.

Each detector has a case of its own in `tests/gate`, so all but the first of these run nightly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from odd_arms import FAULTY, HONEST, judged

from meta_agent.core.protocols import VerdictKind


def drawn(names: Iterable[str]) -> list[Any]:
    """Returns the first four names, and the others with the mark `nightly`."""
    first, others = [*names][:4], [*names][4:]
    return [*first, *(pytest.param(name, marks=pytest.mark.nightly) for name in others)]


@pytest.mark.parametrize("name", drawn(HONEST))
def test_an_honest_arm_is_not_invalid_however_odd(name: str) -> None:
    assert judged(HONEST[name](np.random.default_rng(11))) is not VerdictKind.INVALID


@pytest.mark.parametrize("name", drawn(FAULTY))
def test_a_planted_fault_is_not_promoted(name: str) -> None:
    assert judged(FAULTY[name](np.random.default_rng(12))) is not VerdictKind.PROMOTE
