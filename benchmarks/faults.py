"""The planted-fault benchmark: what validity checks find, block, and call by mistake.

Four tables, on nano-swe with the warm-start policy, a real sandbox and the sealed grader:

1. *Detection.* Each planted case, replicated over sampling seeds, against the competent harness:
   how often a right detector spoke, and whether the case was vetoed.
2. *Promotions.* Would the gate promote it? With validity checks; with the same statistics on clean
   success and no checks; on raw success; on the candidate's own reward.
3. *Clean controls.* The competent harness under honest edits and other seeds: findings by code, and
   how many were called INVALID. With `--stored WORKSPACE`, also all pairs of stored A/A runs.
4. *Repairs* (`--repair-steps N`). For each planted harness fault: does the rules agent, after N
   training steps, propose an edit that undoes it, judged by what the sources then do?

    python benchmarks/faults.py [--tasks 256] [--replicas 5] [--controls 300] [--out FILE]
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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from faults_cases import ALL_FAULTS, HONEST, INVALID, Planted, honest
from faults_lab import Bench, Made
from faults_oracle import repaired

from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.sources import sources
from meta_agent.gate import (
    Arm,
    Finding,
    explained,
    find_all,
    inspect_arms,
    inspect_rollouts,
    judge_live,
    wilson,
)
from meta_agent.gate.detectors import DETECTORS
from meta_agent.gate.statistics import ErrorBudget
from meta_agent.protocols import Factor, VerdictKind
from meta_agent.rollouts import RolloutStore
from meta_agent.training import PolicyChild

BUDGET = ErrorBudget(0.05, candidates=10, looks=1)
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


# --- judging one arm -----------------------------------------------------------------------------


def judged(name: str, before: Made, after: Made, *, overlap: bool = False) -> Row:
    """All detectors, then the gate with and without them."""
    arms = before.arm("baseline"), after.arm(name)
    trained = {r.task_hash for r in after.rollouts} if overlap else set()
    rows = (*find_all(*arms, train_hashes=trained), *inspect_arms(*arms))
    records = inspect_rollouts(after.rollouts, baseline=before.rollouts, regrade=NanoSwe().regrade)
    found = explained((*after.findings, *rows, *records), *arms)
    return _row(name, arms, found)


def _row(
    name: str, arms: tuple[Arm, Arm], found: Sequence[Finding], factor: Factor = "scaffold"
) -> Row:
    against = [finding for finding in found if finding.side != "baseline"]
    bare = (_without_flags(arms[0]), _without_flags(arms[1]))
    ended = [row for row in arms[1].rows() if row.success is not None]
    return Row(
        name=name,
        found=_hardest(against),
        unnamed=[f.code for f in against if f.severity == "veto" and not (f.lines or f.numbers)],
        verdict=_verdict(arms, against, factor) if ended else VerdictKind.INVALID.value,
        without=_verdict(arms, (), factor) == "PROMOTE",
        raw=_verdict(bare, (), factor) == "PROMOTE",
        rewarded=_reward_rose(*arms),
        clean=_share(row.clean for row in ended),
        success=_share(row.success for row in ended),
    )


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


def _verdict(arms: tuple[Arm, Arm], findings: Sequence[Finding], factor: Factor) -> str:
    return judge_live(
        *arms, factor=factor, budget=BUDGET, look=0, final_look=True, findings=findings
    ).kind.value


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


def planted(bench: Bench, base: Any, baselines: Sequence[Made], replicas: int) -> Iterable[Row]:
    """Each case, with other sampling seeds than any baseline has."""
    for case, replica in itertools.product(INVALID, range(replicas)):
        seed = bench.first_seed + PLANTED_SEED + 100 * INVALID.index(case) + replica
        made = bench.measure(case.files(base), seed, exploit=case.exploit)
        if case.spoil is not None:
            made = case.spoil(made, random.Random(seed))
        before = baselines[replica % len(baselines)]
        yield judged(case.name, before, made, overlap=case.overlap)


def controls(bench: Bench, base: Any, baselines: Sequence[Made], count: int) -> Iterable[Row]:
    """Honest edits in turn, each time with another seed."""
    names = itertools.cycle(HONEST)
    for index, name in zip(range(count), names, strict=False):
        made = bench.measure(honest(name, base), bench.first_seed + CONTROL_SEED + index)
        yield judged(name, baselines[index % len(baselines)], made)


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
    records = [inspect_rollouts(rows, regrade=NanoSwe().regrade) for rows in made]
    arms = [Made(rows, len(rows), "same").arm(name) for name, rows in zip(names, made, strict=True)]
    for first, second in itertools.combinations(range(len(made)), 2):
        pair = arms[first], arms[second]
        found = (*find_all(*pair), *inspect_arms(*pair), *records[second])
        yield _row("stored A/A pair", pair, found, "recipe")


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


# --- tables --------------------------------------------------------------------------------------


def interval(hits: int, total: int) -> str:
    low, high = wilson(hits, total)
    share = hits / total if total else 0.0
    return f"{hits}/{total} = {share:.1%} [{low:.1%}, {high:.1%}]"


def _spoke(case: Planted, row: Row) -> bool:
    right = [each for each in DETECTORS if each.name in case.by]
    return any(each.makes(code) for each in right for code in row.found)


def detection(rows: Sequence[Row]) -> None:
    print("\n1. Detection of planted cases, and 2. what would have been promoted\n")
    head = ("case", "found", "INVALID", "promoted", "no checks", "raw", "reward", "clean", "codes")
    print("  {:<26}{:>6}{:>9}{:>9}{:>10}{:>5}{:>7}{:>7}  {}".format(*head))
    for case in INVALID:
        mine = [row for row in rows if row.name == case.name]
        if mine:
            _line(case, mine)
    by_case = {case.name: case for case in INVALID}
    print(f"\n  found by a right detector   {_counted(rows, lambda r: _spoke(by_case[r.name], r))}")
    print(f"  called INVALID              {_counted(rows, lambda r: r.invalid)}")
    print(f"  promoted, all checks        {_counted(rows, lambda r: r.verdict == 'PROMOTE')}")
    print(f"  promoted, no checks         {_counted(rows, lambda r: r.without)}")
    print(f"  promoted on raw success     {_counted(rows, lambda r: r.raw)}")
    print(f"  promoted on own reward      {_counted(rows, lambda r: r.rewarded)}")
    winners = [row for row in rows if row.without or row.raw or row.rewarded]
    print(f"  winners by any of these     {len(winners)}, of which blocked "
          f"{_counted(winners, lambda r: r.verdict != 'PROMOTE')}")  # fmt: skip
    print(f"  vetoes without evidence     {sum(len(row.unnamed) for row in rows)}")
    _per_detector(rows, by_case)


def _line(case: Planted, rows: Sequence[Row]) -> None:
    n = len(rows)
    codes = Counter(f"{code}:{severity}" for row in rows for code, severity in row.found.items())
    told = ", ".join(f"{code} x{count}" for code, count in codes.most_common(4))
    counts = [
        sum(_spoke(case, row) for row in rows),
        sum(row.invalid for row in rows),
        sum(row.verdict == "PROMOTE" for row in rows),
        sum(row.without for row in rows),
        sum(row.raw for row in rows),
        sum(row.rewarded for row in rows),
    ]
    cells = "{:>4}/{n}{:>7}/{n}{:>7}/{n}{:>8}/{n}{:>3}/{n}{:>5}/{n}".format(*counts, n=n)
    print(f"  {case.name:<26}{cells}{statistics.fmean(r.clean for r in rows):>7.2f}  {told}")


def _counted(rows: Sequence[Row], test: Callable[[Row], bool]) -> str:
    return interval(sum(map(test, rows)), len(rows))


def _per_detector(rows: Sequence[Row], by_case: dict[str, Planted]) -> None:
    print("\n  recall per detector, on the cases that are its to find:")
    for each in DETECTORS:
        mine = [row for row in rows if each.name in by_case[row.name].by]
        if mine:
            told = _counted(mine, lambda row: any(map(each.makes, row.found)))  # noqa: B023
            print(f"    {each.name:<28} {told}")


def false_alarms(title: str, rows: Sequence[Row]) -> None:
    print(f"\n3. {title}\n")
    print(f"  called INVALID              {_counted(rows, lambda r: r.invalid)}")
    print(f"  promoted                    {_counted(rows, lambda r: r.verdict == 'PROMOTE')}")
    codes = Counter(
        f"{code} ({severity}) in {row.name}" for row in rows for code, severity in row.found.items()
    )
    for code, count in codes.most_common(12):
        print(f"    {count:>4}  {code}")


def repair_table(rows: Sequence[dict[str, Any]], steps: int) -> None:
    print(f"\n4. Repairs proposed by the rules agent, after {steps} training steps\n")
    for row in rows:
        told = row["failed"] or f"rank {row['rank'] or '-'} of {row['proposals']}"
        print(f"  {row['fault']:<22}{row['factor']:<12}{'ruled' if row['ruled'] else '':<7}{told}")
    for ruled in (True, False):
        part = [row for row in rows if row["ruled"] is ruled]
        kind = "with a rule" if ruled else "without one"
        for limit in (3, 40):
            hits = sum(bool(row["rank"]) and row["rank"] <= limit for row in part)
            place = "in the top 3" if limit == 3 else "proposed at all"
            print(f"  {kind:<12} {place:<16} {interval(hits, len(part))}")


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
    parser.add_argument("--policy", default="nano")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON here")
    return parser.parse_args()


def measure(args: argparse.Namespace, results: Results) -> None:
    base = sources("swe", args.base)
    with PolicyChild(threads=args.threads) as child:
        child.load(args.policy)
        bench = Bench(child, base, tasks=args.tasks, first_seed=SEEDS * args.seed)
        if args.replicas or args.controls:
            needed = min(BASELINES, max(args.replicas, args.controls, 1))
            baselines = [bench.measure(base, bench.first_seed + seed) for seed in range(needed)]
            results.planted += _told("planted", planted(bench, base, baselines, args.replicas))
            results.controls += _told("controls", controls(bench, base, baselines, args.controls))
        if args.repair_steps:
            made = repairs(bench, base, args.repair_steps, args.policy)
            results.repairs += _told("repairs", made)
        results.cost["rollouts"] = bench.rollouts_made


def _told(what: str, rows: Iterable[Any]) -> list[Any]:
    """All rows, with a line of progress now and then."""
    found = []
    for row in rows:
        found.append(row)
        if len(found) % 25 == 0:
            print(f"{what}: {len(found)}", flush=True)
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
        detection(results.planted)
    if results.controls:
        false_alarms("Clean controls: honest edits of the competent harness", results.controls)
    if results.stored:
        false_alarms("Clean controls: pairs of stored A/A training runs", results.stored)
    if results.repairs:
        repair_table(results.repairs, args.repair_steps)
    print(f"\ncost: {results.cost}")


if __name__ == "__main__":
    main()
