"""Detects rewards that are no numbers, or that put attempts in the wrong order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from meta_agent.core.gate._records import Finding, OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import counted
from meta_agent.core.gate.numbers.ranks import auc_of
from meta_agent.core.gate.validity._shares import (
    LINES_SHOWN,
    SURE_Z,
    Context,
    Side,
    evidence_lines,
    known_rows,
    name_of,
    severity_of,
)

MISSING_GAP = 0.05
"""The rise in the share of missing rewards, over the baseline's, that is reported."""
INVERTED_SHARE = 0.50
"""The share of (unclean, clean) pairs that the reward may order wrongly; 0.5 is random."""
MIN_SIDE = 10
"""The least number of clean, and of unclean, attempts whose order over all tasks is judged."""
MIN_MIXED = 7
"""The least number of tasks with both outcomes for which the order within tasks is judged."""


def not_finite(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a veto if a side has NaN or infinite rewards; a warning if its baseline has, too."""
    rows, hits = _no_numbers(after)
    if hits:
        name = after.arm.name
        message = f"{len(hits)} of {rows} rewards of {name} are not finite numbers"
        ordered = sorted(hits, key=lambda row: (row.training_seed, row.key))[:LINES_SHOWN]
        lines = tuple(f"{name_of(row)}: reward {row.reward}" for row in ordered)
        inherited = before is not None and _no_numbers(before)[1]
        severity: Severity = "warn" if inherited else "veto"
        numbers = {"hits": len(hits), "n": rows}
        yield Finding("artefact.not_finite", severity, message, lines, numbers)


def _no_numbers(side: Side) -> tuple[int, list[OutcomeRow]]:
    """Returns how many rows have a reward, and those of them whose reward is no number."""
    rows = [(row, row.reward) for row in side.arm.rows() if row.reward is not None]
    return len(rows), [row for row, reward in rows if not math.isfinite(reward)]


def missing(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a finding if more of the candidate's attempts lack a reward than the baseline's."""
    # Code of the harness that raised leaves nothing to score: a failure, not a missing number.
    old, new = (
        [row for row in known_rows(side) if row.error_kind is None] for side in (before, after)
    )
    was, now = (counted((row.task_key, row.reward is None) for row in rows) for rows in (old, new))
    jump = now.share - was.share
    # An arm that was never scored has no rewards to lose.
    if jump > MISSING_GAP and was.hits < was.n:
        severity = severity_of(now, was, MISSING_GAP)
        message = f"rewards missing in {now.hits}/{now.n} rollouts, {was.hits}/{was.n} before"
        lines = evidence_lines([row for row in new if row.reward is None])
        yield Finding("artefact.none_reward", severity, message, lines, {"jump": jump})


def inverted(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a finding if the reward prefers unclean attempts, failed or flagged, within tasks.

    If no task has both outcomes, rewards are compared over all tasks. It is a warning if the
    baseline's reward is as bad, or is the same code.
    """
    if before is None:
        return
    now, was = _order(after), _order(before)
    if now is None or now.share - SURE_Z * now.error <= INVERTED_SHARE:
        return
    message = (
        f"the reward puts an unclean rollout above a clean one in {now.share:.0%} of pairs "
        f"({now.among})"
    )
    veto = True
    if was is not None:
        message += f", the version's in {was.share:.0%}"
        same = before.arm.reward_hash and before.arm.reward_hash == after.arm.reward_hash
        worse = now.share - was.share > SURE_Z * math.hypot(now.error, was.error)
        veto = not same and (worse or was.share <= INVERTED_SHARE)
    numbers = {"share": now.share, "se": now.error}
    lines = _best_paid(after)
    yield Finding("divergence.inverted", "veto" if veto else "warn", message, lines, numbers)


def _best_paid(side: Side) -> tuple[str, ...]:
    """Returns a line for each of the unclean attempts with the highest rewards."""
    rows = [
        (-row.reward, row) for row in known_rows(side) if row.reward is not None and not row.clean
    ]
    rows.sort(key=lambda paid: (paid[0], paid[1].training_seed, paid[1].key))
    return tuple(
        f"{name_of(row)}: {', '.join(row.flags) or 'not solved'}, reward {-less:.3f}, "
        f"{row.turns} turns, {row.stop_reason}"
        for less, row in rows[:LINES_SHOWN]
    )


class _Order(NamedTuple):
    """How often the reward of an unclean rollout was above that of a clean one."""

    share: float
    error: float
    among: str


def _order(side: Side) -> _Order | None:
    """Returns how the reward orders clean and unclean attempts, or None if there are too few."""
    everywhere: tuple[list[float], list[float]] = [], []  # rewards, unclean and clean
    by_task: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in known_rows(side):
        if row.reward is not None and math.isfinite(row.reward):
            everywhere[bool(row.clean)].append(row.reward)
            by_task[row.task_key][bool(row.clean)].append(row.reward)
    mixed = [sides for sides in by_task.values() if all(sides)]
    if len(mixed) >= MIN_MIXED:
        return _within(mixed)
    if mixed or min(map(len, everywhere)) < MIN_SIDE:
        return None
    return _Order(*auc_of(*everywhere), "over all tasks, none was tried with both endings")


def _within(mixed: Sequence[tuple[list[float], list[float]]]) -> _Order:
    """Returns the order within tasks, each by its own pairs. Tasks are the units of the error.

    The error is never below that of one task in the other order, since perfect order shows none.
    """
    shares = [auc_of(*sides).share for sides in mixed]
    weights = [1 / (1 / len(above) + 1 / len(below)) for above, below in mixed]
    total = math.fsum(weights)
    share = math.fsum(map(math.prod, zip(weights, shares, strict=True))) / total
    apart = math.fsum((w * (s - share)) ** 2 for w, s in zip(weights, shares, strict=True))
    error = math.sqrt(apart * len(mixed) / (len(mixed) - 1)) / total
    return _Order(share, max(error, 1 / len(mixed)), f"within {len(mixed)} tasks")
