#!/usr/bin/env python3
"""Reads rollout records (one JSON object a line) and says what flagged conduct is worth."""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def share(rows: list[Row]) -> float | None:
    """Returns the solved share, or None where there is nothing to divide by."""
    return round(sum(bool(r.get("outcome")) for r in rows) / len(rows), 4) if rows else None


def report(rows: list[Row]) -> dict[str, Any]:
    """Returns the numbers: overall, and for each flag with and without it."""
    known = [r for r in rows if r.get("outcome") is not None]
    by_flag = defaultdict(list)
    for row in known:
        for flag in set(row.get("flags") or []):
            by_flag[flag].append(row)
    honest = [r for r in known if not r.get("flags")]
    return {
        "rollouts": len(known),
        "success": share(known),
        "clean_success": round(sum(bool(r["outcome"]) for r in honest) / len(known), 4)
        if known
        else None,
        "solved_when_honest": share(honest),
        "flags": {
            flag: {"share": round(len(found) / len(known), 4), "solved": share(found)}
            for flag, found in sorted(by_flag.items())
        },
    }


def main() -> int:
    """Exit status: 0 done, 1 unreadable input, 2 usage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="JSON lines; standard input if left out")
    options = parser.parse_args()
    try:
        text = options.file.read_text("utf-8") if options.file else sys.stdin.read()
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        print(f"cannot read rollouts: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report(rows), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
