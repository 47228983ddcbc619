"""Validity checks that need more than the outcome rows of `find_all`.

They read whole records, call the grader, read the tasks' texts, or report signs that may also have
good reasons. All of them run at every comparison (`meta_agent.core.lab.inspector`).

* `inspect_seen` checks the summaries of one arm's records (`seen_of`), beside a baseline's;
* `inspect_arms` compares rows for gaming that only shows over both arms;
* `explained` names the rollouts behind findings that carry numbers only.

Not covered: deciding. The judge receives these findings together with those of `find_all`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from meta_agent.core.gate._records import Arm, ArmSide, Finding, OutcomeRow
from meta_agent.core.gate.validity._limits import (
    DEFAULT_LIMITS,
    LINES_SHOWN,
    ValidityLimits,
    evidence_lines,
)
from meta_agent.core.gate.validity._looks import DRAWN, Seen
from meta_agent.core.gate.validity._repeats import Regrade
from meta_agent.core.gate.validity._reward import CEILING_STOPS
from meta_agent.core.gate.validity.detectors import DETECTORS, RecordsInput


def inspect_arms(
    baseline: Arm, candidate: Arm, *, limits: ValidityLimits = DEFAULT_LIMITS
) -> tuple[Finding, ...]:
    """Returns findings on gaming and broken formats that show when both sides are compared."""
    looks = [detector.wider for detector in DETECTORS if detector.wider]
    return tuple(finding for look in looks for finding in look(baseline, candidate, limits))


def inspect_seen(
    records: Seen,
    *,
    baseline: Seen = Seen(),  # noqa: B008 - frozen
    regrade: Regrade | None = None,
    regrade_at_most: int = DRAWN,
    limits: ValidityLimits = DEFAULT_LIMITS,
    side: ArmSide = "candidate",
) -> tuple[Finding, ...]:
    """Returns the findings on the rollout records of one side of a comparison, vetoes first.

    `records` and `baseline` are summaries (`seen_of`) of this side and of the baseline. `regrade`
    grades an attempt again, for up to `regrade_at_most` attempts of each.
    """
    looked = RecordsInput(records, baseline, limits, side, regrade, regrade_at_most)
    looks = [detector.in_looks for detector in DETECTORS if detector.in_looks]
    findings = [finding for look in looks for finding in look(looked)]
    return tuple(sorted(findings, key=lambda finding: finding.severity != "veto"))


# --- naming the rollouts -------------------------------------------------------------------------


def explained(findings: Iterable[Finding], candidate: Arm) -> tuple[Finding, ...]:
    """Returns the findings; one without evidence lines gets lines that name rollouts at fault."""
    return tuple(f if f.lines else replace(f, lines=_behind(f, candidate)) for f in findings)


def _behind(finding: Finding, candidate: Arm) -> tuple[str, ...]:
    rows = [row for row in candidate.rows() if row.success is not None]
    if finding.code == "artefact.none_reward":
        return evidence_lines([r for r in rows if r.reward is None and r.error_kind is None])
    if finding.code == "artefact.truncation":
        return evidence_lines([row for row in rows if row.stop_reason in CEILING_STOPS])
    unclean = [row for row in rows if row.reward is not None and not row.clean]
    scored = unclean if finding.code.startswith("divergence.") else [r for r in rows if r.reward]
    best = sorted(scored, key=lambda row: (-(row.reward or 0.0), row.training_seed, row.key))
    return tuple(map(_rewarded, best[:LINES_SHOWN]))


def _rewarded(row: OutcomeRow) -> str:
    outcome = "clean" if row.clean else ", ".join(row.flags) or "not solved"
    place = f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}"
    return f"{place}: {outcome}, reward {row.reward:.3f}, {row.turns} turns, {row.stop_reason}"
