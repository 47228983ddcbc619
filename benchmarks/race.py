"""Frozen policies: what the race finds, and what GEPA's engine finds with as many attempts.

Simulated. `gate.race.Race` buys and decides here exactly as in the loop; beside it `gepa.optimize`
runs at its defaults (all tasks are its training set, and thereby its validation set) with a
proposer that draws edits from the same world. A task's rate is drawn on the logit scale. In world
A an edit moves all tasks alike (55 % nothing, 20 % -3..-12 points, 20 % +3..+6, 5 % +10..+15); in
world B there are five kinds of tasks, an edit helps one and harms another; in `nothing` half the
edits do nothing and half harm. What an edit moves shrinks with what is left to gain.

Gains are over 2,000 tasks of the same world that nobody saw. `race` hands over what is proven or
whose exam estimates more than 0; `proven` hands over what is proven alone, `tip` the tip in any
case. *Over* is what a run claims (GEPA: its own validation scores; race: its exam) less the truth,
of runs that changed anything; *bound* counts runs whose exam gave a lower bound above the truth.

    pip install gepa==0.1.4
    python benchmarks/race.py [--runs 100] [--cells A/60/3000 B/60/3000] [--only race]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from meta_agent.core.gate import ErrorBudget, Pairs, effect
from meta_agent.core.gate.judge import kind_of_pairs
from meta_agent.core.gate.race import Race, exam_of, racing
from meta_agent.core.loop.plan import ALPHA
from meta_agent.core.protocols import VerdictKind

Rates = NDArray[np.float64]  # logits, one a task: search half, confirm half, the unseen ones
MIDDLE, SPREAD = -0.4, 1.5
UNSEEN: Final = 2000
KINDS: Final = 5
CELLS: Final = (
    *(f"A/{tasks}/{attempts}" for attempts in (1000, 3000, 10_000) for tasks in (30, 60, 98)),
    *("B/60/1000", "B/30/3000", "B/60/3000", "B/98/3000", "B/60/10000"),
    *("nothing/60/1000", "nothing/60/3000"),
)


class World:
    """Versions by number, and what an attempt comes to. 0 is the start.

    `drift`: points by which the model behind the server becomes better after `changes` attempts.
    """

    def __init__(
        self,
        kind: str,
        tasks: int,
        rng: np.random.Generator,
        drift: float = 0.0,
        changes: float = math.inf,
    ) -> None:
        self.half, self.rng, self._edit = tasks // 2, rng, EDITS[kind]
        count = 2 * self.half + UNSEEN
        self.kinds = rng.integers(0, KINDS, count)
        self.versions: list[Rates] = [rng.normal(MIDDLE, SPREAD, count)]
        self._asked, self._changes, self._drift = 0, changes, self.moved(drift)

    def edit(self, parent: int) -> int:
        rates = self.versions[parent]
        left = (1 - expit(rates).mean()) / (1 - expit(self.versions[0]).mean())
        self.versions.append(rates + left * self._edit(self))
        return len(self.versions) - 1

    def attempt(self, version: int, tasks: Sequence[int] | NDArray[np.int64]) -> list[bool]:
        drift = self._drift if self.changed else 0.0
        self._asked += len(tasks)
        rates = expit(self.versions[version][np.asarray(tasks)] + drift)
        return list(map(bool, self.rng.random(rates.size) < rates))

    @property
    def changed(self) -> bool:
        """The model behind the server is another one by now."""
        return self._asked >= self._changes

    def gain(self, version: int) -> float:
        """The truth, over tasks that no search saw."""
        first, last = (expit(self.versions[at][2 * self.half :]).mean() for at in (0, version))
        return float(last - first)

    def moved(self, points: float) -> float:
        """Logits that move the start by this much."""
        slope = expit(self.versions[0]) * expit(-self.versions[0])
        return points / 100 / float(slope.mean())


def _alike(world: World) -> Rates | float:
    kind, rng = world.rng.random(), world.rng
    if kind < 0.55:
        return 0.0
    if kind < 0.75:
        return world.moved(-rng.uniform(3, 12))  # what is drawn blindly moves nothing on the whole
    return world.moved(rng.uniform(3, 6) if kind < 0.95 else rng.uniform(10, 15))


def _by_kind(world: World) -> Rates:
    """Helps one kind of tasks and harms another: -2.5 to +3 points on the whole, 0 on average."""
    helped, harmed = world.rng.choice(KINDS, 2, replace=False)
    up, down = (world.moved(world.rng.uniform(*span)) for span in ((0, 25), (0, 25)))
    return np.where(world.kinds == helped, up, 0.0) - np.where(world.kinds == harmed, down, 0.0)


def _nothing(world: World) -> float:
    return world.moved(-world.rng.uniform(1, 4)) if world.rng.random() < 0.5 else 0.0


EDITS: Final[Mapping[str, Callable[[World], Any]]] = {
    "A": _alike,
    "B": _by_kind,
    "nothing": _nothing,
}


# --- two ways to spend the attempts --------------------------------------------------------------


class Ended(NamedTuple):
    """What a run hands over and says of it."""

    gain: float
    """Of what is handed over, true."""
    claimed: float | None
    """None: it hands over the start."""
    low: float | None = None
    proven: bool = False
    tip: float = 0.0
    """The tip's true gain."""
    asked: int = 0
    """Edits that were drawn."""


def by_race(world: World, attempts: int, *, told: bool = False) -> Ended:
    """`told`: a change of the model is noticed, as where its server names it."""
    order = world.rng.permutation(world.half)
    race, number = Race(world.half, racing(attempts)), {0: 0}
    while not race.over:
        if told and world.changed:
            race.model_changed()
            told = False
        buy = race.next()
        if buy is None:
            number[race.enter()] = world.edit(number[race.tip])
            continue
        word, _ = race.record(buy, world.attempt(number[buy.version], order[buy.tasks]))
        race.apply(buy, word)
    race.finish()
    return _examined(world, number[race.tip], attempts, len(number) - 1)


def _examined(world: World, tip: int, attempts: int, asked: int) -> Ended:
    samples, extra = exam_of(attempts, world.half)
    true = world.gain(tip)
    if not tip or not samples:
        return Ended(0.0, None, tip=true, asked=asked)
    tasks = range(world.half, 2 * world.half)
    sides = [np.array([world.attempt(v, tasks) for _ in range(samples)]) for v in (0, tip)]
    moved = (sides[1].astype(float) - sides[0]).sum(axis=0)
    row = moved / samples
    if extra:  # what is left of the exam's attempts
        more = [np.array(world.attempt(v, tasks[:extra]), dtype=float) for v in (0, tip)]
        row[:extra] = (moved[:extra] + more[1] - more[0]) / (samples + 1)
    made = samples * world.half + extra
    pairs = Pairs(row[None], made, 0, samples + 1, 0, tuple(map(str, tasks)))
    seen = effect(pairs, alpha=ALPHA)
    budget = ErrorBudget(ALPHA)
    kind, _ = kind_of_pairs(
        pairs, min_seeds=1, budget=budget, look=0, final_look=True, ties="bench"
    )
    proven = kind is VerdictKind.PROMOTE
    handed = proven or seen.delta > 0
    claimed = seen.delta if handed else None
    return Ended(true if handed else 0.0, claimed, seen.ci_low, proven, true, asked)


class _Bridge:
    """The world as an adapter of GEPA: a candidate is the number of its version."""

    propose_new_texts = None

    def __init__(self, world: World) -> None:
        self._world, self.asked = world, 0

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        from gepa import EvaluationBatch

        solved = self._world.attempt(int(candidate["harness"]), batch)
        shown = [{"task": task} for task in batch] if capture_traces else None
        return EvaluationBatch(list(solved), [float(one) for one in solved], shown)

    def make_reflective_dataset(
        self, candidate: dict[str, str], seen: Any, components: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        return {name: [{"score": score} for score in seen.scores] for name in components}

    def edit(
        self, candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]
    ) -> dict[str, str]:
        self.asked += 1
        return {name: str(self._world.edit(int(candidate[name]))) for name in components_to_update}


class _Silent:
    def log(self, message: str) -> None:
        pass


def by_gepa(world: World, attempts: int, *, halves: bool = False) -> Ended:
    """Its validation set is its training set, as by default, or with `halves` the other half."""
    import gepa

    bridge, tasks = _Bridge(world), list(range(2 * world.half))
    found = gepa.optimize(
        {"harness": "0"},
        trainset=tasks[: world.half] if halves else tasks,
        valset=tasks[world.half :] if halves else None,
        adapter=bridge,
        custom_candidate_proposer=bridge.edit,
        max_metric_calls=attempts,
        logger=_Silent(),
        seed=int(world.rng.integers(2**31)),
    )
    best = int(found.best_candidate["harness"])
    scores = found.val_aggregate_scores
    true = world.gain(best)
    claimed = scores[found.best_idx] - scores[0] if best else None
    return Ended(true, claimed, tip=true, asked=bridge.asked)


# --- the table -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), help="WORLD/TASKS/ATTEMPTS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("race", "gepa"))
    args = parser.parse_args()
    print(f"{args.runs} runs a cell, seeds from {args.seed}; +- is two standard errors\n")
    print(HEAD)
    done: list[Mapping[str, list[Ended]]] = []
    for cell in args.cells:
        started = time.process_time()
        done.append(_cell(cell, args.runs, args.seed, args.only))
        _print(cell, done[-1], time.process_time() - started)
    _summary(done)


HEAD = (
    "cell            | way    |  true gain      worse |  over  bound above | proven: n, gain, worse"
    " | tip alone | edits"
)


def _cell(cell: str, runs: int, seed: int, only: str | None) -> dict[str, list[Ended]]:
    kind, tasks, attempts = cell.split("/")
    ways: dict[str, Callable[[World, int], Ended]] = {"gepa": by_gepa, "race": by_race}
    return {
        name: [
            way(World(kind, int(tasks), np.random.default_rng((seed, at))), int(attempts))
            for at in range(runs)
        ]
        for name, way in ways.items()
        if only in (None, name)
    }


def _print(cell: str, done: Mapping[str, list[Ended]], seconds: float) -> None:
    for name, runs in done.items():
        gain, half = _mean([one.gain for one in runs])
        worse = _share([one.gain < 0 for one in runs])
        over, _ = _mean([one.claimed - one.gain for one in runs if one.claimed is not None])
        bounds = [one.low > one.tip for one in runs if one.low is not None]
        proven = [one.gain for one in runs if one.proven]
        kept, _ = _mean([one.gain if one.proven else 0.0 for one in runs])
        tip, _ = _mean([one.tip for one in runs])
        edits = np.mean([one.asked for one in runs])
        print(
            f"{cell:15s} | {name:6s} | {gain:+6.1f} +- {half:3.1f}  {worse:4.0f} % | {over:+5.1f}"
            f"  {_share(bounds):4.0f} %  {sum(bounds):3d}/{len(bounds):<4d} | {len(proven):4d}"
            f" {kept:+6.1f} {_share([one < 0 for one in proven]):4.0f} % | {tip:+6.1f}    |"
            f" {edits:4.0f}",
            flush=True,
        )
    print(f"{'':15s}   ({seconds:.0f} s)" if seconds > 5 else "", flush=True)


def _summary(done: Sequence[Mapping[str, list[Ended]]]) -> None:
    sides = [
        float(np.mean([one.gain for cell in done for one in cell.get(name, [])] or [np.nan]))
        for name in ("gepa", "race")
    ]
    examined = [one for cell in done for one in cell.get("race", []) if one.low is not None]
    wrong = sum(one.low is not None and one.low > one.tip for one in examined)
    false = sum(one.proven and one.gain < 0 for one in examined)
    print(f"\nmean over the cells: GEPA {100 * sides[0]:+.1f}, race {100 * sides[1]:+.1f} points")
    print(
        f"bound above the truth {wrong} of {len(examined)}; proven and worse than the start {false}"
    )


def _mean(shares: Sequence[float]) -> tuple[float, float]:
    """In points, with two standard errors."""
    if not shares:
        return float("nan"), float("nan")
    spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else float("nan")
    return 100 * float(np.mean(shares)), 200 * spread / len(shares) ** 0.5


def _share(which: Sequence[bool]) -> float:
    return 100 * float(np.mean(which)) if which else float("nan")


if __name__ == "__main__":
    main()
