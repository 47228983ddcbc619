#!/usr/bin/env python3
"""Reads rollout records (one JSON object a line) and says which groups teach nothing, and why."""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DEAD_STD = 1e-3


def total(row: Row) -> float:
    """Returns the weighted reward that training sees."""
    weights = row.get("weights") or {}
    return sum(weights.get(name, 1.0) * value for name, value in row["rewards"].items())


def spread(values: list[float]) -> float:
    """Returns the population standard deviation."""
    mean = sum(values) / len(values)
    return (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5


def kind(rows: list[Row]) -> str:
    """Returns what a group is: alive, or dead in one of three ways."""
    if spread([total(row) for row in rows]) >= DEAD_STD:
        return "alive"
    solved = sum(bool(row["outcome"]) for row in rows)
    if solved in (0, len(rows)):
        return "dead_all_right" if solved else "dead_all_wrong"
    return "dead_reward_blind"


def report(rows: list[Row]) -> dict[str, Any]:
    """Returns the share of each kind among groups of at least two attempts."""
    groups = defaultdict(list)
    for row in rows:
        if row.get("rewards") and row.get("outcome") is not None:
            groups[row["group_id"]].append(row)
    kinds = Counter(kind(group) for group in groups.values() if len(group) > 1)
    count = sum(kinds.values())
    return {"groups": count} | {name: round(n / count, 4) for name, n in sorted(kinds.items())}


def main() -> int:
    """Exit status: 0 done, 1 unreadable input, 2 usage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="JSON lines; standard input if left out")
    options = parser.parse_args()
    try:
        text = options.file.read_text("utf-8") if options.file else sys.stdin.read()
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        print(json.dumps(report(rows), indent=2))
    except (OSError, ValueError, KeyError) as error:
        print(f"cannot read rollouts: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
