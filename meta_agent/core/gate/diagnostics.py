"""The rule for diagnostics: does a metric foretell clean success, and more than the metrics there?

A diagnostic is a metric that a candidate adds. It does not change clean success, so clean success
cannot judge it. Its value on single attempts is compared between attempts at the same task: the AUC
is the chance that a clean attempt has a better value than another one. The unit of every interval
is the task. A diagnostic is admitted if, on held-out attempts, the AUC is surely above 0.5, and if
the other metrics together foretell surely better with it than without it.

Not covered: whether the attempts are held out, and whether their values can contain the grade. The
caller promises both (`core/loop/diagnostics`). Values are weighed linearly, so a metric that helps
only in combination with another one is refused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meta_agent.core.gate.numbers.ranks import auc_of
from meta_agent.core.gate.numbers.statistics import t_quantile
from meta_agent.core.protocols import JSON, Verdict, VerdictKind

ALPHA: Final = 0.05
"""The error of each of the two tests of an admission, divided by the metrics judged so far."""
MIN_TASKS: Final = 6
"""Tasks with clean and other attempts below which nothing is decided."""
WORTHWHILE: Final = 0.55
"""An admitted diagnostic is retired if its AUC is surely below this."""
_RIDGE: Final = 0.01  # of the number of attempts

Vector = NDArray[np.float64]


class Attempt(NamedTuple):
    """An attempt as a diagnostic sees it. Attempts of one `group` are compared with each other."""

    group: str
    task: str
    clean: bool
    value: float | None
    """The diagnostic's value, turned so that more is better; None if it measured none."""
    others: Mapping[str, float]
    """The other metrics of the attempt, by name."""


class Foretold(NamedTuple):
    """How well a value foretells clean success: an AUC or a gain in AUC, with its interval."""

    estimate: float
    low: float
    high: float
    tasks: int


def judge_diagnostics(
    readable: Sequence[Attempt], held_out: Sequence[Attempt], *, alpha: float = ALPHA
) -> Verdict:
    """Judges a diagnostic: a metric that shall foretell clean success.

    The weights of the metrics are fitted on `readable`. Both tests are made on `held_out` alone,
    each at the one-sided level `alpha`. Returns PROMOTE, REJECT with reasons, or INCONCLUSIVE if
    too few held-out tasks have clean and other attempts.
    """
    inputs: JSON = {"readable": len(readable), "held_out": len(held_out), "alpha": alpha}
    auc = foretells(held_out, _filled(held_out), alpha)
    if auc is None:
        reason = f"fewer than {MIN_TASKS} held-out tasks have clean and other attempts"
        return _verdict(VerdictKind.INCONCLUSIVE, (reason,), inputs, {})
    before, after = (_scores(readable, held_out, added=added) for added in (False, True))
    adds = _gain(held_out, before, after, alpha)
    numbers: JSON = {"auc": auc._asdict(), "adds": adds._asdict()}
    lacks = []
    if auc.low <= 0.5:
        lacks.append(f"it does not foretell clean success: {in_words(auc)}")
    if adds.low <= 0:
        gain = f"{adds.estimate:+.3f} [{adds.low:+.3f}, {adds.high:+.3f}]"
        lacks.append(f"it adds nothing to the metrics that are there: AUC {gain}")
    if lacks:
        return _verdict(VerdictKind.REJECT, tuple(lacks), inputs, numbers)
    reason = f"it foretells clean success within tasks: {in_words(auc)}, {adds.estimate:+.3f} more"
    return _verdict(VerdictKind.PROMOTE, (f"{reason} than without it",), inputs, numbers)


def foretells(attempts: Sequence[Attempt], values: Vector, alpha: float) -> Foretold | None:
    """Returns the AUC of `values` (one per attempt) within tasks, or None with too few tasks.

    The interval has the one-sided level `alpha` on either side.
    """
    shares = list(_by_task(attempts, values).values())
    return _interval(shares, alpha) if len(shares) >= MIN_TASKS else None


class Standing(NamedTuple):
    """Whether an admitted diagnostic still foretells clean success; None if that is open."""

    stays: bool | None
    reason: str
    auc: Foretold | None = None


def still_foretells(attempts: Sequence[Attempt]) -> Standing:
    """Returns whether an admitted diagnostic foretells clean success of later attempts.

    It falls if its AUC is surely, at the level `ALPHA`, below `WORTHWHILE`.
    """
    auc = foretells(attempts, _filled(attempts), ALPHA)
    if auc is None:
        return Standing(None, f"fewer than {MIN_TASKS} tasks with clean and other attempts since")
    stays = auc.high >= WORTHWHILE
    reason = f"{in_words(auc)} on attempts since"
    return Standing(stays, reason if stays else f"{reason}, surely below {WORTHWHILE}", auc)


def in_words(auc: Foretold) -> str:
    """Returns an AUC with its interval and number of tasks as text."""
    return f"AUC {auc.estimate:.2f} [{auc.low:.2f}, {auc.high:.2f}] on {auc.tasks} tasks"


# --- numbers --------------------------------------------------------------------------------------


def _by_task(attempts: Sequence[Attempt], values: Vector) -> dict[str, float]:
    """Returns the mean AUC of each task's groups that have clean and other attempts."""
    groups: dict[tuple[str, str], tuple[list[float], list[float]]]
    groups = defaultdict(lambda: ([], []))
    for attempt, value in zip(attempts, values, strict=True):
        groups[attempt.task, attempt.group][not attempt.clean].append(float(value))
    shares = defaultdict[str, list[float]](list)
    for (task, _), (clean, other) in groups.items():
        if clean and other:
            shares[task].append(auc_of(clean, other).share)
    return {task: fmean(several) for task, several in sorted(shares.items())}


def _interval(values: Sequence[float], alpha: float) -> Foretold:
    error = stdev(values) / math.sqrt(len(values))
    reach = t_quantile(len(values) - 1, alpha) * error
    mean = fmean(values)
    return Foretold(mean, mean - reach, mean + reach, len(values))


def _gain(held_out: Sequence[Attempt], before: Vector, after: Vector, alpha: float) -> Foretold:
    pairs = zip(*(_by_task(held_out, scores).values() for scores in (before, after)), strict=True)
    return _interval([new - old for old, new in pairs], alpha)


def _filled(attempts: Sequence[Attempt]) -> Vector:
    """Returns the diagnostic's values; an attempt without one gets their mean."""
    values = np.array([math.nan if a.value is None else a.value for a in attempts], float)
    missing = np.isnan(values)
    values[missing] = values[~missing].mean() if not missing.all() else 0.0
    return values


def _scores(readable: Sequence[Attempt], held_out: Sequence[Attempt], *, added: bool) -> Vector:
    """Returns what metrics, weighted as fits `readable`, say of each held-out attempt.

    The weights are those of a ridge regression of clean success within groups. With `added` the
    diagnostic is one of the metrics.
    """
    names = sorted({name for attempt in readable for name in attempt.others})
    ours, theirs = (_columns(attempts, names, added=added) for attempts in (readable, held_out))
    clean = np.array([[float(attempt.clean)] for attempt in readable])
    within = _within(readable, np.hstack([ours, clean]))
    x, y = within[:, :-1], within[:, -1]
    spread = x.std(axis=0)
    scale = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0)
    x = x * scale
    weights = np.linalg.solve(x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y)
    # A last digit of rounding must not order attempts that are alike.
    scores: Vector = np.round(theirs @ (scale * weights), 9)
    return scores


def _columns(attempts: Sequence[Attempt], names: Sequence[str], *, added: bool) -> Vector:
    rows = [[attempt.others.get(name, math.nan) for name in names] for attempt in attempts]
    table = np.array(rows, float).reshape(len(attempts), len(names))
    means = [np.nanmean(column) if not np.isnan(column).all() else 0.0 for column in table.T]
    table = np.where(np.isnan(table), np.array(means, float), table)
    return np.column_stack([table, _filled(attempts)]) if added else table


def _within(attempts: Sequence[Attempt], table: Vector) -> Vector:
    """Returns the table less the mean of each group."""
    groups = defaultdict[tuple[str, str], list[int]](list)
    for at, attempt in enumerate(attempts):
        groups[attempt.task, attempt.group].append(at)
    table = table.copy()
    for rows in groups.values():
        table[rows] -= table[rows].mean(axis=0)
    return table


def _verdict(kind: VerdictKind, reasons: tuple[str, ...], inputs: JSON, numbers: JSON) -> Verdict:
    evidence = {"judge": "diagnostics", "inputs": inputs, "numbers": numbers}
    return Verdict(kind, reasons, None, evidence=evidence)
