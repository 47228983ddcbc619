"""How fast it is: one command a part, each beside the peer that is named there.

    python benchmarks/speed.py PART [--json] [options]

A part is one of runner, sandbox, rollouts, step, smollm2 and engines; `PART --help` explains it.

Use an idle machine, and look at the spread. `docs/log/speed.md` has the figures that count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `maintain` is not installed

PARTS: Final = {
    "runner": "_runner",
    "sandbox": "_sandbox",
    "rollouts": "_rollouts",
    "step": "_train_step",
    "smollm2": "_pretrained_cpu",
    "engines": "_engines",
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in PARTS:
        sys.exit(f"there is no part {name!r}; choose one of {', '.join(PARTS)}")
    part = import_module(PARTS[name])  # this one alone: some need torch, vLLM or a container
    parser = argparse.ArgumentParser(
        prog=f"speed.py {name}",
        description=part.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    part.options(parser)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(sys.argv[2:])
    results: Mapping[str, Any] = part.measure(given)
    if given.json:
        print(json.dumps(results))
        return
    for name, figures in results.items():
        row = figures.items() if isinstance(figures, Mapping) else [("", figures)]
        print(f"{name:28}" + "  ".join(f"{key} {value}".strip() for key, value in row))


if __name__ == "__main__":
    main()
