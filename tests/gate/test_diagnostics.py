"""A diagnostic is admitted if it foretells clean success within tasks, and more than others do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meta_agent.core.gate import judge_diagnostics
from meta_agent.core.gate.diagnostics import Attempt, still_foretells
from meta_agent.core.protocols import VerdictKind

Draw = np.random.Generator
Value = Callable[[bool, int, Draw], float | None]
SIZE = 8


def attempts(value: Value, *, tasks: int = 30, seed: int = 0, known: Value | None = None) -> list:  # type: ignore[type-arg]
    """Attempts at tasks of unlike difficulty; `value` sees (clean, task, draw)."""
    draw = np.random.default_rng(seed)
    rows = []
    for task in range(tasks):
        for clean in (draw.random(SIZE) < draw.uniform(0.2, 0.8)).tolist():
            others = {} if known is None else {"known": known(clean, task, draw) or 0.0}
            rows.append(Attempt("g", f"t{task}", clean, value(clean, task, draw), others))
    return rows


def hint(clean: bool, _: int, draw: Draw) -> float:
    return float(draw.random() < (0.8 if clean else 0.4))


def noise(_: bool, __: int, draw: Draw) -> float:
    return float(draw.normal())


def judge(value: Value, **more: Value | int) -> VerdictKind:
    seen, held_out = (attempts(value, seed=seed, **more) for seed in (1, 2))  # type: ignore[arg-type]
    return judge_diagnostics(seen, held_out).kind


def test_a_metric_that_foretells_clean_success_is_admitted_with_its_auc() -> None:
    verdict = judge_diagnostics(attempts(hint, seed=1), attempts(hint, seed=2))
    assert verdict.kind is VerdictKind.PROMOTE
    auc = verdict.evidence["numbers"]["auc"]
    assert auc["low"] > 0.5 and auc["estimate"] == pytest.approx(0.7, abs=0.06)


def by_task(_: bool, task: int, draw: Draw) -> float:
    """Foretells clean success between tasks, but not within them."""
    return task + float(draw.normal())


@pytest.mark.parametrize(
    "value", [noise, by_task, lambda c, t, d: -hint(c, t, d), lambda *_: 1.0, lambda *_: None]
)
def test_a_metric_that_foretells_nothing_within_tasks_is_refused(value: Value) -> None:
    assert judge(value) is VerdictKind.REJECT


def test_a_copy_of_a_metric_that_is_there_is_refused() -> None:
    drawn = [attempts(hint, seed=seed) for seed in (1, 2)]
    seen, held_out = (
        [row._replace(others={"known": row.value or 0.0}) for row in rows] for rows in drawn
    )
    verdict = judge_diagnostics(seen, held_out)
    assert verdict.kind is VerdictKind.REJECT
    assert "adds nothing" in verdict.reasons[0]


def test_a_metric_that_adds_to_another_one_is_admitted() -> None:
    assert judge(hint, known=hint) is VerdictKind.PROMOTE


def test_an_author_cannot_fit_what_is_held_out() -> None:
    """What separates the attempts that were seen alone is refused."""
    seen, held_out = attempts(hint, seed=1), attempts(noise, seed=2)
    assert judge_diagnostics(seen, held_out).kind is VerdictKind.REJECT


def test_few_tasks_decide_nothing() -> None:
    assert judge(hint, tasks=4) is VerdictKind.INCONCLUSIVE


@pytest.mark.parametrize(
    ("value", "tasks", "stays"),
    [(hint, 30, True), (noise, 60, False), (noise, 4, None), (lambda *_: 0.0, 30, False)],
)
def test_a_diagnostic_stays_until_it_surely_foretells_nothing(
    value: Value, tasks: int, stays: bool | None
) -> None:
    standing = still_foretells(attempts(value, tasks=tasks))
    assert standing.stays is stays, standing.reason


@pytest.mark.parametrize("draws", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_a_number_that_means_nothing_is_seldom_admitted(draws: int) -> None:
    """The error that `diagnostics.discriminate` leaves outside the error budget of a run."""

    def coin(_: bool, __: int, draw: Draw) -> float:
        return float(draw.random() < 0.3)

    admitted = 0
    for seed in range(draws):
        sides = (attempts(coin, tasks=12, seed=2 * seed + side, known=noise) for side in (0, 1))
        admitted += judge_diagnostics(*sides).kind is VerdictKind.PROMOTE
    assert admitted <= 0.05 * draws
