"""Whole runs of the search, simulated: how often is nothing claimed to be something?

A world has ideas with true effects on clean success (points), some of which act only together. A
cell's measurement is the truth, the luck of its training seed and the luck of 512 attempts. What is
simulated is the loop's own decision: `verbs.cells` chooses (bundle, leave one out, prune, and at
the end one by one on what was found: here every idea that is not in it, as many as `ALONE`), the
budget's pairs go through `gate.simulate.Gate`, the claim's own test, at the run's whole alpha.
False is a claim about a harness whose true mean is not above the start's.

    python benchmarks/search.py [--runs 2000] [--spread 3.5] [--pairs 4]

Not covered: validity (no cell leaks here), reading the evidence, and going on with training.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from meta_agent.core.config import RunConfig
from meta_agent.core.gate import wilson
from meta_agent.core.gate.simulate import Gate
from meta_agent.core.lab.live import Evaluated
from meta_agent.core.loop.plan import plan_for
from meta_agent.core.loop.verbs.cells import Cell, Mix, best, is_better, kept_of
from meta_agent.core.protocols import Candidate, Hypothesis, VerdictKind

TASKS = 512
GENERATIONS = 3
ALONE = 3
"""Ideas that are tried one by one at the end: about what 96,000 attempts leave for them."""
Truth = Callable[[frozenset[int]], float]


class World(NamedTuple):
    """Ideas 0 to n - 1, and the true clean success of any set of them (a share)."""

    name: str
    ideas: int
    truth: Truth


def worlds() -> list[World]:
    """Nulls first: nothing that can be found is better than the start."""

    def sums(base: float, effects: Sequence[float]) -> Truth:
        return lambda chosen: base + sum(effects[one] for one in chosen)

    def three_together(chosen: frozenset[int]) -> float:
        return 0.1 + (0.5 if {0, 1, 2} <= chosen else 0.0) - 0.15 * (4 in chosen)

    return [
        World("null: six neutral", 6, sums(0.5, [0.0] * 6)),
        World("null: three neutral, three -5", 6, sums(0.5, [0.0] * 3 + [-0.05] * 3)),
        World("null: six harmful, -2 to -12", 6, sums(0.5, [-0.02 * (n + 1) for n in range(6)])),
        World("one of six is worth +5", 6, sums(0.5, [0.05] + [0.0] * 5)),
        World("one +10, one -10, four neutral", 6, sums(0.5, [0.1, -0.1] + [0.0] * 4)),
        World("three that act only together, one -15", 5, three_together),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--spread", type=float, default=3.5, help="of training seeds, points")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    config = RunConfig()
    plan = plan_for(config)
    gate = replace(plan, looks=(args.pairs,)).gate()
    print(f"{args.runs} runs a world, spread {args.spread} points, {args.pairs} pairs to prove")
    print("| world | claimed | of these false | gone on from something | true gain of it | cells |")
    for world in worlds():
        print(_row(world, [_run(world, gate, args.spread / 100, rng) for _ in range(args.runs)]))


class Ended(NamedTuple):
    """What one simulated run found."""

    gain: float
    claimed: bool
    moved: bool
    cells: int


def _run(world: World, gate: Gate, spread: float, rng: np.random.Generator) -> Ended:
    start, tip, spent = world.truth(frozenset()), frozenset[int](), 1
    below = _seen(start, spread, rng)
    for _ in range(GENERATIONS):
        left = [idea for idea in range(world.ideas) if idea not in tip]
        if not left:
            break
        cells = _bundle(world, tip, left, spread, rng)
        spent += len(cells)
        found = best(cells)
        if found is None or not is_better(found, below):
            break
        tip, below = tip | _ideas(found.mix), found.clean
    for idea in [idea for idea in range(world.ideas) if idea not in tip][:ALONE]:
        cell, spent = _cell(world, tip, [idea], spread, rng), spent + 1
        if is_better(cell, below):
            tip, below = tip | {idea}, cell.clean
    gain = world.truth(tip) - start
    claimed = bool(tip) and _claims(gate, start, gain, spread, rng)
    return Ended(gain, claimed, bool(tip), spent)


def _bundle(
    world: World, tip: frozenset[int], left: Sequence[int], spread: float, rng: np.random.Generator
) -> list[Cell]:
    mixes = [left, *([one for one in left if one != out] for out in left if len(left) > 1)]
    cells = [_cell(world, tip, mix, spread, rng) for mix in mixes]
    kept = [int(one.id) for one in kept_of(cells)]
    if kept and all(_ideas(cell.mix) != frozenset(kept) for cell in cells):
        cells.append(_cell(world, tip, kept, spread, rng))
    return cells


def _cell(
    world: World, tip: frozenset[int], mix: Sequence[int], spread: float, rng: np.random.Generator
) -> Cell:
    share = _seen(world.truth(tip | frozenset(mix)), spread, rng)
    clean = round(share * TASKS)
    members = tuple(_candidate(idea) for idea in mix)
    seen = Evaluated(None, TASKS, clean, clean, 0, TASKS)
    return Cell(Mix(str(mix), members, ""), seen, None, flawless=True)


def _candidate(idea: int) -> Candidate:
    told = Hypothesis("recipe", "", "clean_success", "up", 0.0)
    return Candidate(str(idea), "", 0, idea, "", "", "", "", "recipe", told, ())


def _ideas(mix: Mix) -> frozenset[int]:
    return frozenset(int(one) for one in mix.ids)


def _seen(truth: float, spread: float, rng: np.random.Generator) -> float:
    """A training's clean success on the search split."""
    mean = float(np.clip(truth + rng.normal(0, spread), 0, 1))
    return float(rng.binomial(TASKS, mean)) / TASKS


def _claims(gate: Gate, start: float, gain: float, spread: float, rng: np.random.Generator) -> bool:
    """The claim's own test on fresh training seeds, over the same tasks."""
    shape = gate.repeats, gate.tasks
    sides = []
    for truth in (start, start + gain):
        means = np.clip(truth + rng.normal(0, spread, gate.repeats), 0, 1)
        sides.append(rng.random(shape) < means[:, None])
    differences = sides[1].astype(float) - sides[0].astype(float)
    return gate.judge(differences).kind is VerdictKind.PROMOTE


def _row(world: World, ended: Sequence[Ended]) -> str:
    runs = len(ended)
    false = sum(one.claimed and one.gain <= 1e-12 for one in ended)
    interval = wilson(false, runs)
    moved = [one.gain for one in ended if one.moved]
    gain = 100 * float(np.mean(moved)) if moved else 0.0
    return (
        f"| {world.name} | {sum(one.claimed for one in ended) / runs:.1%} | {false / runs:.2%} "
        f"[{interval.low:.2%}, {interval.high:.2%}] | {len(moved) / runs:.0%} | {gain:+.1f} | "
        f"{np.mean([one.cells for one in ended]):.1f} |"
    )


if __name__ == "__main__":
    main()
