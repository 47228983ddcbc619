"""Gates that accept or leave a change: ours beside those of AcceptorBench, by its protocol.

A candidate and the incumbent make one attempt each at the same n tasks, independently, with
chances p and p + lift (outcomes as in `acceptor.bench` of the Precedent project, Apache-2.0, whose
figures this reproduces; written anew here). Ours is the exam of a frozen policy: one look over all
tasks by `judge.kind_of_pairs` at the whole error. Theirs bet on one pair after the other and may
stop early (`bet`: half of the wealth; `mixture`: over four fractions). `fixed` is McNemar's exact
test, a fixed look without conditions; `greedy` takes any gain.

Table 2 is how power grows with tasks where an exam has as many attempts for any number of them.
Table 3 are that benchmark's five attacks on a protocol, each by candidates that change nothing:
what a gate alone would promote, and what the loop's rules leave of it. Table 4 are outcomes of real
agents (`data/verse_outcomes.json`: nine settings, 215 issues of real repositories, three repeats).

    python benchmarks/acceptor.py [--candidates 2000] [--tables 1234] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from meta_agent.composition.visible import _agents
from meta_agent.core.config import RunConfig
from meta_agent.core.gate import ErrorBudget, wilson
from meta_agent.core.gate.judge import kind_of_pairs
from meta_agent.core.gate.numbers.statistics import Pairs
from meta_agent.core.gate.simulate import power
from meta_agent.core.loop.plan import ALPHA, plan_for
from meta_agent.core.loop.spending import share_of
from meta_agent.core.protocols import VerdictKind

Matrix = NDArray[np.float64]
Draw = np.random.Generator
Rule = Callable[[Matrix], NDArray[np.bool_]]  # of [candidate, task] differences
SIZES: Final = (20, 40, 64, 128)
CELLS: Final = ((0.5, 0.0), (0.7, 0.0), (0.7, 0.2), (0.5, 0.3), (0.3, 0.1))
DATA: Final = Path(__file__).with_name("data") / "verse_outcomes.json"


# --- rules ---------------------------------------------------------------------------------------


def ours(moved: Matrix, samples: int = 1, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """The exam of the loop, a candidate a row."""
    return np.array([_examined(row, samples, alpha) for row in moved])


def _examined(row: Matrix, samples: int, alpha: float) -> bool:
    pairs = Pairs(row[None, :], row.size * samples, 0, samples)
    kind, _ = kind_of_pairs(
        pairs, min_seeds=1, budget=ErrorBudget(alpha), look=0, final_look=True, ties="bench"
    )
    return kind is VerdictKind.PROMOTE


def fixed(moved: Matrix) -> NDArray[np.bool_]:
    wins, losses = (moved > 0).sum(axis=1), (moved < 0).sum(axis=1)
    return np.asarray(binom.sf(wins - 1, wins + losses, 0.5) <= ALPHA)


def bets(*fractions: float) -> Rule:
    """Wealth that is bet on each pair that differs, until it is 1 / alpha."""

    def rule(moved: Matrix) -> NDArray[np.bool_]:
        wealth = np.mean([np.cumprod(1 + part * moved, axis=1) for part in fractions], axis=0)
        return np.asarray((wealth >= 1 / ALPHA).any(axis=1))

    return rule


RULES: Final[dict[str, Rule]] = {
    "ours": ours,
    "fixed": fixed,
    "bet": bets(0.5),
    "mixture": bets(0.2, 0.4, 0.6, 0.8),
    "greedy": lambda moved: np.asarray(moved.sum(axis=1) > 0),
}


# --- 1. the protocol -----------------------------------------------------------------------------


def differences(draw: Draw, count: int, tasks: int, chance: float, lift: float) -> Matrix:
    before = draw.random((count, tasks)) < chance
    return (draw.random((count, tasks)) < min(1.0, chance + lift)).astype(float) - before


def protocol(count: int, seed: int) -> None:
    print(f"1. Share of {count} candidates a cell that are accepted, alpha {ALPHA:.0%}\n")
    print(f"  {'p, lift':<12} {'tasks':>5}  " + "  ".join(f"{name:>8}" for name in RULES))
    for chance, lift in CELLS:
        for tasks in SIZES:
            moved = differences(np.random.default_rng([seed, tasks]), count, tasks, chance, lift)
            shares = "  ".join(f"{rule(moved).mean():8.1%}" for rule in RULES.values())
            print(f"  {chance}, {lift:<7} {tasks:5}  {shares}", flush=True)


# --- 2. more tasks -------------------------------------------------------------------------------


def growing(count: int, seed: int, attempts: int = 2560, gain: float = 0.08) -> None:
    """An exam has a fifth of the attempts, half of that a side: 256 here."""
    told = f"{attempts} attempts in the run, a gain of {100 * gain:.0f} points"
    print(f"\n2. Power as tasks grow: {told}\n")
    print("  tasks  passes + tasks with one more   power   whole passes alone")
    config = RunConfig(policy="openai/m", budget=attempts)
    for tasks in (16, 24, 32, 48, 64, 85, 86, 100, 128, 129, 160, 200, 255, 256):
        plan = replace(plan_for(config), confirm=tasks)
        passes, extra = divmod(256, tasks)
        shares = [
            power(
                replace(plan, looks=(passes,), extra=more).gate(),
                _agents(),
                gain,
                draws=count,
                seed=seed,
            ).share
            for more in (extra, 0)
        ]
        print(
            f"  {tasks:5}  {passes:6} + {extra:<22} {shares[0]:7.1%}   {shares[1]:7.1%}", flush=True
        )


# --- 3. attacks ----------------------------------------------------------------------------------


class Attacked(NamedTuple):
    """Whether a candidate that changes nothing was accepted, by the gate alone and in the loop."""

    alone: bool
    loop: bool


def _bet(row: Matrix) -> bool:
    return bool(RULES["bet"](row[None, :])[0])


def _exam(row: Matrix, alpha: float = ALPHA) -> bool:
    return _examined(row, 1, alpha)


def reorder(draw: Draw) -> Attacked:
    """Wins first, to a gate that may stop; the exam looks once, at all tasks."""
    row = differences(draw, 1, 40, 0.6, 0.0)[0]
    return Attacked(_bet(np.sort(row)[::-1]), _exam(np.sort(row)[::-1]))


def rewind(draw: Draw) -> Attacked:
    """A batch that lost never happened; in the loop what is made again is drawn as it was."""
    kept: list[Matrix] = []
    for batch in differences(draw, 40, 5, 0.6, 0.0):
        kept += [batch] if batch.sum() >= 0 else []
    row = differences(draw, 1, 40, 0.6, 0.0)[0]
    return Attacked(_bet(np.concatenate([*kept, np.zeros(1)])), _exam(row))


def select(draw: Draw) -> Attacked:
    """The luckiest of twenty on tasks that all are tried on; the exam is on others."""
    tried = differences(draw, 20, 40, 0.6, 0.0)
    best = tried[tried.sum(axis=1).argmax()]
    return Attacked(_exam(best), _exam(differences(draw, 1, 40, 0.6, 0.0)[0]))


def repropose(draw: Draw) -> Attacked:
    """The same twenty times under new names, each in a run of its own in one workspace."""
    rows = differences(draw, 20, 40, 0.6, 0.0)
    alone = any(_exam(row) for row in rows)
    return Attacked(alone, any(_exam(row, ALPHA * share_of(at)) for at, row in enumerate(rows)))


def targeted(draw: Draw) -> Attacked:
    """Eight tasks that the incumbent is known to fail; nobody chooses which half is examined."""
    chosen = np.zeros(80)
    chosen[:8] = 1.0
    return Attacked(_exam(chosen[:40]), _exam(draw.permutation(chosen[8:])[:40]))


ATTACKS: Final = (reorder, rewind, select, repropose, targeted)


def attacks(count: int, seed: int) -> None:
    print(f"\n3. Candidates that change nothing, accepted in {count} attacks each\n")
    for attack in ATTACKS:
        found = np.array([attack(np.random.default_rng([seed, at])) for at in range(count)])
        (alone, loop), ends = found.mean(axis=0), wilson(int(found[:, 1].sum()), count)
        told = f"in the loop {loop:6.1%} [{ends.low:.1%}, {ends.high:.1%}]"
        print(f"  {attack.__name__:<10} the gate alone {alone:6.1%}   {told}", flush=True)


# --- 4. real agents ------------------------------------------------------------------------------


def _outcomes() -> dict[str, Matrix]:
    """[task, repeat] of each setting."""
    told = json.loads(DATA.read_text())["outcomes"]
    return {
        name: np.array([[int(c) for c in row] for row in rows], dtype=float)
        for name, rows in told.items()
    }


def _pairs_by_gain(seen: dict[str, Matrix]) -> Iterator[tuple[str, list[tuple[Matrix, Matrix]]]]:
    gains = {(one, two): seen[two].mean() - seen[one].mean() for one, two in permutations(seen, 2)}
    for low, high in ((0.05, 0.08), (0.09, 0.11)):
        chosen = [pair for pair, gain in gains.items() if low <= gain < high]
        yield f"+{100 * low:.0f} to +{100 * high:.0f}", [(seen[a], seen[b]) for a, b in chosen]


def _moved(draw: Draw, sides: tuple[Matrix, Matrix], tasks: int, samples: int) -> Matrix:
    """Differences at tasks that are drawn, of so many repeats of either side."""
    at = draw.integers(0, len(sides[0]), tasks)
    null = sides[0] is sides[1]
    repeats = draw.permuted(np.tile(np.arange(3), (tasks, 1)), axis=1)
    before = np.take_along_axis(sides[0][at], repeats[:, :samples], axis=1)
    other = repeats[:, 1:] if null else draw.permuted(repeats, axis=1)
    after = np.take_along_axis(sides[1][at], other[:, :samples], axis=1)
    return np.asarray(after.mean(axis=1) - before.mean(axis=1))


def _bootstrap(row: Matrix, draw: Draw, draws: int = 400) -> bool:
    values, counts = np.unique(row, return_counts=True)
    means = draw.multinomial(row.size, counts / row.size, size=draws) @ values / row.size
    return bool(np.quantile(means, 0.05) > 0)


def real(count: int, seed: int) -> None:
    print(f"\n4. Outcomes of real agents, one attempt a side, {count} draws\n")
    seen = _outcomes()
    cells = {"null": [(one, one) for one in seen.values()], **dict(_pairs_by_gain(seen))}
    print("  true gain    tasks      ours     fixed       bet  bootstrap  greedy")
    for name, sides in cells.items():
        for tasks in (20, 40, 60, 107, 128, 215):
            draw = np.random.default_rng([seed, tasks])
            moved = np.array(
                [_moved(draw, sides[at % len(sides)], tasks, 1) for at in range(count)]
            )
            boot = np.mean([_bootstrap(row, draw) for row in moved])
            shares = [RULES[rule](moved).mean() for rule in ("ours", "fixed", "bet")]
            line = "  ".join(f"{share:8.1%}" for share in shares)
            greedy = RULES["greedy"](moved).mean()
            print(f"  {name:<12} {tasks:5}  {line}  {boot:9.1%}  {greedy:6.1%}", flush=True)
    _runs_of_ten(seen, count, seed)


def _runs_of_ten(seen: dict[str, Matrix], count: int, seed: int) -> None:
    """Ten nulls a run: ours screens them on one half and examines the best on the other."""
    draw, hits = np.random.default_rng(seed), np.zeros(3)
    for at in range(count):
        side = list(seen.values())[at % len(seen)]
        rows = np.array([_moved(draw, (side, side), 107, 1) for _ in range(10)])
        hits += (
            _exam(_moved(draw, (side, side), 107, 1)),
            any(_bootstrap(row, draw) for row in rows),
            bool((rows.sum(axis=1) > 0).any()),
        )
    told = (
        f"{name} {share:.1%}"
        for name, share in zip(("ours", "bootstrap", "any gain"), hits / count, strict=True)
    )
    print(f"\n  runs of ten nulls, 107 tasks, with a promotion: {', '.join(told)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--tables", default="1234")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tables = {"1": protocol, "2": growing, "3": attacks, "4": real}
    for name, table in tables.items():
        if name in args.tables:
            table(args.candidates, args.seed)


if __name__ == "__main__":
    main()
