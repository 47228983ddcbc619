"""Detects graders and rewards that treat equal attempts differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from meta_agent.core.gate._records import Finding, Severity
from meta_agent.core.gate.numbers._intervals import Counted, counted, excess
from meta_agent.core.gate.validity._looks import Look
from meta_agent.core.gate.validity._shares import LINES_SHOWN, Context, Side, numbers_of

UNREPEATABLE_SHARE = 0.05
"""A share of differently treated groups of equal attempts that is surely above this is a veto."""
ODD_SHARE = 0.01
"""A share that is not surely above this only gives a warning.

One flaky test in fifty tasks disturbs both arms alike.
"""
Value = Callable[[Look], object]


def two_answers(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a finding if equal submissions to one task were graded differently."""
    was, now = _graded(before), _graded(after)
    words = "submissions that were made twice were graded both ways"
    groups = _repeated([*was, *now], lambda look: look.submission)
    yield from _differing(
        "grader.flaky",
        words,
        groups,
        _repeated(was, lambda look: look.submission),
        lambda look: look.outcome,
    )


def _graded(side: Side | None) -> list[Look]:
    return [look for look in side.looks if look.submission] if side else []


def unrepeatable(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a finding if attempts with equal records got different rewards."""
    was, now = (
        _repeated(
            [look for look in side.looks if look.attempt] if side else [], lambda look: look.attempt
        )
        for side in (before, after)
    )
    words = "attempts that were made twice were rewarded in two ways"
    yield from _differing("reward.unrepeatable", words, now, was, lambda look: look.reward)


Groups = list[list[Look]]


def _repeated(looks: Sequence[Look], key: Callable[[Look], bytes]) -> Groups:
    """Returns the groups of equal attempts, without those that were made once."""
    groups: dict[bytes, list[Look]] = defaultdict(list)
    for look in looks:
        groups[key(look)].append(look)
    return [group for group in groups.values() if len(group) > 1]


def _differing(
    code: str, words: str, groups: Groups, baseline: Groups, value: Value
) -> Iterator[Finding]:
    """Yields groups of equal attempts that were treated differently, if the baseline has fewer."""

    def differs(group: list[Look]) -> bool:
        return len(set(map(value, group))) > 1

    after, before = (
        counted((group[0].task_key, differs(group)) for group in of) for of in (groups, baseline)
    )
    if not after.hits:
        return
    low = excess(after, before).low
    few: Severity = "unproven" if low > ODD_SHARE else "warn"
    severity: Severity = "veto" if low > UNREPEATABLE_SHARE else few
    message = f"{after.hits} of {after.n} {words}" + _in_baseline(before)
    lines = []
    for first, *others in list(filter(differs, groups))[:LINES_SHOWN]:
        other = next(look for look in others if value(look) != value(first))
        lines.append(f"{first.name}: {value(first)}; {other.name}: {value(other)}")
    yield Finding(code, severity, message, tuple(lines), numbers_of(after, before))


def disagreeing(before: Side | None, after: Side, _: Context) -> Iterator[Finding]:
    """Yields a veto if stored outcomes are not what the grader says again.

    The veto becomes `unproven` if as many of the baseline differ: the grader is not repeatable.
    """
    was, now = (
        counted(
            (attempt.task_key, not attempt.confirmed) for attempt in (side.regraded if side else ())
        )
        for side in (before, after)
    )
    if not now.hits:
        return
    sure = excess(now, was).low > ODD_SHARE or not was.hits
    message = f"{now.hits} of {now.n} stored outcomes are not what the grader says again"
    odd = sorted(attempt for attempt in after.regraded if not attempt.confirmed)
    yield Finding(
        "grader.disagrees",
        "veto" if sure else "unproven",
        message + (_in_baseline(was) if was.hits else ""),
        tuple(f"{attempt.name}: stored {attempt.outcome}" for attempt in odd),
        numbers_of(now, was),
    )


def _in_baseline(before: Counted) -> str:
    return f" ({before.hits} of {before.n} in the baseline)" if before.n else ""
