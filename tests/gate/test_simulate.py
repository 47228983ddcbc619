"""Simulated candidates: power rises with the gain, and the smallest one is found."""

from __future__ import annotations

import numpy as np

from meta_agent.core.gate import Course, Terms
from meta_agent.core.gate.simulate import Analysis, Gate, Modelled, power, smallest_effect

RATES = np.linspace(0.2, 0.95, 200)


def trained(most: int = 6, *, target: float = 0.1, alpha: float = 0.05) -> Gate:
    course = Course(most, target)
    analyses = tuple(Analysis(n, 200, n == most, course) for n in range(2, most + 1))
    return Gate(analyses, Terms(alpha, futility=0.2))


def test_power_rises_with_the_gain_and_finds_the_smallest_one() -> None:
    source, gate = Modelled(RATES, 0.02), trained()
    shares = [power(gate, source, gain, draws=40).share for gain in (0.0, 0.1, 0.2)]
    assert shares == sorted(shares)
    least = smallest_effect(gate, source, draws=40, step=0.01)
    assert least is not None
    assert power(gate, source, least, draws=40).share >= 0.8
    assert power(gate, source, least - 0.01, draws=40).share < 0.8


def test_what_no_gain_can_prove_has_no_smallest_effect() -> None:
    gate = Gate((Analysis(2, 200),), Terms(1e-9))
    assert smallest_effect(gate, Modelled(RATES, 0.05), draws=20) is None
