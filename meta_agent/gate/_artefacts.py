"""Detectors of numbers that are no measurement: rewards that are not finite, attempts cut short."""

from __future__ import annotations

import math

from meta_agent.gate._intervals import two_proportion_p
from meta_agent.gate._limits import ValidityLimits, evidence_lines
from meta_agent.gate._records import Arm, ArmSide, Finding, OutcomeRow


def not_finite(arm: Arm, side: ArmSide = "candidate") -> list[Finding]:
    """Rewards that are NaN or infinite: one of them in a group spoils every advantage of it."""
    hits = [row for row in arm.rows() if row.reward is not None and not math.isfinite(row.reward)]
    if not hits:
        return []
    total = sum(row.reward is not None for row in arm.rows())
    message = f"{len(hits)} of {total} rewards of {arm.name} are not finite numbers"
    lines = tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: reward {row.reward}"
        for row in sorted(hits, key=lambda row: (row.training_seed, row.key))[:5]
    )
    numbers = {"hits": len(hits), "n": total}
    return [Finding("artefact.not_finite", "veto", message, lines, numbers, side)]


def unfinished(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Far more attempts end without being handed in: a parser or a format may have broken.

    Only a warning, as with ceilings: such attempts count as the failures that they are.
    """
    sides = [_ended(arm) for arm in (baseline, candidate)]
    left = [[row for row in rows if row.stop_reason != "submitted"] for rows in sides]
    if not (sides[0] and sides[1]) or len(left[0]) == len(sides[0]):
        return []  # where nothing is ever handed in, not handing in is how attempts end
    jump = len(left[1]) / len(sides[1]) - len(left[0]) / len(sides[0])
    p = two_proportion_p(len(left[0]), len(sides[0]), len(left[1]), len(sides[1]))
    if jump <= limits.truncation_gap or p >= limits.balance_p:
        return []
    message = (
        f"attempts never handed in: {len(left[0])}/{len(sides[0])} before, "
        f"{len(left[1])}/{len(sides[1])} after"
    )
    lines = evidence_lines(left[1])
    return [Finding("artefact.unfinished", "warn", message, lines, {"jump": jump, "p": p})]


def _ended(arm: Arm) -> list[OutcomeRow]:
    return [row for row in arm.rows() if row.success is not None and row.error_kind is None]
