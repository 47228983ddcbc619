"""Detects bad measurement: lost rollouts, wrong denominators, different graders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from meta_agent.core.gate._records import Arm, ArmSide, Finding, OutcomeRow
from meta_agent.core.gate.numbers._intervals import two_proportion_p
from meta_agent.core.gate.validity._limits import LINES_SHOWN, ValidityLimits, evidence_lines
from meta_agent.core.gate.validity._reward import share_of


def _unknown(arm: Arm) -> list[OutcomeRow]:
    return [row for row in arm.rows() if row.success is None]


def void_infra(arm: Arm, limits: ValidityLimits, side: ArmSide = "candidate") -> list[Finding]:
    """Returns a veto if too many rollouts of one side of a comparison have no outcome, else []."""
    lost, total = _unknown(arm), sum(1 for _ in arm.rows())
    if len(lost) <= max(1, limits.infra_share * total):
        return []
    message = (
        f"{len(lost)} of {total} rollouts of {arm.name} have no outcome "
        f"({len(lost) / total:.1%}; limit {limits.infra_share:.1%}): evaluation void"
    )
    numbers = {"hits": len(lost), "n": total}
    # A void baseline leaves nothing to compare with, so it vetoes the comparison too.
    blamed: ArmSide = "both" if side == "baseline" else side
    return [Finding("infra.void", "veto", message, evidence_lines(lost), numbers, blamed)]


def unbalanced_infra(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns a veto if one side lost more outcomes than the other beyond chance, else []."""
    lost, n = _counts(baseline), _counts(candidate)
    p = two_proportion_p(lost[0], lost[1], n[0], n[1])
    gap = abs(share_of(*n) - share_of(*lost))
    if p >= limits.balance_p or gap < limits.balance_gap:
        return []
    message = (
        f"outcomes missing in {lost[0]}/{lost[1]} baseline and {n[0]}/{n[1]} candidate rollouts "
        f"(p={p:.2g})"
    )
    lines = evidence_lines(_unknown(candidate) or _unknown(baseline))
    return [Finding("infra.unbalanced", "veto", message, lines, {"p": p, "gap": gap}, "both")]


def _counts(arm: Arm) -> tuple[int, int]:
    return len(_unknown(arm)), sum(1 for _ in arm.rows())


def denominator(arm: Arm) -> list[Finding]:
    """Returns a veto if a training seed lacks a planned rollout or has one twice, else []."""
    lines = []
    for seed in sorted(arm.seeds):
        keys = Counter(row.key for row in arm.seeds[seed])
        twice = sum(count - 1 for count in keys.values())
        if twice or len(keys) != arm.planned:
            lines.append(f"seed {seed}: planned {arm.planned}, present {len(keys)}, twice {twice}")
    if not arm.seeds:
        lines.append("no training seed at all")
    message = f"the denominator of {arm.name} is not what was planned"
    finding = Finding("denominator.mismatch", "veto", message, tuple(lines), {}, "both")
    return [finding] if lines else []


def overlap(arm: Arm, train_hashes: Collection[str]) -> list[Finding]:
    """Returns a veto if a task of the arm has the content hash of a training task, else []."""
    trained = frozenset(train_hashes)
    shared = sorted({row.task_hash for row in arm.rows()} & trained)
    if not shared:
        return []
    message = f"{len(shared)} evaluation tasks have the content of training tasks"
    lines = tuple(shared[:LINES_SHOWN])
    return [Finding("overlap.train_eval", "veto", message, lines, {"n": len(shared)}, "both")]


def comparable(baseline: Arm, candidate: Arm) -> list[Finding]:
    """Returns vetoes if the sides differ in grader, tasks or training seeds, else []."""
    findings = []
    hashes = [sorted({row.evaluator_hash for row in arm.rows()}) for arm in (baseline, candidate)]
    if hashes[0] != hashes[1] or len(hashes[0]) != 1:
        lines = (f"baseline {hashes[0]}", f"candidate {hashes[1]}")
        message = "incomparable: measured under different evaluators"
        findings.append(Finding("incomparable.evaluator", "veto", message, lines, {}, "both"))
    return findings + _different_plans(baseline, candidate)


def _different_plans(baseline: Arm, candidate: Arm) -> list[Finding]:
    plans = [
        {(seed, row.key, row.task_hash) for seed, rows in arm.seeds.items() for row in rows}
        for arm in (baseline, candidate)
    ]
    odd = sorted(plans[0] ^ plans[1])
    if not odd:
        return []
    message = f"incomparable: {len(odd)} (seed, task, sample) rows are in one arm only"
    lines = tuple(f"seed {seed} {key[0]} sample {key[1]}" for seed, key, _ in odd[:LINES_SHOWN])
    return [Finding("incomparable.plan", "veto", message, lines, {"n": len(odd)}, "both")]
