"""kill -9 at points spread over a run, then the same command: is the end the same?

python benchmarks/kill_resume.py --out DIR [-- further flags of `meta-agent evolve`]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

POINTS = (
    "before_work:train",
    "after_work:train:2",
    "after_outcome:eval",
    "after_work:untrained",
    "after_work:proposal",
    "before_work:cell",
    "after_work:cell:2",
    "after_work:bundle",
    "after_work:live",
    "after_ref_cas",
    "after_work:verdict",
    "after_work:vault",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("rest", nargs="*", help="further flags of `meta-agent evolve`, after --")
    args = parser.parse_args()
    whole = comparable(evolve(args.out / "whole", args.rest))
    failed = 0
    for index, point in enumerate(POINTS):
        folder = args.out / f"killed-{index}"
        killed = start(folder, args.rest, {"META_AGENT_CRASH_AT": point})
        hit = killed.returncode == -signal.SIGKILL
        same = comparable(evolve(folder, args.rest)) == whole
        merges = git(folder, "rev-list", "--count", "--merges", "main")
        failed += not (same and hit)
        print(
            f"{point:<24} {'killed' if hit else 'not reached'}, "
            f"end {'the same' if same else 'DIFFERENT'}, merges on main {merges}",
            flush=True,
        )
    print(f"{len(POINTS)} points, {failed} different or not reached")
    sys.exit(failed > 0)


def start(folder: Path, rest: list[str], extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "meta_agent", "evolve", "--domain", "swe", "--json"]
    argv += ["--workspace", str(folder), *rest]
    env = {**os.environ, **extra}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def evolve(folder: Path, rest: list[str]) -> Any:
    ran = start(folder, rest, {})
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout)


def comparable(result: Any) -> Any:
    candidates = [
        (c["factor"], c["verdict"], c["effect"], c["hypothesis"]["statement"], bool(c["merge"]))
        for c in result["candidates"]
    ]
    return json.dumps([result["baseline"], result["final"], candidates], sort_keys=True)


def git(folder: Path, *argv: str) -> str:
    repo = str(folder / "harness_repo")
    ran = subprocess.run(["git", "-C", repo, *argv], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


if __name__ == "__main__":
    main()
