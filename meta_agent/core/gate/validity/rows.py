"""Validity checks of outcome rows: did the intended behaviour produce this score?

They run before any score is read. Each detector is a pure function from arms to typed findings,
with the lines of evidence that it rests on. `find_all` returns what a candidate shows beyond its
baseline, and the baseline's own findings: a candidate is not blamed for what the version that it
started from does. `find_in_arm` checks one arm alone (an invalid baseline opens a repair).

Not covered: conduct that the environment did not flag, since these detectors only count flags.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, get_args

from meta_agent.core.gate._records import Arm, ArmSide, Finding, Severity
from meta_agent.core.gate.validity._limits import DEFAULT_LIMITS, ValidityLimits
from meta_agent.core.gate.validity.detectors import DETECTORS, ArmInput

_GRAVEST_FIRST: Final = get_args(Severity)


def find_all(
    baseline: Arm,
    candidate: Arm,
    *,
    limits: ValidityLimits = DEFAULT_LIMITS,
    train_hashes: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Returns the findings of all checks on the outcome rows of both arms, vetoes first.

    `train_hashes` are the content hashes of the training tasks.
    """
    first, between = (
        [finding for look in looks if look for finding in look(baseline, candidate, limits)]
        for looks in ([d.first for d in DETECTORS], [d.between for d in DETECTORS])
    )
    findings = [
        *first,
        *find_in_arm(baseline, limits=limits, side="baseline"),
        *find_in_arm(candidate, limits=limits, train_hashes=train_hashes, beside=baseline),
        *between,
    ]
    return tuple(sorted(findings, key=lambda finding: _GRAVEST_FIRST.index(finding.severity)))


def find_in_arm(
    arm: Arm,
    *,
    limits: ValidityLimits = DEFAULT_LIMITS,
    train_hashes: Collection[str] = (),
    side: ArmSide = "candidate",
    beside: Arm | None = None,
) -> tuple[Finding, ...]:
    """Returns the findings of all checks on the outcome rows of one arm (side of a comparison).

    `beside` is its baseline, with which flagged conduct and NaN rewards are compared; or None.
    """
    question = ArmInput(arm, limits, side, beside, train_hashes)
    return tuple(finding for d in DETECTORS if d.in_arm for finding in d.in_arm(question))
