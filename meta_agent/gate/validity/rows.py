"""Validity: did the intended behaviour produce this score? Asked before any score is read.

Each detector is a pure function from arms to typed findings, with the lines of evidence it rests
on. `find_all` is what a candidate shows beyond its baseline (what the version it started from does
itself is that version's, and no candidate inherits it) and the baseline's own;
`find_in_arm` looks at one arm alone (an invalid baseline opens a repair).

Not covered: conduct that the environment did not flag. The detectors count flags, they do not
find new kinds of cheating.
"""

from __future__ import annotations

from collections.abc import Collection

from meta_agent.gate._records import Arm, ArmSide, Finding
from meta_agent.gate.validity._artefacts import not_finite
from meta_agent.gate.validity._conduct import leaks, suspects, tampering
from meta_agent.gate.validity._limits import DEFAULT_LIMITS, ValidityLimits
from meta_agent.gate.validity._measurement import (
    comparable,
    denominator,
    overlap,
    unbalanced_infra,
    void_infra,
)
from meta_agent.gate.validity._reward import artefacts, constant_offset, divergence, one_sided_cuts


def find_all(
    baseline: Arm,
    candidate: Arm,
    *,
    limits: ValidityLimits = DEFAULT_LIMITS,
    train_hashes: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Every finding about this comparison, vetoes first."""
    found = [
        *comparable(baseline, candidate),
        *find_in_arm(baseline, limits=limits, side="baseline"),
        *find_in_arm(candidate, limits=limits, train_hashes=train_hashes, beside=baseline),
        *unbalanced_infra(baseline, candidate, limits),
        *artefacts(baseline, candidate, limits),
        *one_sided_cuts(baseline, candidate, limits),
        *divergence(baseline, candidate, limits),
        *constant_offset(baseline, candidate),
    ]
    rank = {"veto": 0, "unproven": 1, "warn": 2}
    return tuple(sorted(found, key=lambda finding: rank[finding.severity]))


def find_in_arm(
    arm: Arm,
    *,
    limits: ValidityLimits = DEFAULT_LIMITS,
    train_hashes: Collection[str] = (),
    side: ArmSide = "candidate",
    beside: Arm | None = None,
) -> tuple[Finding, ...]:
    """What one arm shows by itself, or beyond the arm that it stands beside."""
    return (
        *leaks(arm, limits, side, beside),
        *tampering(arm, limits, side, beside),
        *suspects(arm, limits, side, beside),
        *void_infra(arm, limits, side),
        *denominator(arm),
        *overlap(arm, train_hashes),
        *not_finite(arm, side, beside),
    )
