"""Detects bad measurement: different graders or plans, lost rollouts, tasks trained on, a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import counted, excess, two_proportion_p
from meta_agent.core.gate.validity._shares import (
    BALANCE_P,
    LINES_SHOWN,
    Context,
    Side,
    evidence_lines,
    known_rows,
)

INFRA_SHARE = 0.05
"""The share of lost rollouts above which a comparison is void. One lost rollout is allowed."""
BALANCE_GAP = 0.02
"""An imbalance smaller than this share is ignored, however certain it is."""
WALL = "wall_limit"


def comparable(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a veto if the sides were measured by different graders."""
    old, new = (
        sorted({row.evaluator_hash for row in side.arm.rows()}) if side else []
        for side in (before, after)
    )
    if before and (old != new or len(old) != 1):
        lines = (f"baseline {old}", f"candidate {new}")
        message = "incomparable: measured under different evaluators"
        yield Finding("incomparable.evaluator", "veto", message, lines, {}, "both")


def same_plan(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a veto if the sides differ in tasks, samples or training seeds."""
    if before is None:
        return
    plans = [
        {(seed, row.key, row.task_hash) for seed, rows in side.arm.seeds.items() for row in rows}
        for side in (before, after)
    ]
    if odd := sorted(plans[0] ^ plans[1]):
        message = f"incomparable: {len(odd)} (seed, task, sample) rows are in one arm only"
        lines = tuple(f"seed {seed} {key[0]} sample {key[1]}" for seed, key, _ in odd[:LINES_SHOWN])
        yield Finding("incomparable.plan", "veto", message, lines, {"n": len(odd)}, "both")


def void(_: Side | None, after: Side, __: Context) -> Iterator[Finding]:
    """Yields a veto if too many rollouts of a side have no outcome."""
    lost, total = _unknown(after.arm)
    if len(lost) > max(1, INFRA_SHARE * total):
        message = (
            f"{len(lost)} of {total} rollouts of {after.arm.name} have no outcome "
            f"({len(lost) / total:.1%}; limit {INFRA_SHARE:.1%}): evaluation void"
        )
        numbers = {"hits": len(lost), "n": total}
        # A void baseline leaves nothing to compare with, so it vetoes the comparison too.
        yield Finding("infra.void", "veto", message, evidence_lines(lost), numbers, "both")


def unbalanced(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a veto if one side lost more outcomes than the other beyond chance."""
    if before is None:
        return
    (lost, total), (new, planned) = _unknown(before.arm), _unknown(after.arm)
    p = two_proportion_p(len(lost), total, len(new), planned)
    gap = abs(len(new) / max(1, planned) - len(lost) / max(1, total))
    if p < BALANCE_P and gap >= BALANCE_GAP:
        message = (
            f"outcomes missing in {len(lost)}/{total} baseline and {len(new)}/{planned} candidate "
            f"rollouts (p={p:.2g})"
        )
        lines = evidence_lines(new or lost)
        yield Finding("infra.unbalanced", "veto", message, lines, {"p": p, "gap": gap}, "both")


def _unknown(arm: Arm) -> tuple[list[OutcomeRow], int]:
    """Returns the rows without an outcome, and the number of all rows."""
    rows = list(arm.rows())
    return [row for row in rows if row.success is None], len(rows)


def denominator(_: Side | None, after: Side, __: Context) -> Iterator[Finding]:
    """Yields a veto if a training seed lacks a planned rollout or has one twice."""
    arm, lines = after.arm, []
    for seed in sorted(arm.seeds):
        keys = Counter(row.key for row in arm.seeds[seed])
        twice = keys.total() - len(keys)
        if twice or len(keys) != arm.planned:
            lines.append(f"seed {seed}: planned {arm.planned}, present {len(keys)}, twice {twice}")
    if not arm.seeds:
        lines.append("no training seed at all")
    if lines:
        message = f"the denominator of {arm.name} is not what was planned"
        yield Finding("denominator.mismatch", "veto", message, tuple(lines), {}, "both")


def trained_on(_: Side | None, after: Side, context: Context) -> Iterator[Finding]:
    """Yields a veto if a task of the arm has the content hash of a training task."""
    shared = sorted({row.task_hash for row in after.arm.rows()} & set(context.train_hashes))
    if shared:
        message = f"{len(shared)} evaluation tasks have the content of training tasks"
        lines, numbers = tuple(shared[:LINES_SHOWN]), {"n": len(shared)}
        yield Finding("overlap.train_eval", "veto", message, lines, numbers, "both")


def one_sided_cuts(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a finding if the time limit ended the baseline's attempts more often.

    The finding is `unproven`, or a warning if the candidate stays better when the baseline's
    attempts that were cut count as solved.
    """
    old, new = known_rows(before), known_rows(after)
    was, now = (counted((r.task_key, r.stop_reason == WALL) for r in rows) for rows in (old, new))
    if not new or excess(was, now).low <= 0:
        return
    best = sum(row.stop_reason == WALL or bool(row.clean) for row in old) / len(old)
    better = sum(bool(row.clean) for row in new) / len(new) > best
    severity: Severity = "warn" if better else "unproven"
    message = (
        f"attempts ended by the clock: {was.hits}/{was.n} of the baseline, "
        f"{now.hits}/{now.n} of the candidate"
    )
    lines = evidence_lines([row for row in old if row.stop_reason == WALL])
    numbers = {"baseline": was.share, "candidate": now.share, "best": best}
    yield Finding("artefact.clock", severity, message, lines, numbers, "both")
