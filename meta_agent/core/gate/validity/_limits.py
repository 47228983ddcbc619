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
    """The share of lost rollouts above which a comparison is void. One lost rollout is allowed."""
    balance_p: float = 0.001
    """The two-sided p below which a difference between arms counts as unbalanced."""
    balance_gap: float = 0.02
    """An imbalance smaller than this share is ignored, however certain it is."""
    none_reward_gap: float = 0.05
    """The rise in the share of missing rewards, over the baseline's, that is reported."""
    truncation_gap: float = 0.10
    """The change in the share of attempts cut by a limit, over the baseline's, that is reported."""
    divergence_sd: float = 0.20
    """The rise in reward, in the baseline's standard deviations, that clean success must follow."""
    divergence_z: float = 3.0
    inversion_share: float = 0.50
    """The share of (unclean, clean) pairs that the reward may order wrongly; 0.5 is random."""

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)


DEFAULT_LIMITS = ValidityLimits()


def evidence_lines(rows: Sequence[OutcomeRow]) -> tuple[str, ...]:
    """Returns a line for each of the first five attempts by seed and task: flags or stop reason."""
    ordered = sorted(rows, key=lambda row: (row.training_seed, row.key))[:LINES_SHOWN]
    return tuple(
        f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}: "
        f"{', '.join(row.flags) or row.error_kind or row.stop_reason}"
        for row in ordered
    )


def severity_of(after: Counted, before: Counted, limit: float) -> Severity:
    """Returns the severity of a finding that compares the share `after` with the baseline's.

    It is "veto" if the excess is surely above `limit`, "unproven" if likely above it, else "warn".
    """
    if excess(after, before).low > limit:
        return "veto"
    gap = after.share - before.share
    return "unproven" if gap > limit and gap * after.n >= SOME_HITS else "warn"


def share_sentence(code: str, after: Counted, before: Counted, among: str, limit: float) -> str:
    """Returns the message of a finding that compares the share `after` with the baseline's.

    `code` begins the message. `among` names what was counted, such as "solved rollouts".
    """
    low, high = excess(after, before)
    beside = f", {before.hits} of {before.n} in the baseline" if before.n else ""
    return (
        f"{code}: {after.hits} of {after.n} {among}{beside} (excess "
        f"{after.share - before.share:+.1%}, 95 % CI {low:+.1%} to {high:+.1%}; limit {limit:.1%})"
    )


def numbers_of(after: Counted, before: Counted) -> dict[str, float]:
    """Returns the counts of hits and attempts of both sides, and the excess's 95 % interval."""
    low, high = excess(after, before)
    numbers = {"hits": after.hits, "n": after.n, "low": low, "high": high}
    return (
        {**numbers, "baseline_hits": before.hits, "baseline_n": before.n} if before.n else numbers
    )
