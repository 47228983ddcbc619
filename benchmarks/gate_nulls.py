"""What breaks a gate though nothing is better: candidates that collapse, tasks that hang together.

One claim at the whole alpha, judged by the gate's own rule (`judge.kind_of_pairs`) after each pair
of training runs from the third to the eighth, or once on a frozen policy's tasks. Each null has a
true mean effect of exactly 0; the rows below them say what the same rule still finds. "Without" is
the same rule without the condition in question.

    python benchmarks/gate_nulls.py [--runs 1000] [--seed 0]

Not covered: nulls of stored training runs and of ten candidates a run (`gate.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meta_agent.gate import Course, ErrorBudget, wilson
from meta_agent.gate.judge import kind_of_pairs
from meta_agent.gate.numbers.statistics import Pairs, one_a_content
from meta_agent.protocols import VerdictKind

Matrix = NDArray[np.float64]
Draw = np.random.Generator
BUDGET = ErrorBudget(0.05)
TRAINED = Course("training_pairs", 8, 0.05)
LEVEL, SPREAD, TASKS = 0.5, 0.025, 128
"""Of the baseline; between the differences of training seeds; of the confirm split."""


class Claim(NamedTuple):
    """A sequence of looks at one candidate."""

    looks: tuple[Pairs, ...]
    course: Course | None
    clusters: dict[str, str] | None = None


def promoted(claim: Claim) -> bool:
    for at, pairs in enumerate(claim.looks):
        kind, goes_on = kind_of_pairs(
            pairs,
            factor="recipe" if claim.course else "scaffold",
            budget=BUDGET,
            look=0,
            final_look=at == len(claim.looks) - 1,
            course=claim.course,
            clusters=claim.clusters,
        )
        if not goes_on:
            break
    return kind is VerdictKind.PROMOTE


# --- trained -------------------------------------------------------------------------------------


def trained(gain: float, *, rate: float = 0.0, loss: float = 0.45) -> Callable[[Draw], Claim]:
    """Seeds gain `gain`, or with chance `rate` lose `loss`."""

    def claim(draw: Draw) -> Claim:
        lost = draw.random(8) < rate
        shares = np.where(lost, -loss, gain) + draw.normal(0.0, SPREAD, 8)
        cells = shares[:, None] + draw.normal(0.0, 0.5, (8, TASKS))
        cells -= (cells.mean(axis=1) - shares)[:, None]
        looks = (Pairs(cells[:n], cells[:n].size, 0, 1, level=LEVEL) for n in range(3, 9))
        return Claim(tuple(looks), TRAINED)

    return claim


# --- frozen --------------------------------------------------------------------------------------


def frozen(
    gain: float = 0.0, *, groups: int = 0, apart: float = 0.0, copies: int = 1
) -> Callable[[Draw], Claim]:
    """Tasks in `groups`, whose effects lie `apart`; each task stands there `copies` times."""

    def claim(draw: Draw) -> Claim:
        own = TASKS // copies
        of = np.arange(own) % (groups or own)
        moved = gain + (draw.normal(0.0, apart, groups)[of] if groups else 0.0)
        rates = draw.uniform(0.2, 0.8, own)
        row = np.repeat(_difference(draw, rates, moved), copies)
        names = [f"{at:04d}" for at in draw.permutation(TASKS)]
        looks = (_looked(row, names, copies),)
        labels = dict(zip(names, np.repeat(of, copies).astype(str), strict=True))
        return Claim(looks, None, labels if groups else None)

    return claim


def _difference(draw: Draw, rates: Matrix, moved: Matrix | float) -> Matrix:
    """One attempt on either side; what hangs on the task is shared by its copies."""
    after = draw.random(rates.size) < np.clip(rates + moved, 0.0, 1.0)
    return after.astype(float) - (draw.random(rates.size) < rates)


def _looked(row: Matrix, names: list[str], copies: int) -> Pairs:
    shown = sorted(range(TASKS), key=names.__getitem__)
    cells = row[shown][None, :]
    pairs = Pairs(cells, TASKS, 0, 1, tasks=tuple(names[at] for at in shown), level=LEVEL)
    return one_a_content(pairs, {names[at]: str(at // copies) for at in range(TASKS)})


# --- the table -----------------------------------------------------------------------------------

CASES: dict[str, Callable[[Draw], Claim]] = {
    "null: seeds as normal": trained(0.0),
    "null: one seed in ten loses 45, the others +5": trained(0.05, rate=0.1),
    "null: one seed in ten loses 30, the others +3.3": trained(0.3 / 9, rate=0.1, loss=0.3),
    "null: one seed in twenty loses 45, the others +2.4": trained(0.45 / 19, rate=0.05),
    "beyond what is declared: one seed in five, the others +11.25": trained(0.1125, rate=0.2),
    "a gain of 5 points, trained": trained(0.05),
    "a gain of 10 points, trained": trained(0.10),
    "a gain of 15 points, trained": trained(0.15),
    "a gain of 25 points, trained": trained(0.25),
    "null: independent tasks": frozen(),
    "null: eight repositories 20 points apart": frozen(groups=8, apart=0.2),
    "null: thirty files 20 points apart": frozen(groups=30, apart=0.2),
    "null: each task there four times": frozen(copies=4),
    "a gain of 20 points, independent tasks": frozen(0.2),
    "a gain of 20 points, eight repositories alike": frozen(0.2, groups=8),
    "a gain of 20 points, eight repositories 10 points apart": frozen(0.2, groups=8, apart=0.1),
}


def without(claim: Claim) -> Claim:
    """As the gate judged before: seeds taken as normal, tasks as independent."""
    course = replace(claim.course, collapse=0.0) if claim.course else None
    return claim._replace(course=course, clusters=None)


def shares(name: str, runs: int, seed: int) -> tuple[int, int]:
    """Promotions with the conditions and without, on the same draws."""
    found = [0, 0]
    for at in range(runs):
        claim = CASES[name](np.random.default_rng([seed, at]))
        found[0] += promoted(claim)
        found[1] += promoted(without(claim))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"share of {args.runs} claims that are promoted, alpha 5 %\n")
    for name in CASES:
        hits, before = shares(name, args.runs, args.seed)
        low, high = wilson(hits, args.runs)
        told = f"{hits / args.runs:6.1%} [{low:.1%}, {high:.1%}]"
        print(f"  {name:<62} {told:<24} without {before / args.runs:6.1%}", flush=True)


if __name__ == "__main__":
    main()
