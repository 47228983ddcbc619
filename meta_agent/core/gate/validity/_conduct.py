"""Detects conduct that was flagged during attempts: leaked answers and attacks on the grader."""

from __future__ import annotations

from meta_agent.core.gate._records import Arm, ArmSide, Finding, OutcomeRow
from meta_agent.core.gate.numbers._intervals import counted
from meta_agent.core.gate.validity._limits import (
    evidence_lines,
    numbers_of,
    severity_of,
    share_sentence,
)

LEAK_PREFIXES = ("leak:",)
TAMPER_PREFIXES = ("tamper:", "forge:", "forgery:")


def flagged(
    code: str, prefixes: tuple[str, ...], limit: float, arm: Arm, beside: Arm | None, side: ArmSide
) -> list[Finding]:
    """Returns a finding if rollouts of `arm` have flags that begin with one of `prefixes`, else [].

    `beside` is the baseline of `arm`. The finding, named `conduct.` + `code`, is a veto if the
    share of flagged rollouts surely exceeds the baseline's by more than `limit`.
    """
    among = "rollouts" if code == "tamper" else "solved rollouts"
    sides = [
        _rows_in_question(code, arm_or_none) if arm_or_none else [] for arm_or_none in (arm, beside)
    ]
    after, before = (counted((row.task_key, _has(row, prefixes)) for row in rows) for rows in sides)
    if not after.hits:
        return []
    message = share_sentence(code, after, before, among, limit)
    lines = evidence_lines([row for row in sides[0] if _has(row, prefixes)])
    severity = severity_of(after, before, limit)
    return [Finding(f"conduct.{code}", severity, message, lines, numbers_of(after, before), side)]


def _rows_in_question(code: str, arm: Arm) -> list[OutcomeRow]:
    rows = [row for row in arm.rows() if row.success is not None]
    return rows if code == "tamper" else [row for row in rows if row.success]


def _has(row: OutcomeRow, prefixes: tuple[str, ...]) -> bool:
    return any(flag.startswith(prefixes) for flag in row.flags)
