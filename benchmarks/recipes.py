"""What recipes are worth at equal attempts: published algorithms, and a refill of dropped groups.

    python benchmarks/recipes.py [--arms plain,refill] [--seeds 4] [--steps 30] [--groups 8]

For each seed one training an arm of nano-swe from its warm start, with the competent harness:

* `plain`: the shipped recipe and filter, which drops groups of equal rewards; all steps;
* `refill`: the same filter and `refill_factor = 3`; as every arm, it ends where the next step would
  take more attempts than `plain` took in all, and its checkpoint is the last one within them;
* `remembers`: as `refill`, with a filter that drops groups with less than half of the usual spread,
  a moving average that is its state;
* the name of a preset: the shipped recipe with the preset's keys in place of its own. `dra_grpo`
  also divides the reward of an attempt by its similarity to the others of its group.

Of each it prints steps, attempts, the shares of dropped and of refilled groups, and clean success
on the search and confirm splits (one attempt a task). Last come the differences to the first arm.
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
from meta_agent.core.harness.recipe import PRESETS
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
DIVERSE = b"""

def reward_group(rollouts):
    from difflib import SequenceMatcher

    texts = [
        " ".join(str(m.get("content")) for m in r["messages"] if m["role"] == "assistant")
        for r in rollouts
    ]
    alike = [
        sum(SequenceMatcher(None, text, other).ratio() for other in texts) / len(texts)
        for text in texts
    ]
    return [{"solved": solved(r) / (1.0 + share)} for r, share in zip(rollouts, alike)]


def reward(rollout):
    return {"submitted": submitted(rollout), "leak": leak(rollout)}
"""
REWARD_BEGINS = b"def reward(rollout):"  # the seed's own function, which `DIVERSE` replaces
ARMS = ("plain", "refill", "remembers", *PRESETS)


def harness(arm: str) -> dict[str, bytes]:
    """Returns the files of the competent harness with the filter, recipe and reward of an arm."""
    files = dict(seed_files("swe", variant="competent").files)
    if arm == "remembers":
        files["swe/filter.py"] = REMEMBERS
    if arm in PRESETS:
        lines = files["swe/recipe.toml"].decode().splitlines()
        other = [line for line in lines if line.partition(" = ")[0] not in PRESETS[arm]]
        files["swe/recipe.toml"] = "\n".join([f'preset = "{arm}"', *other, ""]).encode()
    if arm == "dra_grpo":
        files["swe/reward.py"] = files["swe/reward.py"].partition(REWARD_BEGINS)[0] + DIVERSE
    return files


def trained(
    given: argparse.Namespace, child: PolicyChild, seed: int, arm: str, folder: Path
) -> dict[str, Any]:
    """Makes one training within the attempts of `plain`, and evaluates its last checkpoint."""
    out, rows, attempts = folder / f"{seed}-{arm}", list[Any](), [0]
    with opened(harness(arm)) as session:
        recipe = {**settings_of(session.recipe), "groups_per_step": given.groups}
        step = given.groups * int(recipe["num_generations"])
        recipe |= {"refill_factor": 3.0} if arm in ("refill", "remembers") else {}

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
    parser.add_argument("--arms", default="plain,refill,remembers", help=", ".join(ARMS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--groups", type=int, default=8)
    given = parser.parse_args()
    arms = given.arms.split(",")
    clean: dict[str, list[float]] = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as folder, PolicyChild(threads=1) as child:
        for seed in range(1, given.seeds + 1):
            for arm in arms:
                row = trained(given, child, seed, arm, Path(folder))
                clean[arm].append(row["clean"])
                print(json.dumps({**row, "load": round(os.getloadavg()[0], 1)}), flush=True)
    for arm in arms[1:]:
        gains = [a - b for a, b in zip(clean[arm], clean[arms[0]], strict=True)]
        print(json.dumps({"arm": arm, "gains": gains, "mean": statistics.fmean(gains)}))


if __name__ == "__main__":
    main()
