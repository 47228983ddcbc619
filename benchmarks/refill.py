"""What a refill of dropped groups is worth at equal attempts, alone and with a stateful filter.

    python benchmarks/refill.py [--seeds 4] [--steps 30] [--groups 8]

For each seed three trainings of nano-swe from its warm start, with the competent harness:

* `plain`: the shipped filter, which drops groups of equal rewards; all steps;
* `refill`: the same filter and `refill_factor = 3`; it ends where the next step would take more
  attempts than `plain` took in all, and its checkpoint is the last one within them;
* `remembers`: as `refill`, with a filter that drops groups with less than half of the usual spread,
  a moving average that is its state.

Of each it prints steps, attempts, the shares of dropped and of refilled groups, and clean success
on the search and confirm splits (one attempt a task). Last come the differences to `plain`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from _nano import STAMP, clean_success, opened

from meta_agent.core.errors import Interrupted
from meta_agent.core.lab.training import kept_folder, settings_of
from meta_agent.core.rollouts import Runner
from meta_agent.domains.nano import NanoSwe
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.policies.training import PolicyChild, train_policy

REMEMBERS = b"""
STATE = {"usual": 0.0}


def keep(groups, state):
    spreads = [max(group["rewards"]) - min(group["rewards"]) for group in groups]
    weights = [float(spread > max(1e-6, state["usual"] / 2)) for spread in spreads]
    for spread in spreads:
        state["usual"] = 0.95 * state["usual"] + 0.05 * spread
    return weights, state
"""
ARMS = ("plain", "refill", "remembers")


def trained(
    given: argparse.Namespace, child: PolicyChild, seed: int, arm: str, folder: Path
) -> dict[str, Any]:
    """One training within the attempts of `plain`, and the evaluation of what came of it."""
    files = dict(seed_files("swe", variant="competent").files)
    if arm == "remembers":
        files["swe/filter.py"] = REMEMBERS
    out, rows, attempts = folder / f"{seed}-{arm}", list[Any](), [0]
    with opened(files) as session:
        recipe = {**settings_of(session.recipe), "groups_per_step": given.groups}
        step = given.groups * int(recipe["num_generations"])
        recipe |= {} if arm == "plain" else {"refill_factor": 3.0}

        def on_metrics(row: dict[str, Any]) -> None:
            rows.append(row)
            attempts.append(attempts[-1] + round(step * (1 + row.get("refilled_ratio", 0.0))))

        with suppress(Interrupted):
            train_policy(
                child, Runner(NanoSwe(), session, child, STAMP), session, NanoSwe(), recipe,
                seed=seed, steps=given.steps + 1, base_policy="nano", out_dir=out,
                keep_every=1, seal_every=10**6, on_metrics=on_metrics,
                stopping=lambda: attempts[-1] + step > step * given.steps,
            )  # fmt: skip
        last = max(at for at, count in enumerate(attempts) if count <= step * given.steps)
        child.load(kept_folder(out) / str(last))
        clean = clean_success(child, session, "search", "confirm")
    shares = ("dropped_group_ratio", "refilled_ratio", "words_by_task")
    means = {name: statistics.fmean(row.get(name, 0.0) for row in rows[:last]) for name in shares}
    return {"arm": arm, "seed": seed, "steps": last, "attempts": attempts[last], "clean": clean} | {
        name: round(value, 3) for name, value in means.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--groups", type=int, default=8)
    given = parser.parse_args()
    clean: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder, PolicyChild(threads=1) as child:
        for seed in range(1, given.seeds + 1):
            for arm in ARMS:
                row = trained(given, child, seed, arm, Path(folder))
                clean[arm].append(row["clean"])
                print(json.dumps({**row, "load": round(os.getloadavg()[0], 1)}), flush=True)
    for arm in ARMS[1:]:
        gains = [a - b for a, b in zip(clean[arm], clean["plain"], strict=True)]
        print(json.dumps({"arm": arm, "gains": gains, "mean": statistics.fmean(gains)}))


if __name__ == "__main__":
    main()
