"""What each planted fault of a nano suite costs, by real training: its truth, in points.

    python benchmarks/fault_costs.py --suite math [--base competent] [--only NAME ...] [--seeds 0 1]
        [--policy nano:math] [--out FILE]

Each case is the base's sources with one fault (`none`: without), trained as a run trains them and
measured on the confirm split. Success is split from clean success, so that a leak shows as one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _nano import STAMP, opened

from meta_agent.core.lab.training import settings_of
from meta_agent.core.protocols import Domain, PlannedRollout, Rollout
from meta_agent.core.rollouts import Runner
from meta_agent.domains import load_domain
from meta_agent.domains.nano.planted.seeds import PLANTED
from meta_agent.domains.nano.sources import SUITES, sources
from meta_agent.policies.training import PolicyChild, train_policy

NONE, UNTRAINED = "none", "untrained"


def main() -> None:
    args = _arguments()
    faults = {fault.name: fault for fault in PLANTED[args.suite][0]}
    plain = sources(args.suite, args.base)
    rows = []
    for name in args.only or [UNTRAINED, NONE, *faults]:
        files = faults[name].apply(plain) if name in faults else plain
        for seed in args.seeds:
            row = measure(args, files, seed, steps=0 if name == UNTRAINED else args.steps)
            rows.append({"fault": name, "seed": seed, **row})
            print(json.dumps(rows[-1]), flush=True)
    if args.out:
        told = {name: getattr(args, name) for name in ("suite", "base", "steps", "policy")}
        args.out.write_text(json.dumps({**told, "rows": rows}, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, default="math")
    parser.add_argument("--base", choices=("seed", "competent"), default="competent")
    parser.add_argument("--only", metavar="NAME", nargs="+", help=f"faults, {NONE}, {UNTRAINED}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--policy", help="default: the suite's warm start")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON here")
    args = parser.parse_args()
    args.policy = args.policy or f"nano:{args.suite}"
    return args


def measure(
    args: argparse.Namespace, files: Mapping[str, bytes], seed: int, *, steps: int
) -> dict[str, Any]:
    """Trains one version on one seed and evaluates it."""
    domain = load_domain(args.suite)
    scratch = tempfile.TemporaryDirectory()
    with scratch as folder, PolicyChild(threads=1) as child, opened(files) as session:
        runner = Runner(domain, session, child, STAMP)
        child.load(args.policy)
        metrics: list[Any] = []
        if steps:
            metrics = train_policy(
                child, runner, session, domain, settings_of(session.recipe),
                seed=seed, steps=steps, base_policy=args.policy, out_dir=Path(folder) / "out",
            ).metrics  # fmt: skip
        return told(evaluate(domain, runner, seed), metrics)


def evaluate(domain: Domain, runner: Runner, seed: int) -> list[Rollout]:
    """One attempt at each task of the confirm split."""
    tasks = domain.tasks("confirm")
    return runner.run([PlannedRollout(task, 0, seed, task.key) for task in tasks])


def told(rollouts: Sequence[Rollout], metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of one measurement, in per cent."""
    share = 100 / len(rollouts)
    stops = Counter(rollout.stop_reason for rollout in rollouts)
    return {
        "clean": round(share * sum(rollout.clean for rollout in rollouts), 1),
        "solved": round(share * sum(bool(rollout.outcome) for rollout in rollouts), 1),
        "stops": {reason: round(share * count, 1) for reason, count in sorted(stops.items())},
        "dead_groups": [round(row["dead_group_ratio"], 2) for row in metrics[::10]],
        "tokens_mean": round(
            sum(rollout.cost.get("completion_tokens", 0) for rollout in rollouts) / len(rollouts), 1
        ),
    }


if __name__ == "__main__":
    main()
