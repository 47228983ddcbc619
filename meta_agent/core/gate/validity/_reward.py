"""Detects rewards, or endings of rollouts, that changed although the behaviour did not."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from meta_agent.core.gate._records import Arm, Finding, OutcomeRow, Severity
from meta_agent.core.gate.numbers._intervals import counted, excess, two_proportion_p
from meta_agent.core.gate.validity._limits import ValidityLimits, evidence_lines, severity_of

MIN_SIDE = 10
"""The least number of clean, and of unclean, attempts whose order over all tasks is judged."""
MIN_MIXED = 7
"""The least number of tasks with both outcomes for which the order within tasks is judged."""
WALL = "wall_limit"
CEILING_STOPS = frozenset({"length", "token_limit", "turn_limit", WALL})


def artefacts(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns findings on missing rewards and on attempts cut by a limit, compared by side.

    A finding is made if the candidate lacks more rewards, or if the shares of cut attempts differ.
    """
    findings = []
    before, after = _ended(baseline), _ended(candidate)
    # Code of the harness that raised leaves nothing to score: a failure, not a missing number.
    before, after = ([row for row in rows if row.error_kind is None] for rows in (before, after))
    missing = [
        counted((row.task_key, row.reward is None) for row in rows) for rows in (before, after)
    ]
    jump = missing[1].share - missing[0].share
    # An arm that was never scored has no rewards to lose.
    if jump > limits.none_reward_gap and missing[0].hits < missing[0].n:
        shares = f"{missing[1].hits}/{len(after)} rollouts, {missing[0].hits}/{len(before)} before"
        severity = severity_of(missing[1], missing[0], limits.none_reward_gap)
        message = f"rewards missing in {shares}"
        findings.append(Finding("artefact.none_reward", severity, message, (), {"jump": jump}))
    return findings + _truncation_jump(before, after, limits)


def _ended(arm: Arm) -> list[OutcomeRow]:
    return [row for row in arm.rows() if row.success is not None]


def _truncation_jump(
    before: Sequence[OutcomeRow], after: Sequence[OutcomeRow], limits: ValidityLimits
) -> list[Finding]:
    cut = [sum(row.stop_reason in CEILING_STOPS for row in rows) for rows in (before, after)]
    jump = share_of(cut[1], len(after)) - share_of(cut[0], len(before))
    p = two_proportion_p(cut[0], len(before), cut[1], len(after))
    if abs(jump) <= limits.truncation_gap or p >= limits.balance_p:
        return []
    # Only a warning: a rollout that hits a ceiling counts as what it is in both arms. What the
    # clock cuts is another matter (`one_sided_cuts`).
    message = (
        f"rollouts ended by a ceiling: {cut[0]}/{len(before)} before, {cut[1]}/{len(after)} after"
    )
    return [Finding("artefact.truncation", "warn", message, (), {"jump": jump, "p": p}, "both")]


def one_sided_cuts(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns a finding if the time limit ended the baseline's attempts more often, else [].

    The finding is `unproven`, or a warning if the candidate stays better when the baseline's
    attempts that were cut count as solved.
    """
    before, after = _ended(baseline), _ended(candidate)
    cut = [counted((r.task_key, r.stop_reason == WALL) for r in rows) for rows in (before, after)]
    if excess(cut[0], cut[1]).low <= 0:
        return []
    best = sum(row.stop_reason == WALL or bool(row.clean) for row in before) / len(before)
    severity: Severity = "warn" if clean_share(after) > best else "unproven"
    message = (
        f"attempts ended by the clock: {cut[0].hits}/{cut[0].n} of the baseline, "
        f"{cut[1].hits}/{cut[1].n} of the candidate"
    )
    lines = evidence_lines([row for row in before if row.stop_reason == WALL])
    numbers = {"baseline": cut[0].share, "candidate": cut[1].share, "best": best}
    return [Finding("artefact.clock", severity, message, lines, numbers, "both")]


def divergence(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns findings on a reward that rose without clean success or prefers unclean attempts.

    An attempt is unclean if it failed or its conduct was flagged.
    """
    findings = []
    if _same_reward(baseline, candidate):
        findings += _reward_without_success(baseline, candidate, limits)
    return findings + _inverted(baseline, candidate, limits)


def _reward_without_success(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Reports a reward that rose without clean success; a veto if success surely fell."""
    before, after = scored(baseline), scored(candidate)
    if min(len(before), len(after)) < 2:
        return []
    (mean_a, var_a), (mean_b, var_b) = _moments(before), _moments(after)
    error = math.sqrt(var_a / len(before) + var_b / len(after))
    gain = mean_b - mean_a
    success = clean_share(after) - clean_share(before)
    certain = error > 0 and gain / error > limits.divergence_z
    if not certain or gain <= limits.divergence_sd * math.sqrt(var_a) or success > 0:
        return []
    message = f"reward {mean_a:.3f} -> {mean_b:.3f} while clean success moved {success:+.1%}"
    # Success that is flagged is judged as conduct: the reward followed it.
    followed = _solved_share(after) > _solved_share(before)
    severity: Severity = "veto" if fell(before, after) and not followed else "warn"
    numbers = {"gain": gain, "clean": success}
    return [Finding("divergence.reward_up", severity, message, (), numbers)]


def fell(before: Sequence[OutcomeRow], after: Sequence[OutcomeRow]) -> bool:
    """Returns True if clean success surely fell: the 95 % interval of its change is below zero."""
    sides = [counted((row.task_key, bool(row.clean)) for row in rows) for rows in (before, after)]
    return excess(sides[1], sides[0]).high < 0


def scored(arm: Arm) -> list[OutcomeRow]:
    """Returns an arm's rows that have both an outcome and a finite reward."""
    return [row for row in _ended(arm) if row.reward is not None and math.isfinite(row.reward)]


def _rewards(rows: Sequence[OutcomeRow]) -> list[float]:
    return [row.reward for row in rows if row.reward is not None]


def _moments(rows: Sequence[OutcomeRow]) -> tuple[float, float]:
    values = _rewards(rows)
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)


def clean_share(rows: Sequence[OutcomeRow]) -> float:
    """Returns the share of attempts that were solved cleanly. `rows` must not be empty."""
    return sum(bool(row.clean) for row in rows) / len(rows)


def _solved_share(rows: Sequence[OutcomeRow]) -> float:
    return sum(bool(row.success) for row in rows) / len(rows)


def _inverted(baseline: Arm, candidate: Arm, limits: ValidityLimits) -> list[Finding]:
    """Returns a finding if the reward prefers unclean attempts within tasks; else [].

    If no task has both outcomes, rewards are compared over all tasks.
    """
    now, was = _order(candidate), _order(baseline)
    if now is None or now.low(limits) <= limits.inversion_share:
        return []
    message = (
        f"the reward puts an unclean rollout above a clean one in {now.share:.0%} of pairs "
        f"({now.among})"
    )
    is_its_own = was is None or not _same_reward(baseline, candidate)
    worse = was is None or now.above(was, limits)
    severity: Severity = "veto" if is_its_own and worse else "warn"
    if was is not None:
        message += f", the version's in {was.share:.0%}"
    numbers = {"share": now.share, "se": now.error}
    return [Finding("divergence.inverted", severity, message, (), numbers)]


def _same_reward(baseline: Arm, candidate: Arm) -> bool:
    return bool(baseline.reward_hash) and baseline.reward_hash == candidate.reward_hash


class _Order(NamedTuple):
    """How often the reward of an unclean rollout was above that of a clean one."""

    share: float
    error: float
    among: str

    def low(self, limits: ValidityLimits) -> float:
        return self.share - limits.divergence_z * self.error

    def above(self, other: _Order, limits: ValidityLimits) -> bool:
        """Returns True if `share` surely exceeds the other's, or the other's is within limits."""
        error = limits.divergence_z * math.hypot(self.error, other.error)
        right = other.share <= limits.inversion_share
        return right or self.share - other.share > error


def _order(arm: Arm) -> _Order | None:
    """Returns how the reward orders clean and unclean attempts, or None if there are too few."""
    rows = scored(arm)
    tasks: dict[str, list[OutcomeRow]] = defaultdict(list)
    for row in rows:
        tasks[row.task_key].append(row)
    mixed = [sides for sides in map(_sides, tasks.values()) if all(sides)]
    if len(mixed) >= MIN_MIXED:
        return _within(mixed)
    if mixed:
        return None
    unclean, clean = _sides(rows)
    if min(len(clean), len(unclean)) < MIN_SIDE:
        return None
    among = "over all tasks, none was tried with both endings"
    return _Order(mann_whitney_share(unclean, clean), share_error(unclean, clean), among)


def _sides(rows: Sequence[OutcomeRow]) -> tuple[list[float], list[float]]:
    """Returns the rewards of unclean and those of clean rows."""
    return _rewards([r for r in rows if not r.clean]), _rewards([r for r in rows if r.clean])


def _within(mixed: Sequence[tuple[list[float], list[float]]]) -> _Order:
    """Returns the order within tasks, each by its own pairs. Tasks are the units of the error.

    The error is never below that of one task in the other order, since perfect order shows none.
    """
    shares = [mann_whitney_share(*sides) for sides in mixed]
    weights = [1 / (1 / len(above) + 1 / len(below)) for above, below in mixed]
    total = math.fsum(weights)
    share = math.fsum(map(math.prod, zip(weights, shares, strict=True))) / total
    apart = math.fsum((w * (s - share)) ** 2 for w, s in zip(weights, shares, strict=True))
    error = math.sqrt(apart * len(mixed) / max(1, len(mixed) - 1)) / total
    return _Order(share, max(error, 1 / len(mixed)), f"within {len(mixed)} tasks")


def mann_whitney_share(above: Sequence[float], below: Sequence[float]) -> float:
    """Returns the AUC, P(x > y) + P(x = y) / 2, for x in `above` and y in `below` (not empty)."""
    ordered = sorted(below)
    doubled = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in above)
    return doubled / (2 * len(above) * len(below))


def share_error(above: Sequence[float], below: Sequence[float]) -> float:
    """Returns the standard error of `mann_whitney_share`, after DeLong et al. (1988).

    It is at least 1 / (number of pairs), since perfectly ordered samples show no error.
    """
    ups = [_placement(value, sorted_) for sorted_ in [sorted(below)] for value in above]
    downs = [_placement(value, sorted_) for sorted_ in [sorted(above)] for value in below]
    variance = _spread(ups) / len(ups) + _spread(downs) / len(downs)
    return max(math.sqrt(variance), 1 / (len(above) * len(below)))


def _placement(value: float, ordered: Sequence[float]) -> float:
    """Returns the share of an ordered sample that lies below `value`. Ties count half."""
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / (2 * len(ordered))


def _spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)


def constant_offset(baseline: Arm, candidate: Arm) -> list[Finding]:
    """Returns a warning if rewards differ from the baseline's by about one constant, else []."""
    shifts = []
    for is_clean in (True, False):
        sides = [
            [r for r in scored(arm) if bool(r.clean) is is_clean] for arm in (baseline, candidate)
        ]
        if min(len(side) for side in sides) < 10:
            return []
        shifts.append(_moments(sides[1])[0] - _moments(sides[0])[0])
    scale = math.sqrt(_moments(scored(baseline))[1])
    if min(map(abs, shifts)) < 0.05 + 0.1 * scale or abs(shifts[0] - shifts[1]) > 0.1 * abs(
        shifts[0]
    ):
        return []
    message = f"every rollout's reward moved by about {shifts[0]:+.3f}, whatever its outcome"
    return [Finding("reward.constant_offset", "warn", message, (), {"offset": shifts[0]})]


def share_of(hits: int, total: int) -> float:
    """Returns `hits` / `total`, or 0 if `total` is 0."""
    return hits / total if total else 0.0
