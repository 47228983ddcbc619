"""What further training tasks are worth: nano-math with and without `generate` in its recipe.

    python benchmarks/generated.py [--first 1] [--seeds 4] [--pairs easier:all,few_more:few]

Each arm trains once a seed, from the warm start, with the competent harness and equal attempts:

* `all`: the suite's 1,536 training tasks;
* `easier`: the same and what the rule declares, 512 sums of two steps;
* `few`: 64 of the training tasks;
* `few_more`: these 64 and 1,024 generated sums of three to six steps.

Printed are the share of dead groups and clean success on the search and confirm splits (one attempt
a task). Last come the differences of each pair.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Final

from _nano import STAMP, opened

from meta_agent.core.lab.training import settings_of
from meta_agent.core.protocols import SPLITS, Domain, PlannedRollout
from meta_agent.core.rollouts import Runner
from meta_agent.core.task_splits import Resplit, WithGenerated
from meta_agent.domains import load_domain
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.policies.training import PolicyChild, train_policy

FEW: Final = 64
DECLARED: Final = {
    "easier": "sums:steps=2:size=512",
    "few_more": ",".join(f"sums:steps={steps}:size=256" for steps in (3, 4, 5, 6)),
}
ARMS: Final = ("all", "easier", "few", "few_more")


def domain_of(arm: str) -> Domain:
    """Returns nano-math with the training tasks of an arm."""
    domain = load_domain("math")
    if arm.startswith("few"):
        splits = {split: list(domain.tasks(split)) for split in SPLITS}
        domain = Resplit(domain, {**splits, "train": splits["train"][:FEW]})
    return WithGenerated(domain, DECLARED[arm]) if arm in DECLARED else domain


def measured(arm: str, seed: int, steps: int, groups: int, child: PolicyChild) -> float:
    """Trains under one arm, prints a line about it, and returns the clean success afterwards."""
    domain = domain_of(arm)
    files = seed_files("math", variant="competent").files
    with opened(files) as session, tempfile.TemporaryDirectory() as folder:
        recipe = {**settings_of(session.recipe), "groups_per_step": groups}
        runner = Runner(domain, session, child, STAMP)
        trained = train_policy(
            child, runner, session, domain, recipe,
            seed=seed, steps=steps, base_policy="nano:math", out_dir=Path(folder) / arm,
        )  # fmt: skip
        tasks = [task for split in ("search", "confirm") for task in domain.tasks(split)]
        rollouts = runner.run([PlannedRollout(task, 0, 7, task.key) for task in tasks])
    clean = statistics.fmean(rollout.clean for rollout in rollouts)
    dead = statistics.fmean(row["dead_group_ratio"] for row in trained.metrics)
    line = {"arm": arm, "seed": seed, "attempts": trained.rollouts_made, "clean": round(clean, 4)}
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({**line, "dead": round(dead, 3), "load": load}), flush=True)
    return clean


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--pairs", default="easier:all,few_more:few")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--groups", type=int, default=8)
    options = parser.parse_args()
    pairs = [pair.split(":") for pair in options.pairs.split(",")]
    arms = sorted({arm for pair in pairs for arm in pair}, key=ARMS.index)
    clean: dict[str, list[float]] = {arm: [] for arm in arms}
    with PolicyChild(threads=1) as child:
        for seed in range(options.first, options.first + options.seeds):
            for arm in arms:
                clean[arm].append(measured(arm, seed, options.steps, options.groups, child))
    for arm, base in pairs:
        gains = [round(a - b, 4) for a, b in zip(clean[arm], clean[base], strict=True)]
        print(
            json.dumps(
                {"arm": arm, "against": base, "gains": gains, "mean": statistics.fmean(gains)}
            )
        )


if __name__ == "__main__":
    main()
