"""Detects graders and rewards that treat equal attempts differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from meta_agent.core.gate._records import ArmSide, Finding, Severity
from meta_agent.core.gate.numbers._intervals import Counted, counted, excess
from meta_agent.core.gate.validity._limits import LINES_SHOWN, numbers_of
from meta_agent.core.gate.validity._looks import Graded, Look
from meta_agent.core.ledger.waiting import moved, waiting
from meta_agent.core.protocols import JSON, Outcome

_REGRADE_SEC = 1800.0
"""A grading of a real repository on a busy machine takes less."""
Regrade = Callable[[str, Mapping[str, JSON]], Outcome | None]
"""Grades a stored attempt again, given its task key and inputs. Returns None if it cannot."""
UNREPEATABLE_SHARE = 0.05
"""A share of differently treated groups of equal attempts that is surely above this is a veto."""
ODD_SHARE = 0.01
"""A share that is not surely above this only gives a warning.

One flaky test in fifty tasks disturbs both arms alike.
"""


def two_answers(looks: Sequence[Look], baseline: Sequence[Look], side: ArmSide) -> list[Finding]:
    """Returns a finding if equal submissions to one task were graded differently, else [].

    `looks` summarises the attempts of one side of a comparison, `baseline` those of its baseline.
    """
    graded, before = ([look for look in of if look.submission] for of in (looks, baseline))
    sides = (
        _Groups(of, lambda look: look.submission, lambda look: look.outcome)
        for of in ([*before, *graded], before)
    )
    words = "submissions that were made twice were graded both ways"
    return _differing(side, "grader.flaky", words, *sides)


def unrepeatable(looks: Sequence[Look], baseline: Sequence[Look], side: ArmSide) -> list[Finding]:
    """Returns a finding if attempts with equal records got different rewards, else []."""
    sides = (
        _Groups(
            (look for look in of if look.attempt),
            lambda look: look.attempt,
            lambda look: look.reward,
        )
        for of in (looks, baseline)
    )
    words = "attempts that were made twice were rewarded in two ways"
    return _differing(side, "reward.unrepeatable", words, *sides)


class _Groups:
    """Groups of equal attempts, and which of the groups were treated differently."""

    def __init__(
        self, looks: Iterable[Look], key: Callable[[Look], bytes], value: Callable[[Look], object]
    ) -> None:
        groups: dict[bytes, list[Look]] = defaultdict(list)
        for look in looks:
            groups[key(look)].append(look)
        self.value = value
        self.repeated = [group for group in groups.values() if len(group) > 1]
        self.odd = [group for group in self.repeated if self._differs(group)]

    def _differs(self, group: Sequence[Look]) -> bool:
        return len({self.value(look) for look in group}) > 1

    @property
    def counted(self) -> Counted:
        return counted((group[0].task_key, self._differs(group)) for group in self.repeated)

    def line(self, group: Sequence[Look]) -> str:
        """Returns a line of text that names two attempts of a group and their different values."""
        first, value = group[0], self.value
        other = next(look for look in group if value(look) != value(first))
        return f"{first.name}: {value(first)}; {other.name}: {value(other)}"


def _differing(
    side: ArmSide, code: str, words: str, groups: _Groups, baseline: _Groups
) -> list[Finding]:
    """Reports groups of equal attempts that were treated differently, if the baseline has fewer."""
    after, before = groups.counted, baseline.counted
    if not after.hits:
        return []
    low = excess(after, before).low
    few: Severity = "unproven" if low > ODD_SHARE else "warn"
    severity: Severity = "veto" if low > UNREPEATABLE_SHARE else few
    message = f"{after.hits} of {after.n} {words}"
    if before.n:
        message += f" ({before.hits} of {before.n} in the baseline)"
    lines = tuple(map(groups.line, groups.odd[:LINES_SHOWN]))
    return [Finding(code, severity, message, lines, numbers_of(after, before), side)]


def disagreeing(
    stored: Sequence[Graded], baseline: Sequence[Graded], regrade: Regrade, side: ArmSide
) -> list[Finding]:
    """Grades stored attempts again. Returns a veto if outcomes now differ, or [] if none does.

    The veto becomes `unproven` if as many of the baseline differ: the grader is not repeatable.
    """
    checked = _graded_again(stored, regrade)
    odd = sorted(
        (attempt for attempt, agrees in checked if not agrees), key=lambda attempt: attempt.name
    )
    if not odd:
        return []
    others = _graded_again(baseline, regrade)
    after, before = (
        counted((attempt.task_key, not agrees) for attempt, agrees in of)
        for of in (checked, others)
    )
    sure = excess(after, before).low > ODD_SHARE or not before.hits
    severity: Severity = "veto" if sure else "unproven"
    message = f"{len(odd)} of {len(checked)} stored outcomes are not what the grader says again"
    if before.hits:
        message += f" ({before.hits} of {before.n} in the baseline)"
    lines = tuple(f"{attempt.name}: stored {attempt.outcome}" for attempt in odd)
    return [Finding("grader.disagrees", severity, message, lines, numbers_of(after, before), side)]


def _graded_again(stored: Sequence[Graded], regrade: Regrade) -> list[tuple[Graded, bool]]:
    """Returns each attempt that could be graded again, and whether the outcome is the same."""
    pairs: list[tuple[Graded, bool]] = []
    with waiting(
        "grader",
        f"{len(stored)} stored attempts that are graded again",
        limit_sec=_REGRADE_SEC,
        advice="A comparison counts if the grader says again what it said. Nothing is lost if the "
        "run is stopped here.",
    ):
        for number, attempt in enumerate(stored, 1):
            outcome = regrade(attempt.task_key, attempt.inputs)
            if outcome is not None:
                pairs.append((attempt, outcome.success == attempt.outcome))
            moved(f"{number} of {len(stored)} graded again")
    return pairs
