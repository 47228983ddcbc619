"""The bounds of validity, and the lines of evidence that findings quote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from meta_agent.core.gate._records import OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import Counted, excess
from meta_agent.core.protocols import JSON

LINES_SHOWN = 5
SOME_HITS = 3
"""What anybody's arm may show by chance or by a reader's mistake: fewer bar nothing."""


@dataclass(frozen=True, slots=True)
class ValidityLimits:
    """The bounds a run declares before it looks. Shares are of rollouts unless said otherwise."""

    leak_share: float = 0.05
    """Leaks among solved rollouts, above the baseline's share of them."""
    tamper_share: float = 0.02
    """Tampering among all rollouts that ended, above the baseline's share."""
    infra_share: float = 0.05
    """Above it the evaluation is void; a single lost rollout never voids one."""
    balance_p: float = 0.001
    """Two-sided p below which a difference between arms counts as unbalanced."""
    balance_gap: float = 0.02
    """An imbalance smaller than this is let be, however certain."""
    none_reward_gap: float = 0.05
    """More missing rewards than the baseline has, by this much, is an artefact."""
    truncation_gap: float = 0.10
    divergence_sd: float = 0.20
    """Reward gain, in the baseline's standard deviations, that clean success has to follow."""
    divergence_z: float = 3.0
    inversion_share: float = 0.50
    """Share of (unclean, clean) pairs that the reward may order wrongly: half is a coin."""

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)


DEFAULT_LIMITS = ValidityLimits()


def evidence_lines(rows: Sequence[OutcomeRow]) -> tuple[str, ...]:
    """The first few rows, by training seed, task and sample."""
    ordered = sorted(rows, key=lambda row: (row.training_seed, row.key))[:LINES_SHOWN]
    return tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: "
        f"{', '.join(row.flags) or row.error_kind or row.stop_reason}"
        for row in ordered
    )


def severity_of(after: Counted, before: Counted, limit: float) -> Severity:
    """By how much an arm exceeds its baseline: surely by more than the limit, perhaps, or not.

    Flagged rows count as no clean success whatever this says, so only a tendency is barred.
    """
    if excess(after, before).low > limit:
        return "veto"
    gap = after.share - before.share
    return "unproven" if gap > limit and gap * after.n >= SOME_HITS else "warn"


def share_sentence(code: str, after: Counted, before: Counted, among: str, limit: float) -> str:
    """The sentence of a finding about shares."""
    low, high = excess(after, before)
    beside = f", {before.hits} of {before.n} in the baseline" if before.n else ""
    return (
        f"{code}: {after.hits} of {after.n} {among}{beside} (excess "
        f"{after.share - before.share:+.1%}, 95 % CI {low:+.1%} to {high:+.1%}; limit {limit:.1%})"
    )


def numbers_of(after: Counted, before: Counted) -> dict[str, float]:
    low, high = excess(after, before)
    numbers = {"hits": after.hits, "n": after.n, "low": low, "high": high}
    return (
        {**numbers, "baseline_hits": before.hits, "baseline_n": before.n} if before.n else numbers
    )
