"""The limits of the validity checks, and the lines of evidence that findings quote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from meta_agent.core.gate._records import OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import Counted, excess
from meta_agent.core.protocols import JSON

LINES_SHOWN = 5
SOME_HITS = 3
"""Fewer hits than this prevent nothing: chance or a reader's mistake may explain them."""


@dataclass(frozen=True, slots=True)
class ValidityLimits:
    """The thresholds of the validity checks, declared before any result. Shares are of attempts."""

    leak_share: float = 0.05
    """The share of leaks among solved rollouts that is tolerated above the baseline's."""
    tamper_share: float = 0.02
    """The share of tampering among all ended rollouts that is tolerated above the baseline's."""
    infra_share: float = 0.05
    """The share of lost rollouts above which a comparison is void. One lost rollout never voids
    it.
    """
    balance_p: float = 0.001
    """The two-sided p below which a difference between arms counts as unbalanced."""
    balance_gap: float = 0.02
    """An imbalance smaller than this share is ignored, however certain it is."""
    none_reward_gap: float = 0.05
    """The rise in the share of missing rewards, over the baseline's, that is reported."""
    truncation_gap: float = 0.10
    divergence_sd: float = 0.20
    """The gain in reward that clean success has to follow, in the baseline's standard
    deviations.
    """
    divergence_z: float = 3.0
    inversion_share: float = 0.50
    """The share of (unclean, clean) pairs that the reward may order wrongly.

    A random order has 0.5.
    """

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)


DEFAULT_LIMITS = ValidityLimits()


def evidence_lines(rows: Sequence[OutcomeRow]) -> tuple[str, ...]:
    """Returns a line on each of the first few attempts: its flags, or how it ended.

    Attempts are sorted by training seed, task and sample.
    """
    ordered = sorted(rows, key=lambda row: (row.training_seed, row.key))[:LINES_SHOWN]
    return tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: "
        f"{', '.join(row.flags) or row.error_kind or row.stop_reason}"
        for row in ordered
    )


def severity_of(after: Counted, before: Counted, limit: float) -> Severity:
    """Returns the severity of a finding that compares a share (`after`) with the baseline's.

    An excess surely above `limit` is a veto, one that is likely above it bars a promotion, and any
    other gives a warning.
    """
    if excess(after, before).low > limit:
        return "veto"
    gap = after.share - before.share
    return "unproven" if gap > limit and gap * after.n >= SOME_HITS else "warn"


def share_sentence(code: str, after: Counted, before: Counted, among: str, limit: float) -> str:
    """Returns the message of a finding that compares a share with the baseline and a limit.

    `among` names what was counted, such as "solved rollouts".
    """
    low, high = excess(after, before)
    beside = f", {before.hits} of {before.n} in the baseline" if before.n else ""
    return (
        f"{code}: {after.hits} of {after.n} {among}{beside} (excess "
        f"{after.share - before.share:+.1%}, 95 % CI {low:+.1%} to {high:+.1%}; limit {limit:.1%})"
    )


def numbers_of(after: Counted, before: Counted) -> dict[str, float]:
    """Returns the counts of hits and attempts, and the 95 % interval of the excess, by name."""
    low, high = excess(after, before)
    numbers = {"hits": after.hits, "n": after.n, "low": low, "high": high}
    return (
        {**numbers, "baseline_hits": before.hits, "baseline_n": before.n} if before.n else numbers
    )
