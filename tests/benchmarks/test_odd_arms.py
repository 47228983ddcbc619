"""The lists of honest and of faulty arms, each drawn once; the benchmark draws them often."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("odd_arms")

from odd_arms import FAULTY, HONEST, judged

from meta_agent.core.protocols import VerdictKind


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_arm_is_not_invalid_however_odd(name: str) -> None:
    assert judged(HONEST[name](np.random.default_rng(11))) is not VerdictKind.INVALID


@pytest.mark.parametrize("name", FAULTY)
def test_a_planted_fault_is_not_promoted(name: str) -> None:
    assert judged(FAULTY[name](np.random.default_rng(12))) is not VerdictKind.PROMOTE
