"""Validity by a second, wider look: what rows are too small to show, or too weak to decide alone.

`find_all` reads rows. What stands here needs more: whole records, the grader, the tasks' texts, or
a reader who knows that a length may change for good reasons. All of it is asked at every comparison
(`meta_agent.backtest.inspector`).

* `inspect_seen` reads what `seen_of` kept of the records of one arm, beside a baseline's;
* `inspect_arms` compares rows for gaming that only shows over both arms;
* `explained` names the rollouts behind findings that carry numbers only.

Not covered: deciding. Findings go to the same judge as those of `find_all`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meta_agent.gate._records import Arm, ArmSide, Finding, OutcomeRow, Severity
from meta_agent.gate.numbers._intervals import Counted, counted, excess
from meta_agent.gate.validity._artefacts import unfinished, unheard
from meta_agent.gate.validity._length import length_gaming
from meta_agent.gate.validity._limits import (
    DEFAULT_LIMITS,
    LINES_SHOWN,
    ValidityLimits,
    evidence_lines,
    numbers_of,
    severity_of,
    told,
)
from meta_agent.gate.validity._looks import DRAWN, Graded, Look, Seen, to_regrade
from meta_agent.gate.validity._reward import CEILING_STOPS
from meta_agent.protocols import JSON, Outcome

Regrade = Callable[[str, Mapping[str, JSON]], Outcome | None]
"""The grader again; None where it could not be asked."""
UNREPEATABLE_SHARE = 0.05
"""Of equals that were not treated alike: surely more is a veto."""
ODD_SHARE = 0.01
"""Surely less says little: one flaky test in fifty tasks disturbs both arms alike."""


def inspect_arms(
    baseline: Arm, candidate: Arm, *, limits: ValidityLimits = DEFAULT_LIMITS
) -> tuple[Finding, ...]:
    """Gaming and artefacts that show in the rows of two arms side by side."""
    return (
        *length_gaming(baseline, candidate, limits),
        *unfinished(baseline, candidate, limits),
    )


def inspect_seen(
    seen: Seen,
    *,
    baseline: Seen = Seen(),  # noqa: B008 - frozen
    regrade: Regrade | None = None,
    regrade_at_most: int = DRAWN,
    limits: ValidityLimits = DEFAULT_LIMITS,
    side: ArmSide = "candidate",
) -> tuple[Finding, ...]:
    """Everything that the records of one arm show, beside a baseline's where there is one.

    `regrade` is the domain's own grader, asked for so many attempts of an arm.
    """
    found = [
        *unheard(baseline.looks, seen.looks, limits),
        *_conduct(seen.looks, baseline.looks, limits, side),
        *_two_answers(seen.looks, baseline.looks, side),
        *_unrepeatable(seen.looks, baseline.looks, side),
    ]
    if regrade is not None:
        sides = to_regrade(seen, regrade_at_most), to_regrade(baseline, regrade_at_most)
        found += _disagreeing(*sides, regrade, side)
    return tuple(sorted(found, key=lambda finding: finding.severity != "veto"))


# --- conduct -------------------------------------------------------------------------------------


def _conduct(
    looks: Sequence[Look], baseline: Sequence[Look], limits: ValidityLimits, side: ArmSide
) -> Iterable[Finding]:
    """Copied, forged and special-cased answers, as shares of what the arm solved.

    `counted` are those that stand as clean success all the same, above the baseline's share: a
    promotion has to survive their loss (`judge`).
    """
    solved, before = ([look for look in side if look.outcome] for side in (looks, baseline))
    for code in sorted({code for look in solved for code, _ in look.conduct}):
        after, its = (
            counted((look.task_key, _did(look, code)) for look in of) for of in (solved, before)
        )
        lines = [
            f"{look.name}: {shown_by}"
            for look in solved
            for own, shown_by in look.conduct
            if own == code
        ]
        clean = sum(_did(look, code) and not look.flagged for look in solved)
        standing = max(0.0, clean - len(solved) * its.share)
        limit = limits.leak_share
        yield Finding(
            f"conduct.{code}",
            severity_of(after, its, limit),
            told(code, after, its, "solved rollouts", limit),
            tuple(lines[:LINES_SHOWN]),
            {**numbers_of(after, its), "counted": standing},
            side,
        )


def _did(look: Look, code: str) -> bool:
    return any(own == code for own, _ in look.conduct)


# --- graders and rewards that do not repeat themselves --------------------------------------------


def _two_answers(looks: Sequence[Look], baseline: Sequence[Look], side: ArmSide) -> list[Finding]:
    """The same submission at the same task, graded both ways, in whichever arm."""
    own = [look for look in looks if look.submission]
    before = [look for look in baseline if look.submission]
    return _differing(
        (_Groups([*before, *own], _submission, _outcome), _Groups(before, _submission, _outcome)),
        ("grader.flaky", "submissions that were made twice were graded both ways"),
        side,
    )


def _unrepeatable(looks: Sequence[Look], baseline: Sequence[Look], side: ArmSide) -> list[Finding]:
    """Word for word the same attempt with the same ending, rewarded in two ways."""
    own, before = ([look for look in of if look.attempt] for of in (looks, baseline))
    return _differing(
        (_Groups(own, _attempt, _reward), _Groups(before, _attempt, _reward)),
        ("reward.unrepeatable", "attempts that were made twice were rewarded in two ways"),
        side,
    )


def _submission(look: Look) -> bytes:
    return look.submission


def _attempt(look: Look) -> bytes:
    return look.attempt


def _outcome(look: Look) -> object:
    return look.outcome


def _reward(look: Look) -> object:
    return look.reward


class _Groups:
    """Groups of equals, and which of them were not treated alike."""

    def __init__(
        self,
        looks: Iterable[Look],
        key: Callable[[Look], bytes],
        value: Callable[[Look], object],
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
        """Two of a group that were not treated alike."""
        first, value = group[0], self.value
        other = next(look for look in group if value(look) != value(first))
        return f"{first.name}: {value(first)}; {other.name}: {value(other)}"


def _differing(
    sides: tuple[_Groups, _Groups], says: tuple[str, str], side: ArmSide
) -> list[Finding]:
    """Equals that were not treated alike, in more groups than the baseline by itself shows."""
    groups, (code, words) = sides[0], says
    after, before = (of.counted for of in sides)
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


def _disagreeing(
    stored: Sequence[Graded], baseline: Sequence[Graded], regrade: Regrade, side: ArmSide
) -> list[Finding]:
    """Stored outcomes that the sealed grader does not confirm: forged, or another grader's.

    A grader that does not repeat itself disagrees with either arm.
    """
    checked = _graded_again(stored, regrade)
    odd = sorted((one for one, agrees in checked if not agrees), key=lambda one: one.name)
    if not odd:
        return []
    others = _graded_again(baseline, regrade)
    after, before = (
        counted((one.task_key, not agrees) for one, agrees in of) for of in (checked, others)
    )
    sure = excess(after, before).low > ODD_SHARE or not before.hits
    severity: Severity = "veto" if sure else "unproven"
    message = f"{len(odd)} of {len(checked)} stored outcomes are not what the grader says again"
    if before.hits:
        message += f" ({before.hits} of {before.n} in the baseline)"
    lines = tuple(f"{one.name}: stored {one.outcome}" for one in odd)
    return [Finding("grader.disagrees", severity, message, lines, numbers_of(after, before), side)]


def _graded_again(stored: Sequence[Graded], regrade: Regrade) -> list[tuple[Graded, bool]]:
    """Each that could be graded again, and whether the grader says the same."""
    again = [(one, regrade(one.task_key, one.inputs)) for one in stored]
    return [(one, said.success == one.outcome) for one, said in again if said is not None]


# --- naming the rollouts -------------------------------------------------------------------------


def explained(findings: Iterable[Finding], baseline: Arm, candidate: Arm) -> tuple[Finding, ...]:
    """The findings, each with the rollouts it rests on where it had numbers only."""
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
    told = "clean" if row.clean else ", ".join(row.flags) or "not solved"
    place = f"{row.task_key} sample {row.sample_idx} seed {row.training_seed}"
    return f"{place}: {told}, reward {row.reward:.3f}, {row.turns} turns, {row.stop_reason}"
