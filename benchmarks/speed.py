"""How fast it is: one command a part, each beside the peer that is named there.

    python benchmarks/speed.py PART [--json] [options]

A part is one of runner, sandbox, rollouts, step, smollm2 and engines; `PART --help` explains it.

Use an idle machine, and look at the spread. Figures that count stand in `docs/log/speed.md`.
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="part", required=True)
    for name, module in PARTS.items():
        part = import_module(module)
        command = commands.add_parser(
            name, description=part.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        part.options(command)
        command.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results: Mapping[str, Any] = import_module(PARTS[given.part]).measure(given)
    if given.json:
        print(json.dumps(results))
        return
    for name, figures in results.items():
        row = figures.items() if isinstance(figures, Mapping) else [("", figures)]
        print(f"{name:28}" + "  ".join(f"{key} {value}".strip() for key, value in row))


if __name__ == "__main__":
    main()
