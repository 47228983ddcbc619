"""What breaks a gate though nothing is better: `python benchmarks/gate.py --tables 3`.

Candidates that collapse, tasks that hang together, a model that changes behind its server, many
runs in one workspace. A claim is judged by the gate's own rule (`judge.kind_of_pairs`) after each
pair of training runs from the third to the eighth, or once on a frozen policy's tasks. Each null
has a true mean effect of exactly 0; the rows below them say what the same rule still finds.
"Without" is the same without the condition in question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meta_agent.core.gate import MIN_TRAINING_SEEDS, Course, Terms, judge_diagnostics, wilson
from meta_agent.core.gate.diagnostics import Attempt
from meta_agent.core.gate.judge import _Case, kind_of_pairs
from meta_agent.core.gate.numbers.statistics import Pairs, merge_equal_tasks
from meta_agent.core.loop.plan import ALPHA
from meta_agent.core.loop.spending import share_of
from meta_agent.core.protocols import VerdictKind

Matrix = NDArray[np.float64]
Draw = np.random.Generator
TRAINED = Course(8, 0.05)
LEVEL, SPREAD, TASKS = 0.5, 0.025, 128
"""Of the baseline; between the differences of training seeds; of the confirm split."""


class Claim(NamedTuple):
    """A sequence of looks at one candidate."""

    looks: tuple[Pairs, ...]
    course: Course | None
    clusters: dict[str, str] | None = None
    alpha: float = ALPHA

    @property
    def without(self) -> Claim:
        """As the gate judged before: seeds taken as normal, tasks as independent."""
        course = replace(self.course, collapse=0.0) if self.course else None
        return self._replace(course=course, clusters=None)


def promoted(claim: Claim) -> bool:
    for at, pairs in enumerate(claim.looks):
        terms = Terms(
            claim.alpha,
            min_seeds=MIN_TRAINING_SEEDS if claim.course else 1,
            final=at == len(claim.looks) - 1,
            course=claim.course,
            clusters=claim.clusters,
            ties="" if claim.course else "bench",
        )
        kind, goes_on = kind_of_pairs(pairs, terms)
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


def spread_out(shares: Callable[[Draw], Matrix], level: float) -> Callable[[Draw], Claim]:
    """Seeds differ as `shares` draws them, from a baseline of `level`."""

    def claim(draw: Draw) -> Claim:
        drawn = shares(draw)
        cells = drawn[:, None] + draw.normal(0.0, 0.2, (8, TASKS))
        cells -= (cells.mean(axis=1) - drawn)[:, None]
        looks = (Pairs(cells[:n], cells[:n].size, 0, 1, level=level) for n in range(3, 9))
        return Claim(tuple(looks), TRAINED)

    return claim


def left_skewed(draw: Draw) -> Matrix:
    """Mean 0: most seeds gain up to 9 points, few lose up to 31."""
    return 0.4 * draw.beta(2.0, 0.6, 8) - 0.4 * 2.0 / 2.6


def right_skewed(draw: Draw) -> Matrix:
    """Mean 0: most seeds lose up to 10 points, few gain much."""
    return 0.1 * (draw.exponential(1.0, 8) - 1.0)


def often_a_little_worse(draw: Draw) -> Matrix:
    """Mean 0: three seeds in ten lose 15 points, the others gain 6.4."""
    lost = draw.random(8) < 0.3
    return np.where(lost, -0.15, 0.045 / 0.7) + draw.normal(0.0, 0.02, 8)


def heavy_tailed(draw: Draw) -> Matrix:
    return np.maximum(-0.3, 0.05 * draw.standard_t(3, 8))


def sometimes(small: float) -> Callable[[Draw], Matrix]:
    """Four seeds in five gain 66 points, the fifth `small`."""

    def shares(draw: Draw) -> Matrix:
        return np.where(draw.random(8) < 0.2, small, 0.66) + draw.normal(0.0, 0.03, 8)

    return shares


def uneven(draw: Draw) -> Matrix:
    """All seeds are better, by 30 points on average and by very different amounts."""
    return np.minimum(0.9, 0.3 * np.exp(draw.normal(-0.5, 1.0, 8)))


def wide(gain: float, spread: float) -> Callable[[Draw], Matrix]:
    return lambda draw: gain + draw.normal(0.0, spread, 8)


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
    return merge_equal_tasks(pairs, {names[at]: str(at // copies) for at in range(TASKS)})


# --- a model that changes, and many runs ---------------------------------------------------------

Judged = Callable[[Draw], tuple[bool, bool]]
"""Whether a null is promoted, with the condition in question and without it."""


def judged(make: Callable[[Draw], Claim]) -> Judged:
    def both(draw: Draw) -> tuple[bool, bool]:
        claim = make(draw)
        return promoted(claim), promoted(claim.without)

    return both


def drifting(by: float, samples: int = 2) -> Judged:
    """Behind an API all tasks become easier: at any moment of the exam, or between its sides."""

    def both(draw: Draw) -> tuple[bool, bool]:
        rates, moment = draw.uniform(0.2, 0.8, TASKS), draw.random()
        later = np.arange(samples * TASKS).reshape(samples, TASKS) >= moment * samples * TASKS
        sides = (_attempts(draw, rates + by * later) for _ in range(2))
        before, after = sides
        turns = _once(after - before)
        earlier, since = (_attempts(draw, rates + moved + 0.0 * later) for moved in (0.0, by))
        return promoted(turns), promoted(_once(since - earlier))

    return both


def _attempts(draw: Draw, rates: Matrix) -> Matrix:
    return (draw.random(rates.shape) < rates).astype(float)


def _once(moved: Matrix) -> Claim:
    """One look at [sample, task] differences."""
    names = tuple(f"{at:04d}" for at in range(moved.shape[1]))
    cells = moved.mean(axis=0, keepdims=True)
    return Claim((Pairs(cells, moved.size, 0, len(moved), tasks=names, level=LEVEL),), None)


def exam(tasks: int, gain: float, samples: int = 2) -> Callable[[Draw], Claim]:
    """One look at so many tasks, every one of them that much easier."""

    def claim(draw: Draw) -> Claim:
        rates = np.broadcast_to(draw.uniform(0.1, 0.7, tasks), (samples, tasks))
        return _once(_attempts(draw, rates + gain) - _attempts(draw, rates))

    return claim


def runs_in_one_workspace(count: int) -> Judged:
    """One claim a run, each of a null: any of them promoted; without, at the whole error each."""

    def both(draw: Draw) -> tuple[bool, bool]:
        found = [False, False]
        for at in range(count):
            claim = frozen()(draw)
            found[1] = found[1] or promoted(claim)
            found[0] = found[0] or promoted(claim._replace(alpha=ALPHA * share_of(at)))
        return found[0], found[1]

    return both


def ended_until_it_looks_good(count: int) -> Judged:
    """An author ends every claim that does not look good before it is recorded, and resumes.

    The work that is resumed is drawn as it was; without that it is drawn anew.
    """

    def both(draw: Draw) -> tuple[bool, bool]:
        claims = [frozen()(draw) for _ in range(count)]
        return promoted(claims[0]), any(map(promoted, claims))

    return both


def best_of_numbers(count: int, tasks: int = 60, size: int = 8) -> Judged:
    """So many meaningless numbers on attempts at as many tasks, a third of the tasks held out."""

    def both(draw: Draw) -> tuple[bool, bool]:
        found, clean = [False, False], draw.random((tasks, size)) < 0.4
        for at in range(count):
            values, known = draw.normal(size=(2, tasks, size)) > 0.5
            attempts = [
                Attempt("", str(task), bool(c), float(v), {"known": float(k)})
                for task in range(tasks)
                for c, v, k in zip(clean[task], values[task], known[task], strict=True)
            ]
            kept = size * (tasks - tasks // 3)
            for place, alpha in enumerate((ALPHA / (1 + at), ALPHA)):
                verdict = judge_diagnostics(attempts[:kept], attempts[kept:], alpha=alpha)
                found[place] = found[place] or verdict.kind is VerdictKind.PROMOTE
        return found[0], found[1]

    return both


# --- the table -----------------------------------------------------------------------------------

UNEVEN: dict[str, Callable[[Draw], Claim]] = {
    "null: skewed to the left, level 30": spread_out(left_skewed, 0.3),
    "null: skewed to the right, level 10": spread_out(right_skewed, 0.1),
    "null: three seeds in ten lose 15 of 50, the others +6.4": spread_out(
        often_a_little_worse, 0.5
    ),
    "null: heavy tails": spread_out(heavy_tailed, 0.3),
    "a gain of 15 points, spread 5": spread_out(wide(0.15, 0.05), 0.5),
    "a gain of 30 points, spread 20, level 10": spread_out(wide(0.3, 0.2), 0.1),
    "a gain of 66 points, of one seed in five 6": spread_out(sometimes(0.06), 0.06),
    "a gain of 66 points, of one seed in five -6": spread_out(sometimes(-0.06), 0.06),
    "a gain of 30 points, very uneven": spread_out(uneven, 0.1),
}
"""Trained candidates whose seeds are not normal, or lie far apart."""

CASES: dict[str, Judged] = {
    **{name: judged(make) for name, make in UNEVEN.items()},
    "null: seeds as normal": judged(trained(0.0)),
    "null: one seed in ten loses 45, the others +5": judged(trained(0.05, rate=0.1)),
    "null: one seed in ten loses 30, the others +3.3": judged(trained(0.3 / 9, rate=0.1, loss=0.3)),
    "null: one seed in twenty loses 45, the others +2.4": judged(trained(0.45 / 19, rate=0.05)),
    "beyond what is declared: one seed in five, the others +11.25": judged(
        trained(0.1125, rate=0.2)
    ),
    "a gain of 5 points, trained": judged(trained(0.05)),
    "a gain of 10 points, trained": judged(trained(0.10)),
    "a gain of 15 points, trained": judged(trained(0.15)),
    "a gain of 25 points, trained": judged(trained(0.25)),
    "null: independent tasks": judged(frozen()),
    "null: eight repositories 20 points apart": judged(frozen(groups=8, apart=0.2)),
    "null: thirty files 20 points apart": judged(frozen(groups=30, apart=0.2)),
    "null: each task there four times": judged(frozen(copies=4)),
    "a gain of 20 points, independent tasks": judged(frozen(0.2)),
    "a gain of 20 points, eight repositories alike": judged(frozen(0.2, groups=8)),
    "a gain of 20 points, eight repositories 10 points apart": judged(
        frozen(0.2, groups=8, apart=0.1)
    ),
    "null: +5 points behind the API, two samples": drifting(0.05),
    "null: +15 points behind the API, two samples": drifting(0.15),
    "null: twenty runs of one claim each (5 % + 5 % declared)": runs_in_one_workspace(20),
    "null: ended up to ten times before it is recorded": ended_until_it_looks_good(10),
    "null: the best of forty meaningless diagnostics": best_of_numbers(40),
}


def estimates(runs: int, seed: int) -> None:
    """What promotions say of a gain that is there: the raw estimate, and what is likelier."""
    print("\n4. Estimates of promotions, in points\n")
    cases = {
        (tasks, gain): exam(tasks, gain) for tasks in (16, 30, 128) for gain in (0.05, 0.1, 0.2)
    }
    cases |= {(0, gain): trained(gain) for gain in (0.10, 0.15, 0.25)}
    for (tasks, gain), make in cases.items():
        found = []
        for at in range(runs):
            claim = make(np.random.default_rng([seed, at]))
            last = next(
                (pairs for pairs in claim.looks if promoted(claim._replace(looks=(pairs,)))), None
            )
            if last is not None:
                case = _Case(last, Terms(ALPHA, course=claim.course))
                found.append((case.effect.delta, case.shrunk or np.nan))
        raw, likelier = 100 * np.mean(found, axis=0) if found else (np.nan, np.nan)
        about = f"{tasks} tasks, two samples" if tasks else "trained"
        told = f"promoted {len(found) / runs:6.1%}   raw {raw:+6.1f}   likelier {likelier:+6.1f}"
        print(f"  true {100 * gain:+5.1f}, {about:<24} {told}", flush=True)


def table(runs: int, seed: int) -> None:
    """Promotions with the conditions and without, on the same draws."""
    print(f"3. Share of {runs} claims that are promoted, alpha {ALPHA:.0%}\n")
    for name, case in CASES.items():
        found = np.array([case(np.random.default_rng([seed, at])) for at in range(runs)])
        hits, before = found.sum(axis=0)
        low, high = wilson(int(hits), runs)
        told = f"{hits / runs:6.1%} [{low:.1%}, {high:.1%}]"
        print(f"  {name:<62} {told:<24} without {before / runs:6.1%}", flush=True)
