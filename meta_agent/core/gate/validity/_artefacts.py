"""Detects changes that are no measurement: rewards that are not numbers, replies not understood."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meta_agent.core.gate._records import Arm, ArmSide, Finding, OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import two_proportion_p
from meta_agent.core.gate.validity._limits import LINES_SHOWN, ValidityLimits, evidence_lines
from meta_agent.core.gate.validity._looks import Look

UNFINISHED_GAP = 0.25
"""The rise in the share of unfinished attempts that is reported.

It is above luck: 32 training runs of one nano-swe harness left 2 % to 23 % unfinished.
"""


def not_finite(arm: Arm, side: ArmSide = "candidate", beside: Arm | None = None) -> list[Finding]:
    """Returns a veto if an arm (one side of a comparison) has NaN or infinite rewards, else [].

    The veto becomes a warning if the arm `beside`, the baseline, has such rewards too.
    """
    hits = _no_numbers(arm)
    if not hits:
        return []
    inherited = beside is not None and bool(_no_numbers(beside))
    total = sum(row.reward is not None for row in arm.rows())
    message = f"{len(hits)} of {total} rewards of {arm.name} are not finite numbers"
    lines = tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: reward {row.reward}"
        for row in sorted(hits, key=lambda row: (row.training_seed, row.key))[:5]
    )
    numbers = {"hits": len(hits), "n": total}
    severity: Severity = "warn" if inherited else "veto"
    return [Finding("artefact.not_finite", severity, message, lines, numbers, side)]


def _no_numbers(arm: Arm) -> list[OutcomeRow]:
    return [row for row in arm.rows() if row.reward is not None and not math.isfinite(row.reward)]


def unfinished(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns a warning if far more attempts than in the baseline end unsubmitted, else []."""
    sides = [_ended(arm) for arm in (baseline, candidate)]
    open_rows = [[row for row in rows if row.stop_reason != "submitted"] for rows in sides]
    if not (sides[0] and sides[1]) or len(open_rows[0]) == len(sides[0]):
        return []  # where nothing is ever handed in, not handing in is how attempts end
    jump = len(open_rows[1]) / len(sides[1]) - len(open_rows[0]) / len(sides[0])
    p = two_proportion_p(len(open_rows[0]), len(sides[0]), len(open_rows[1]), len(sides[1]))
    if jump <= UNFINISHED_GAP or p >= limits.balance_p:
        return []
    message = (
        f"attempts never submitted: {len(open_rows[0])}/{len(sides[0])} before, "
        f"{len(open_rows[1])}/{len(sides[1])} after"
    )
    lines = evidence_lines(open_rows[1])
    return [Finding("artefact.unfinished", "warn", message, lines, {"jump": jump, "p": p})]


def _ended(arm: Arm) -> list[OutcomeRow]:
    return [row for row in arm.rows() if row.success is not None and row.error_kind is None]


def unheard(before: Sequence[Look], after: Sequence[Look], limits: ValidityLimits) -> list[Finding]:
    """Returns a warning if far more replies than in the baseline lead to no tool call, else [].

    `before` and `after` summarise the attempts of baseline and candidate. Returns [] too if most
    replies of the baseline make no call.
    """
    sides = [[(look, max(0, look.turns - look.calls)) for look in side] for side in (before, after)]
    turns = [sum(look.turns for look in side) for side in (before, after)]
    lost = [sum(missing for _, missing in side) for side in sides]
    if not all(turns) or lost[0] > turns[0] / 2:
        return []
    jump = lost[1] / turns[1] - lost[0] / turns[0]
    p = two_proportion_p(lost[0], turns[0], lost[1], turns[1])
    if jump <= limits.truncation_gap or p >= limits.balance_p:
        return []
    message = (
        f"replies that led to no tool call: {lost[0]}/{turns[0]} before, {lost[1]}/{turns[1]} after"
    )
    worst = sorted(sides[1], key=lambda look_and_lost: (-look_and_lost[1], look_and_lost[0].name))
    lines = tuple(
        f"{look.name}: {missing} of {look.turns} replies" for look, missing in worst[:LINES_SHOWN]
    )
    return [Finding("artefact.unheard", "warn", message, lines, {"jump": jump, "p": p})]
