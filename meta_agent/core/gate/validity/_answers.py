"""Detects answers that the records of an arm show to be copied, forged or special-cased."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meta_agent.core.gate._records import ArmSide, Finding
from meta_agent.core.gate.numbers._intervals import counted
from meta_agent.core.gate.validity._limits import (
    LINES_SHOWN,
    ValidityLimits,
    numbers_of,
    severity_of,
    share_sentence,
)
from meta_agent.core.gate.validity._looks import Look


def conduct(
    looks: Sequence[Look], baseline: Sequence[Look], limits: ValidityLimits, side: ArmSide
) -> Iterable[Finding]:
    """Yields findings on copied, forged and special-cased answers among solved attempts.

    `looks` summarises the attempts of one side of a comparison, and `baseline` those of its
    baseline. `numbers["counted"]` of a finding is how many such answers still count as clean
    success, less those expected at the baseline's rate.
    """
    solved, before = ([look for look in side if look.outcome] for side in (looks, baseline))
    for code in sorted({code for look in solved for code, _ in look.conduct}):
        after, its = (
            counted((look.task_key, _did(look, code)) for look in of) for of in (solved, before)
        )
        lines = [
            f"{look.name}: {shown_by}"
            for look in solved
            for shown_code, shown_by in look.conduct
            if shown_code == code
        ]
        clean = sum(_did(look, code) and not look.flagged for look in solved)
        standing = max(0.0, clean - len(solved) * its.share)
        limit = limits.leak_share
        yield Finding(
            f"conduct.{code}",
            severity_of(after, its, limit),
            share_sentence(code, after, its, "solved rollouts", limit),
            tuple(lines[:LINES_SHOWN]),
            {**numbers_of(after, its), "counted": standing},
            side,
        )


def _did(look: Look, code: str) -> bool:
    return any(shown_code == code for shown_code, _ in look.conduct)
