"""How often the gate promotes nothing-at-all, and what a decision costs.

Two tables from stored A/A training runs (`benchmarks/data/aa_nano_swe.json`). "Ours" is the rule of
the loop in each of them: the looks of a `Plan`, put before `gate.simulate.Gate`, which asks the
judge.

1. *False promotions.* A run tries ten candidates that change nothing. Both arms are drawn from the
   A/A runs, training seed first, tasks within. How many runs promote at least one, under our gate
   and under the rules that others use? Once more with candidates that help some tasks and harm as
   many others, so that only the choice of tasks can make them look better.
2. *Pairs of training runs.* Ten candidates: eight null, one harmful, one at the target. What do
   they cost, beside a fixed-size test of the same declared error and 80 % power?
3. *Nulls that break gates*, the ordinary ones beside them, and what is found (`gate_nulls.py`).
4. *Estimates of promotions*, raw and with their selection allowed for.

    python benchmarks/gate.py [--tables 1234] [--data FILE] [--runs 2000]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import gate_nulls
import numpy as np
from _stored_runs import StoredRuns
from numpy.typing import NDArray
from scipy import stats

from meta_agent.core.config import RunConfig
from meta_agent.core.gate import wilson
from meta_agent.core.gate.numbers.statistics import Pairs, effect
from meta_agent.core.gate.simulate import Gate
from meta_agent.core.loop.plan import Plan, plan_for

Matrix = NDArray[np.float64]
CANDIDATES = 10
ALPHA = 0.05
POWER = 0.8
FORMER = (4, 6)  # training seeds at the looks of the plan before this one
DATA = Path(__file__).with_name("data") / "aa_nano_swe.json"
MIXED = 0.3  # share of tasks that a mixed candidate helps or harms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", default="1234")
    args = parser.parse_args()
    told = json.loads(args.data.read_text())
    clean = np.array([[int(c) for c in line] for line in told["clean"].values()], dtype=float)
    spread = clean.mean(axis=1).std(ddof=1)
    print(
        f"{told['suite']}, harness {told['harness']}: {len(clean)} training runs x "
        f"{clean.shape[1]} tasks, clean success {clean.mean():.3f}, between seeds {spread:.4f}"
    )
    for name, table in (("1", false_promotions), ("2", trainings)):
        if name in args.tables:
            table(clean, args.runs, np.random.default_rng(args.seed))
    for name, others in (("3", gate_nulls.table), ("4", gate_nulls.estimates)):
        if name in args.tables:
            others(args.runs // 4, args.seed)


def plan_of(policy: str, **changes: object) -> Plan:
    """The loop's plan of a run of ten generations: its one claim."""
    config = RunConfig(policy=policy, generations=CANDIDATES, samples=1)
    return replace(plan_for(config), **changes)  # type: ignore[arg-type]


# --- 1. false promotions -------------------------------------------------------------------------


Rule = Callable[[Matrix], bool]


def false_promotions(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    plan = plan_of("nano", confirm=clean.shape[1])
    gate = plan.gate()
    most = f"ours: pairs one at a time, at most {plan.looks[-1]}, alpha over the run"
    rules: dict[str, Rule] = {
        most: lambda d: gate.judge(d).promoted,
        f"before: looks at {FORMER[0]} and {FORMER[1]} seeds, alpha over the run": _former,
        "any gain, one seed (strict greater)": lambda d: d[0].mean() > 0,
        "k*SE, k = 0 (not worse), one seed": lambda d: d[0].mean() >= 0,
        "k*SE, k = 1, one seed": lambda d: _k_se(d, 1.0),
        "k*SE, k = 1.645, one seed": lambda d: _k_se(d, 1.645),
        "paired bootstrap over tasks, 95 %, one seed": lambda d: _bootstrap(d[:1], rng),
        "paired bootstrap over tasks, 95 %, 4 seeds pooled": lambda d: _bootstrap(d[:4], rng),
    }
    _promoted("null candidates", rules, lambda: _null_candidate(clean, rng), runs)
    mixed = {name: rules[name] for name in list(rules)[:2]}
    what = f"candidates that swap {MIXED:.0%} of the tasks"
    _promoted(what, mixed, lambda: _mixed_candidate(clean, rng), runs // 4)


def _promoted(
    what: str, rules: dict[str, Rule], candidate: Callable[[], Matrix], runs: int
) -> None:
    hits, single = dict.fromkeys(rules, 0), dict.fromkeys(rules, 0)
    for _ in range(runs):
        found = dict.fromkeys(rules, 0)
        for _ in range(CANDIDATES):
            differences = candidate()
            for name, promotes in rules.items():
                found[name] += promotes(differences)
        for name, count in found.items():
            hits[name] += count > 0
            single[name] += count
    print(f"\n1. Runs of {CANDIDATES} {what} that promote at least one ({runs} runs)\n")
    for name in rules:
        low, high = wilson(hits[name], runs)
        each = f"a candidate {single[name] / runs / CANDIDATES:.2%}"
        print(f"  {name:<60} {hits[name] / runs:6.1%} [{low:.1%}, {high:.1%}]   {each}")


def _null_candidate(clean: Matrix, rng: np.random.Generator) -> Matrix:
    """Differences of 12 pairs of different A/A runs on one resample of the tasks."""
    one, other = StoredRuns(clean).null_pair(12, clean.shape[1], rng)
    return one - other


def _mixed_candidate(clean: Matrix, rng: np.random.Generator) -> Matrix:
    """The same, but the candidate solves some tasks as often as it used to solve others."""
    drawn = rng.choice(len(clean), size=24, replace=False)
    columns = np.arange(clean.shape[1])
    moved = rng.random(columns.size) < MIXED
    columns[moved] = rng.permutation(columns[moved])
    tasks = rng.integers(0, columns.size, columns.size)
    return clean[drawn[:12]][:, columns[tasks]] - clean[drawn[12:]][:, tasks]


def _former(differences: Matrix) -> bool:
    for look, seeds in enumerate(FORMER):
        alpha = ALPHA / CANDIDATES * (1 + look) / 3  # the two looks share it, 1 to 2
        cells = differences[:seeds]
        if effect(Pairs(cells, cells.size, 0, 1), alpha=alpha).ci_low > 0:
            return True
    return False


def _k_se(differences: Matrix, k: float) -> bool:
    row = differences[0]
    return bool(row.mean() > k * row.std(ddof=1) / math.sqrt(row.size))


def _bootstrap(differences: Matrix, rng: np.random.Generator, draws: int = 1000) -> bool:
    """One-sided 95 % percentile bound over tasks, as if seeds did not matter."""
    row = differences.mean(axis=0)
    values, counts = np.unique(row, return_counts=True)
    samples = rng.multinomial(row.size, counts / row.size, size=draws) @ values / row.size
    return bool(np.quantile(samples, 0.05) > 0)


# --- 2. pairs of training runs -------------------------------------------------------------------


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


def _report(title: str, costs: dict[str, Cost], size_at: Callable[[float], float]) -> None:
    """`size_at`: the fixed size at another alpha a candidate, as a share of the one in use."""
    null, harm, target = costs["null"], costs["harmful"], costs["at target"]
    total = (8 * null.used.mean() + harm.used.mean() + target.used.mean()) / CANDIDATES
    error = 1 - (1 - null.proven) ** 8 * (1 - harm.proven)
    print(f"  {title}")
    for kind, cost in costs.items():
        print(cost.line(kind))
    declared = 1 - (1 - ALPHA / CANDIDATES) ** 8
    print(
        f"    ten candidates cost {total:.2f} of the fixed-size test's; whole-run error "
        f"{error:.3f} (fixed-size: {declared:.3f})"
    )
    if error:
        share = size_at(1 - (1 - error) ** (1 / 8))
        print(
            f"    at equal simulated error the fixed size is {share:.2f} times as large: ", end=""
        )
        print(f"ten candidates cost {total / share:.2f} of it")
    print()


def trainings(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    print("2. Pairs of training runs, in shares of the fixed-size t-test\n")
    for target in (0.05, 0.10):
        fixed = _fixed_seeds(clean, target, ALPHA / CANDIDATES)
        plan = plan_of("nano", looks=(2 * fixed,), target=target, confirm=clean.shape[1])
        costs = {
            kind: _seeds(clean, mean, plan.gate(), fixed, runs // 4, rng)
            for kind, mean in (("null", 0.0), ("harmful", -target), ("at target", target))
        }
        _report(
            f"target {100 * target:+.0f} points, fixed size {fixed} pairs of runs",
            costs,
            lambda alpha, target=target, fixed=fixed: _fixed_seeds(clean, target, alpha) / fixed,  # type: ignore[misc]
        )
    _default_plan(clean, runs // 4, rng)


def _default_plan(clean: Matrix, runs: int, rng: np.random.Generator) -> None:
    """What the default plan (three generations) spends on true gains of several sizes."""
    plan = replace(plan_for(RunConfig()), confirm=clean.shape[1])
    print(f"  the default plan: at most {plan.looks[-1]} pairs")
    for mean in (-0.1, 0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5):
        cost = _seeds(clean, mean, plan.gate(), 1, runs, rng)
        share = np.mean(cost.used == plan.looks[-1])
        print(f"{cost.line(f'{100 * mean:+.0f} points')}  all pairs used {share:.2f}")


def _fixed_seeds(clean: Matrix, target: float, alpha: float) -> int:
    deviation = math.sqrt(2) * clean.mean(axis=1).std(ddof=1)
    for seeds in range(2, 200):
        shift = math.sqrt(seeds) * target / deviation
        if stats.nct.sf(stats.t.isf(alpha, seeds - 1), seeds - 1, shift) >= POWER:
            return seeds
    raise SystemExit(f"no number of seeds below 200 shows {target}")


def _seeds(
    clean: Matrix, mean: float, gate: Gate, fixed: int, runs: int, rng: np.random.Generator
) -> Cost:
    used, proven = np.empty(runs), 0
    for index in range(runs):
        before, after = (clean[rng.integers(0, len(clean), gate.repeats)] for _ in range(2))
        passed = gate.judge(after - before + mean)
        used[index], proven = passed.repeats / fixed, proven + passed.promoted
    return Cost(proven / runs, used)


if __name__ == "__main__":
    main()
