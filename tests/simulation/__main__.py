"""`python -m tests.simulation --seed 17` repeats one seed; `--seeds 1000 --first 0` goes through
many; `--fault NAME` plants a fault of `_faults` first."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext

from tests.simulation._faults import FAULTS, planted
from tests.simulation._loop import simulate, undisturbed
from tests.simulation._world import ViolationError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    chosen = parser.parse_args()
    first = chosen.first if chosen.seed is None else chosen.seed
    seeds = chosen.seeds if chosen.seed is None else 1
    expected, began, lives = undisturbed(), time.monotonic(), 0
    with planted(chosen.fault) if chosen.fault else nullcontext():
        for seed in range(first, first + seeds):
            try:
                lives += simulate(seed, expected).lives
            except ViolationError as violation:
                fault = f" --fault {chosen.fault}" if chosen.fault else ""
                print(f"seed {seed}: {violation}")
                print(f"repeat it: python -m tests.simulation --seed {seed}{fault}")
                return 1
    seconds = time.monotonic() - began
    print(
        f"{seeds} seeds, {lives} deaths and ends, {seconds:.1f} s: {60 * seeds / seconds:.0f}/min"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
