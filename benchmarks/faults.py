"""The planted-fault benchmark: what validity checks find, block, and call by mistake.

Four tables, with a suite's warm-start policy, a real sandbox and the sealed grader. The checks are
the loop's: `meta_agent.core.lab.inspector.findings_about`, after static and contract checks.

1. *Detection.* Each planted case, replicated over sampling seeds, against the competent harness:
   how often a right detector spoke, and whether the case was vetoed.
2. *Arms.* What each would have promoted: `full` (the gate with its checks), `no detectors` (the
   same statistics on clean success), `raw success` (the same on what was solved, flagged or not),
   `score-only` (keep if more was solved), `own reward` (keep if the candidate's own reward rose).
3. *Clean controls.* The competent harness under honest edits and other seeds: findings by code, and
   how many were called INVALID. With `--stored WORKSPACE`, also all pairs of stored A/A runs.
4. *Repairs* (`--repair-steps N`, nano-swe). For each planted harness fault: does the rules agent,
   after N training steps, propose an edit that undoes it, judged by what the sources then do?

    python benchmarks/faults.py [--suite swe|math] [--tasks 256] [--replicas 5] [--controls 300]
    python benchmarks/faults.py --stored DIR --repair-steps 4
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from faults_cases import ALL_FAULTS, HONEST, INVALID, Planted, honest
from faults_lab import Bench, Made
from faults_math import MATH_FAULTS, MATH_HONEST, MATH_INVALID
from faults_oracle import repaired
from faults_tables import arms_table, cost_line, detection, false_alarms, repair_table

from meta_agent.core.gate import MIN_TRAINING_SEEDS, Arm, Context, Finding, Terms, judge_live
from meta_agent.core.lab.inspector import findings_about
from meta_agent.core.lab.regrading import Grade, records_of
from meta_agent.core.protocols import VerdictKind
from meta_agent.core.rollouts import RolloutStore
from meta_agent.domains import load_domain
from meta_agent.domains.nano.planted._fault import Fault
from meta_agent.domains.nano.sources import sources
from meta_agent.policies.training import PolicyChild

ALPHA = 0.05 / 10  # ten candidates share the error
Z_ONE_SIDED = 1.6448536269514722
CONTROL_SEED, PLANTED_SEED, SEEDS = 10_000, 50_000, 100_000
BASELINES = 25


@dataclass(frozen=True, slots=True)
class Row:
    """One arm against its baseline, judged in four ways."""

    name: str
    found: dict[str, str]  # finding code -> the hardest severity
    unnamed: list[str]  # vetoes that name no rollout, file or number
    verdict: str
    without: bool  # promoted on clean success, without validity checks
    raw: bool  # promoted on success as recorded
    kept: bool  # more was solved, by however little: what a loop of scores alone keeps
    rewarded: bool  # promoted on the candidate's own reward
    clean: float
    success: float

    @property
    def invalid(self) -> bool:
        return self.verdict == VerdictKind.INVALID.value


@dataclass
class Results:
    """Everything that was measured."""

    planted: list[Row] = field(default_factory=list)
    controls: list[Row] = field(default_factory=list)
    stored: list[Row] = field(default_factory=list)
    repairs: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """What is planted in one of the nano suites."""

    faults: Mapping[str, Fault]
    invalid: tuple[Planted, ...]
    honest: Mapping[str, tuple[Fault, ...]]
    policy: str


SUITES = {
    "swe": Suite(ALL_FAULTS, INVALID, HONEST, "nano"),
    "math": Suite(MATH_FAULTS, MATH_INVALID, MATH_HONEST, "nano:math"),
}


# --- judging one arm -----------------------------------------------------------------------------


def judged(
    name: str, before: Made, after: Made, *, overlap: bool = False, suite: str = "swe"
) -> Row:
    """All that the loop asks, then the gate with and without it."""
    arms = before.arm("baseline"), after.arm(name)
    trained = {r.task_hash for r in after.rollouts} if overlap else set()
    found = findings_about(
        arms,
        (records_of(before.rollouts), records_of(after.rollouts)),
        Context(trained),
        grade=_grade(suite),
    )
    return _row(name, arms, (*after.findings, *found))


@cache
def _grade(suite: str) -> Grade:
    return load_domain(suite).regrade


def _row(name: str, arms: tuple[Arm, Arm], found: Sequence[Finding], min_seeds: int = 1) -> Row:
    against = [finding for finding in found if finding.side != "baseline"]
    bare = (_without_flags(arms[0]), _without_flags(arms[1]))
    ended = [row for row in arms[1].rows() if row.success is not None]
    return Row(
        name=name,
        found=_hardest(against),
        unnamed=[f.code for f in against if f.severity == "veto" and not (f.lines or f.numbers)],
        verdict=_verdict(arms, against, min_seeds) if ended else VerdictKind.INVALID.value,
        without=_verdict(arms, (), min_seeds) == "PROMOTE",
        raw=_verdict(bare, (), min_seeds) == "PROMOTE",
        kept=_solved(bare[1]) > _solved(bare[0]),
        rewarded=_reward_rose(*arms),
        clean=_share(row.clean for row in ended),
        success=_share(row.success for row in ended),
    )


def _solved(arm: Arm) -> float:
    return _share(row.success for row in arm.rows())


def _share(values: Iterable[bool | None]) -> float:
    known = [bool(value) for value in values]
    return sum(known) / len(known) if known else 0.0


def _hardest(found: Iterable[Finding]) -> dict[str, str]:
    order = ("warn", "unproven", "veto")
    hardest: dict[str, str] = {}
    for finding in found:
        known = hardest.get(finding.code, "warn")
        hardest[finding.code] = max(known, finding.severity, key=order.index)
    return hardest


def _verdict(arms: tuple[Arm, Arm], findings: Sequence[Finding], min_seeds: int) -> str:
    return judge_live(*arms, Terms(ALPHA, min_seeds=min_seeds), findings).kind.value


def _without_flags(arm: Arm) -> Arm:
    """As somebody sees it who looks at success alone, and drops what has no outcome."""
    seeds = {
        seed: tuple(replace(row, flags=()) for row in rows) for seed, rows in arm.seeds.items()
    }
    return replace(arm, seeds=seeds)


def _reward_rose(baseline: Arm, candidate: Arm) -> bool:
    sides = [
        [row.reward for row in arm.rows() if row.reward is not None and math.isfinite(row.reward)]
        for arm in (baseline, candidate)
    ]
    if min(map(len, sides)) < 2:
        return False
    error = math.sqrt(sum(statistics.variance(side) / len(side) for side in sides))
    gain = statistics.fmean(sides[1]) - statistics.fmean(sides[0])
    return gain > Z_ONE_SIDED * error


# --- the parts of the benchmark ------------------------------------------------------------------


def planted(
    bench: Bench, suite: str, base: Any, baselines: Sequence[Made], replicas: int
) -> Iterable[Row]:
    """Each case, with other sampling seeds than any baseline has."""
    of = SUITES[suite]
    for case, replica in itertools.product(of.invalid, range(replicas)):
        seed = bench.first_seed + PLANTED_SEED + 100 * of.invalid.index(case) + replica
        made = bench.measure(case.files(base, of.faults), seed, exploit=case.exploit)
        if case.spoil is not None:
            made = case.spoil(made, random.Random(seed))
        before = baselines[replica % len(baselines)]
        yield judged(case.name, before, made, overlap=case.overlap, suite=suite)


def controls(
    bench: Bench, suite: str, base: Any, baselines: Sequence[Made], count: int
) -> Iterable[Row]:
    """Honest edits in turn, each time with another seed."""
    edits = SUITES[suite].honest
    for index, name in zip(range(count), itertools.cycle(edits), strict=False):
        files = honest(name, base, edits)
        made = bench.measure(files, bench.first_seed + CONTROL_SEED + index)
        yield judged(name, baselines[index % len(baselines)], made, suite=suite)


def stored(workspace: Path) -> Iterable[Row]:
    """All pairs of evaluations that one harness left in a workspace: trained policies, A/A.

    Judged as what they are, training changes of one seed: never enough for a promotion.
    """
    store = RolloutStore(workspace / "rollouts")
    names = [name for name in store.names() if "/eval-" in name and "-confirm-" in name]
    made = [list(store.iter(name)) for name in names]
    commits = {rows[0].harness_commit for rows in made}
    if len(commits) > 1:
        raise SystemExit(f"{workspace} holds {len(commits)} harnesses, so these are no A/A pairs")
    records = [records_of(rows) for rows in made]
    arms = [Made(rows, len(rows), "same").arm(name) for name, rows in zip(names, made, strict=True)]
    for first, second in itertools.combinations(range(len(made)), 2):
        pair = arms[first], arms[second]
        found = findings_about(pair, (records[first], records[second]), grade=_grade("swe"))
        yield _row("stored A/A pair", pair, found, MIN_TRAINING_SEEDS)


def repairs(bench: Bench, base: Any, steps: int, policy: str) -> Iterable[dict[str, Any]]:
    """For each planted harness fault, the place of the first proposal that undoes it."""
    for name, fault in ALL_FAULTS.items():
        began = time.perf_counter()
        files = fault.apply(base)
        try:
            with tempfile.TemporaryDirectory() as out:
                made = bench.proposals(files, steps=steps, out=Path(out) / "p", base_policy=policy)
        except Exception as error:  # a fault may stop training: then nobody proposes anything
            made, told = [], f"{type(error).__name__}: {error}"[:120]
        else:
            told = ""
        ranks = [rank for rank, edited in enumerate(made, 1) if repaired(fault, files, edited)]
        yield {
            "fault": name,
            "factor": fault.factor,
            "ruled": fault.ruled,
            "proposals": len(made),
            "rank": ranks[0] if ranks else None,
            "failed": told,
            "seconds": time.perf_counter() - began,
        }


# --- running -------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=256, help="confirm tasks of each arm")
    parser.add_argument("--replicas", type=int, default=5, help="sampling seeds of each case")
    parser.add_argument("--controls", type=int, default=300, help="clean controls")
    parser.add_argument("--repair-steps", type=int, default=0, help="0 asks for no repairs")
    parser.add_argument("--seed", type=int, default=0, help="another number draws all anew")
    parser.add_argument("--stored", type=Path, metavar="DIR", help="a workspace of A/A runs")
    parser.add_argument("--base", choices=("seed", "competent"), default="competent")
    parser.add_argument("--suite", choices=sorted(SUITES), default="swe")
    parser.add_argument("--policy", help="default: the suite's warm start")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON here")
    args = parser.parse_args()
    args.policy = args.policy or SUITES[args.suite].policy
    if args.repair_steps and args.suite != "swe":
        parser.error("repairs are judged on nano-swe only")
    return args


def measure(args: argparse.Namespace, results: Results) -> None:
    base = sources(args.suite, args.base)
    with PolicyChild(threads=args.threads) as child:
        child.load(args.policy)
        domain, first_seed = load_domain(args.suite), SEEDS * args.seed
        bench = Bench(child, base, tasks=args.tasks, first_seed=first_seed, domain=domain)
        if args.replicas or args.controls:
            needed = min(BASELINES, max(args.replicas, args.controls, 1))
            baselines = [bench.measure(base, bench.first_seed + seed) for seed in range(needed)]
            told = args.suite, base, baselines
            results.planted += _told("planted", planted(bench, *told, args.replicas), results)
            results.controls += _told("controls", controls(bench, *told, args.controls), results)
        if args.repair_steps:
            made = repairs(bench, base, args.repair_steps, args.policy)
            results.repairs += _told("repairs", made, results)
        results.cost["rollouts"] = bench.rollouts_made


def _told(what: str, rows: Iterable[Any], results: Results) -> list[Any]:
    """All rows, with a line of progress now and then, and what they took."""
    found, began = [], time.perf_counter()
    for row in rows:
        found.append(row)
        if len(found) % 25 == 0:
            print(f"{what}: {len(found)}", flush=True)
    results.cost[f"{what}_sec"] = round(time.perf_counter() - began, 1)
    return found


def main() -> None:
    args, results = arguments(), Results()
    began = time.perf_counter()
    if args.stored:
        results.stored += stored(args.stored)
    measure(args, results)
    results.cost["wall_sec"] = round(time.perf_counter() - began, 1)
    if args.out:
        args.out.write_text(json.dumps(asdict(results), indent=1))
    if results.planted:
        detection(SUITES[args.suite].invalid, results.planted)
        arms_table(results.planted, results.controls)
    if results.controls:
        false_alarms("Clean controls: honest edits of the competent harness", results.controls)
    if results.stored:
        false_alarms("Clean controls: pairs of stored A/A training runs", results.stored)
    if results.repairs:
        repair_table(results.repairs, args.repair_steps)
    cost_line(results)


if __name__ == "__main__":
    main()
