"""A/A training runs: one harness trained with many seeds, and what each policy solved.

Two runs of it differ by luck alone, so their differences are what a gate has to tell from a gain.
Writes one JSON file: by training seed, clean success on each confirm task as a string of 0 and 1.
`benchmarks/gate.py` resamples from it. Resumes where it was stopped.

    python benchmarks/aa_runs.py --seeds 32 --workspace DIR --out benchmarks/data/aa_nano_swe.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from meta_agent.composition.opening import first_version, open_run
from meta_agent.core.lab.live import Job
from meta_agent.core.settings import resolve
from meta_agent.reports import open_display


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--variant", default="competent")
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    config = resolve(
        {"workspace": args.workspace, "harness": args.variant, "sandbox": "process", "seed": 0}
    )
    display = open_display()
    with open_run(config, display, purpose="aa") as run:
        tree = run.repo.tree(first_version(run).commit)
        size = run.plan.confirm
        jobs = [Job(tree, seed, run.plan.steps, "confirm", size) for seed in range(args.seeds)]
        run.lab.prepare(jobs)
        rows = {job.seed: run.lab.rollouts(run.lab.measure(job).shard) for job in jobs}
        steps = run.plan.steps
        run.finish()
    display.close()
    tasks = [rollout.task_key for rollout in rows[0]]
    clean = {
        seed: "".join("01"[rollout.clean] for rollout in found) for seed, found in rows.items()
    }
    assert all([rollout.task_key for rollout in found] == tasks for found in rows.values())
    told = {
        "suite": "nano-swe",
        "harness": args.variant,
        "steps": steps,
        "evaluator_hash": rows[0][0].evaluator_hash,
        "tasks": len(tasks),
        "clean": clean,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(told, indent=0) + "\n")
    shares = [line.count("1") / len(line) for line in clean.values()]
    print(f"{len(clean)} runs, clean success {min(shares):.3f} to {max(shares):.3f}")


if __name__ == "__main__":
    main()
