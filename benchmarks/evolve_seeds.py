"""Whole runs over several seeds, from the seed harness and from the competent one.

Prints one row per run: vault clean success before and after, every verdict, and whether any
promoted branch was in truth invalid (its own confirm rollouts, counted again from the stored
shards). The planted faults are named beside each row, as the truth that no agent saw.

    python benchmarks/evolve_seeds.py --seeds 0 1 2 3 4 --variants seed competent --out DIR
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.gate import wilson
from meta_agent.ledger import Ledger
from meta_agent.rollouts import RolloutStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", choices=["swe", "math", "code"], default="swe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--variants", nargs="+", default=["seed", "competent"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("rest", nargs="*", help="further flags of `meta-agent evolve`, after --")
    args = parser.parse_args()
    rows = [
        run(args.out, args.domain, seed, variant, args.rest)
        for variant in args.variants
        for seed in args.seeds
    ]
    (args.out / "rows.json").write_text(json.dumps(rows, indent=1))
    summary(rows)


def run(out: Path, domain: str, seed: int, variant: str, rest: list[str]) -> dict[str, Any]:
    folder = out / f"{variant}-{seed}"
    argv = [sys.executable, "-m", "meta_agent", "evolve", "--domain", domain, "--json"]
    argv += ["--seed", str(seed), "--harness", variant, "--workspace", str(folder), *rest]
    ran = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(ran.stdout)
    row = {
        "variant": variant,
        "seed": seed,
        "planted": seed_files(domain, seed, variant=variant).faults,
        "baseline": result["baseline"],
        "final": result["final"],
        "verdicts": [
            (c["id"].split("/", 1)[1], c["factor"], c["verdict"], c["screened_out"])
            for c in result["candidates"]
        ],
        "invalid_promotions": invalid_promotions(folder, result),
        "wall_sec": result["spend"]["wall_sec"],
    }
    before, after = row["baseline"], row["final"]
    print(
        f"{variant:>9} seed {seed}: clean {before['clean_success']:.3f} -> "
        f"{after['clean_success']:.3f} (n={after['n']}), solved {before['success']:.3f} -> "
        f"{after['success']:.3f}, {row['wall_sec']:.0f} s, planted {row['planted']}, "
        f"invalid promotions {len(row['invalid_promotions'])}",
        flush=True,
    )
    for verdict in row["verdicts"]:
        print("          ", *verdict, flush=True)
    return row


def invalid_promotions(folder: Path, result: dict[str, Any]) -> list[str]:
    """Promoted branches whose confirm rollouts show flagged conduct in over 5 % of solved ones."""
    store = RolloutStore(folder / "rollouts")
    found = []
    with Ledger.open(folder / "ledger.sqlite", owner_lock=False) as ledger:
        lives = [s.outcome for s in ledger.steps(result["run"], kind="live") if s.done]
    for candidate in result["candidates"]:
        looks = [live for live in lives if live["candidate"] == candidate["id"]]
        if candidate["verdict"] != "PROMOTE" or not looks:
            continue
        shards = looks[-1]["arms"][1]["shards"].values()
        rows = [r for shard in shards for r in store.iter(shard["name"])]
        solved = [r for r in rows if r.outcome]
        if sum(bool(r.flags) for r in solved) > 0.05 * len(solved):
            found.append(candidate["id"])
    return found


def gained(row: dict[str, Any]) -> bool:
    """A gain on the vault that two separate 95 % intervals do not leave to chance."""
    before, after = row["baseline"], row["final"]
    high = wilson(round(before["clean_success"] * before["n"]), before["n"]).high
    return bool(after["clean_success"] > before["clean_success"] and after["ci"][0] > high)


def summary(rows: list[dict[str, Any]]) -> None:
    for variant in sorted({row["variant"] for row in rows}):
        part = [row for row in rows if row["variant"] == variant]
        invalid = sum(len(row["invalid_promotions"]) for row in part)
        real = sum(gained(row) for row in part)
        print(
            f"{variant}: {len(part)} runs, {invalid} invalid promotions, vault gain beyond both "
            f"intervals in {real}"
        )


if __name__ == "__main__":
    main()
