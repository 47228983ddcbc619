"""How often the gate promotes nothing-at-all, and what a decision costs.

Three tables, from stored A/A training runs (`benchmarks/aa_runs.py`):

1. *False promotions.* A run tries ten candidates that change nothing. Both arms are drawn from the
   A/A runs, training seed first, tasks within. How many runs promote at least one, under our gate
   and under the rules that others use?
2. *Pairs of attempts* (frozen policy). Ten candidates: eight null, one harmful, one at the target.
   What do they cost under the betting test, beside a fixed-size test of the same whole-run error
   and 80 % power? Tasks have the success rates of the A/A runs; an effect shifts them on the logit
   scale.
3. *Pairs of training runs.* The same question with the training seed as the unit.

    python benchmarks/gate.py [--data benchmarks/data/aa_nano_swe.json] [--runs 2000]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit, logit

from meta_agent.gate import wilson
from meta_agent.gate.sequential import BettingTest, Design, SequentialT, Stop
from meta_agent.gate.statistics import ErrorBudget, Pairs, effect

Matrix = NDArray[np.float64]
CANDIDATES = 10
ALPHA = 0.05
POWER = 0.8
LOOKS = (4, 6)  # training seeds at each look of the default plan
DATA = Path(__file__).with_name("data") / "aa_nano_swe.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    told = json.loads(args.data.read_text())
    clean = np.array([[int(c) for c in line] for line in told["clean"].values()], dtype=float)
    spread = clean.mean(axis=1).std(ddof=1)
    print(
        f"{told['suite']}, harness {told['harness']}: {len(clean)} training runs x "
        f"{clean.shape[1]} tasks, clean success {clean.mean():.3f}, between seeds {spread:.4f}"
    )
    rng = np.random.default_rng(args.seed)
    false_promotions(clean, args.runs, rng)
    attempts(clean, args.runs, rng)
    trainings(clean, args.runs, rng)


# --- 1. false promotions -------------------------------------------------------------------------


def false_promotions(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    rules: dict[str, Callable[[Matrix], bool]] = {
        f"ours: looks at {LOOKS[0]} and {LOOKS[1]} seeds, alpha over the run": _ours,
        "ours: sequential t over seeds, at most 12": _sequential,
        "any gain, one seed (strict greater)": lambda d: d[0].mean() > 0,
        "k*SE, k = 0 (not worse), one seed": lambda d: d[0].mean() >= 0,
        "k*SE, k = 1, one seed": lambda d: _k_se(d, 1.0),
        "k*SE, k = 1.645, one seed": lambda d: _k_se(d, 1.645),
        "paired bootstrap over tasks, 95 %, one seed": lambda d: _bootstrap(d[:1], rng),
        "paired bootstrap over tasks, 95 %, 4 seeds pooled": lambda d: _bootstrap(d[:4], rng),
    }
    hits = dict.fromkeys(rules, 0)
    single = dict.fromkeys(rules, 0)
    for _ in range(runs):
        found = dict.fromkeys(rules, 0)
        for _ in range(CANDIDATES):
            differences = _null_candidate(clean, rng)
            for name, promotes in rules.items():
                found[name] += promotes(differences)
        for name, count in found.items():
            hits[name] += count > 0
            single[name] += count
    print(f"\n1. Runs of {CANDIDATES} null candidates that promote at least one ({runs} runs)\n")
    for name in rules:
        low, high = wilson(hits[name], runs)
        each = f"a candidate {single[name] / runs / CANDIDATES:.2%}"
        print(f"  {name:<60} {hits[name] / runs:6.1%} [{low:.1%}, {high:.1%}]   {each}")


def _null_candidate(clean: Matrix, rng: np.random.Generator) -> Matrix:
    """Differences of 12 pairs of different A/A runs on one resample of the tasks."""
    drawn = rng.choice(len(clean), size=24, replace=False)
    tasks = rng.integers(0, clean.shape[1], clean.shape[1])
    return (clean[drawn[:12]] - clean[drawn[12:]])[:, tasks]


def _ours(differences: Matrix) -> bool:
    budget = ErrorBudget(ALPHA, candidates=CANDIDATES, looks=len(LOOKS))
    for look, seeds in enumerate(LOOKS):
        cells = differences[:seeds]
        if effect(Pairs(cells, cells.size, 0, 1), alpha=budget.at(look)).ci_low > 0:
            return True
    return False


def _sequential(differences: Matrix) -> bool:
    design = Design(alpha=ALPHA / CANDIDATES, target=0.05, max_units=12)
    return SequentialT(design).update(differences.mean(axis=1)).state is Stop.PROVEN


def _k_se(differences: Matrix, k: float) -> bool:
    row = differences[0]
    return bool(row.mean() > k * row.std(ddof=1) / math.sqrt(row.size))


def _bootstrap(differences: Matrix, rng: np.random.Generator, draws: int = 1000) -> bool:
    """One-sided 95 % percentile bound over tasks, as if seeds did not matter."""
    row = differences.mean(axis=0)
    values, counts = np.unique(row, return_counts=True)
    samples = rng.multinomial(row.size, counts / row.size, size=draws) @ values / row.size
    return bool(np.quantile(samples, 0.05) > 0)


# --- 2. pairs of attempts ------------------------------------------------------------------------


class Cost(NamedTuple):
    """Units used by one kind of candidate, as shares of the fixed-size test's, and its errors."""

    proven: float
    used: Matrix

    def line(self, kind: str) -> str:
        median, high = np.quantile(self.used, [0.5, 0.9])
        return (
            f"    {kind:<12} median {median:.2f}  mean {self.used.mean():.2f}  90th pct {high:.2f}"
            f"  proven {self.proven:.3f}"
        )


def attempts(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    rates = np.clip(clean.mean(axis=0), 0.02, 0.98)
    print("\n2. Pairs of attempts on a frozen policy, in shares of the fixed-size test\n")
    for target in (0.05, 0.10):
        second = float(np.mean(rates * (1 - rates) * 2))
        fixed = _fixed_pairs(rates, target, ALPHA / CANDIDATES)
        design = Design(
            alpha=ALPHA / CANDIDATES,
            target=target,
            second_moment=second,
            max_units=2 * fixed,
        )
        _report(
            f"target {100 * target:+.0f} points, discordant {second:.2f}, fixed size {fixed} pairs",
            {
                kind: _betting(rates, mean, design, fixed, runs, rng)
                for kind, mean in (("null", 0.0), ("harmful", -target), ("at target", target))
            },
        )


def _fixed_pairs(rates: Matrix, target: float, alpha: float) -> int:
    better = _shifted(rates, target)
    variance = float(np.mean(rates * (1 - rates) + better * (1 - better)))
    variance += float(np.var(better - rates))
    return math.ceil(((stats.norm.isf(alpha) + stats.norm.ppf(POWER)) / target) ** 2 * variance)


def _shifted(rates: Matrix, mean: float) -> Matrix:
    """The rates moved by one step on the logit scale so that their mean moves by `mean`."""
    if mean == 0:
        return rates
    step = optimize.brentq(lambda s: (expit(logit(rates) + s) - rates).mean() - mean, -20, 20)
    return np.asarray(expit(logit(rates) + step))


def _betting(
    rates: Matrix, mean: float, design: Design, fixed: int, runs: int, rng: np.random.Generator
) -> Cost:
    after, limit = _shifted(rates, mean), design.max_units or 0
    used, proven = np.empty(runs), 0
    for index in range(runs):
        tasks = rng.integers(0, rates.size, limit)
        won = rng.random(limit) < after[tasks]
        lost = rng.random(limit) < rates[tasks]
        reading = BettingTest(design).update(won.astype(float) - lost.astype(float))
        used[index], proven = reading.units / fixed, proven + (reading.state is Stop.PROVEN)
    return Cost(proven / runs, used)


def _report(title: str, costs: dict[str, Cost]) -> None:
    null, harm, target = costs["null"], costs["harmful"], costs["at target"]
    total = (8 * null.used.mean() + harm.used.mean() + target.used.mean()) / CANDIDATES
    error = 1 - (1 - null.proven) ** 8 * (1 - harm.proven)
    print(f"  {title}")
    for kind, cost in costs.items():
        print(cost.line(kind))
    declared = 1 - (1 - ALPHA / CANDIDATES) ** 8
    print(
        f"    ten candidates cost {total:.2f} of the fixed-size test's; whole-run error "
        f"{error:.3f} (fixed-size: {declared:.3f})\n"
    )


# --- 3. pairs of training runs -------------------------------------------------------------------


def trainings(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    print("3. Pairs of training runs, in shares of the fixed-size t-test\n")
    for target in (0.05, 0.10):
        fixed = _fixed_seeds(clean, target, ALPHA / CANDIDATES)
        design = Design(alpha=ALPHA / CANDIDATES, target=target, max_units=2 * fixed)
        costs = {
            kind: _seeds(clean, mean, design, fixed, runs // 4, rng)
            for kind, mean in (("null", 0.0), ("harmful", -target), ("at target", target))
        }
        _report(f"target {100 * target:+.0f} points, fixed size {fixed} pairs of runs", costs)


def _fixed_seeds(clean: Matrix, target: float, alpha: float) -> int:
    deviation = math.sqrt(2) * clean.mean(axis=1).std(ddof=1)
    for seeds in range(2, 200):
        shift = math.sqrt(seeds) * target / deviation
        if stats.nct.sf(stats.t.isf(alpha, seeds - 1), seeds - 1, shift) >= POWER:
            return seeds
    raise SystemExit(f"no number of seeds below 200 shows {target}")


def _seeds(
    clean: Matrix, mean: float, design: Design, fixed: int, runs: int, rng: np.random.Generator
) -> Cost:
    shares, limit = clean.mean(axis=1), design.max_units or 0
    used, proven = np.empty(runs), 0
    for index in range(runs):
        first, second = rng.choice(shares, limit), rng.choice(shares, limit)
        reading = SequentialT(design).update(first - second + mean)
        used[index], proven = reading.units / fixed, proven + (reading.state is Stop.PROVEN)
    return Cost(proven / runs, used)


if __name__ == "__main__":
    main()
