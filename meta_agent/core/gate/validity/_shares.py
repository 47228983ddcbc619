"""What checks share: the sides that they compare, shares beside a baseline's, lines of evidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import Counted, excess
from meta_agent.core.gate.validity._looks import Look, Regraded

LEAK_SHARE: Final = 0.05
"""The share of leaks among solved rollouts that is tolerated above the baseline's."""
BALANCE_P: Final = 0.001
"""The two-sided p below which a difference between arms counts as unbalanced."""
SURE_Z: Final = 3.0
"""How many standard errors a reward's order of attempts must be from what is tolerated."""
LINES_SHOWN: Final = 5
_SOME_HITS: Final = 3
"""Fewer hits than this prevent nothing: chance or a reader's mistake may explain them."""

Labels = Mapping[str, Mapping[str, str]]
"""Labels by task key. The labels of one task are such as {"level": "5", "subject": "geometry"}."""


class Side(NamedTuple):
    """One side of a comparison: its outcome rows, and what is kept of its records."""

    arm: Arm
    looks: Sequence[Look] = ()
    """The summaries of the records, one per rollout."""
    regraded: Sequence[Regraded] = ()
    """The stored attempts that were graded again, and whether the grader confirmed them."""


@dataclass(frozen=True, slots=True)
class Context:
    """What checks need beside the two sides."""

    train_hashes: Collection[str] = ()
    """The content hashes of the training tasks."""
    overlap: Sequence[Finding] = ()
    """Findings of `near_overlap` about the tasks' texts."""
    labels: Labels = field(default_factory=dict)
    """Labels of tasks, such as their repository, to find groups that lose."""


Run = Callable[[Side | None, Side, Context], Iterable[Finding]]
"""A check of the second side, beside the first, which is its baseline, if there is one."""


def known_rows(side: Side | None) -> list[OutcomeRow]:
    """Returns the rows of a side that have an outcome; [] without a side."""
    return [row for row in side.arm.rows() if row.success is not None] if side else []


def name_of(row: OutcomeRow) -> str:
    """Returns the name of an attempt in findings: its task, sample and seed."""
    return f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}"


def evidence_lines(rows: Sequence[OutcomeRow]) -> tuple[str, ...]:
    """Returns a line for each of the first five attempts by seed and task: flags or stop reason."""
    ordered = sorted(rows, key=lambda row: (row.training_seed, row.key))[:LINES_SHOWN]
    return tuple(
        f"{name_of(row)}: {', '.join(row.flags) or row.error_kind or row.stop_reason}"
        for row in ordered
    )


def severity_of(after: Counted, before: Counted, limit: float) -> Severity:
    """Returns the severity of a finding that compares the share `after` with the baseline's.

    It is "veto" if the excess is surely above `limit`, "unproven" if likely above it, else "warn".
    """
    if excess(after, before).low > limit:
        return "veto"
    gap = after.share - before.share
    return "unproven" if gap > limit and gap * after.n >= _SOME_HITS else "warn"


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
    numbers: dict[str, float] = {"hits": after.hits, "n": after.n, "low": low, "high": high}
    if before.n:
        numbers |= {"baseline_hits": before.hits, "baseline_n": before.n}
    return numbers
