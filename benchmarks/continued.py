"""Ideas that continue a version's training against ideas that train from the base.

Declared before the first run, in `DESIGN` and `SEEDS`, and in `declaration.json` with the time:

* the suites math and swe, seeds 1 to 5; the seed decides which faults are planted;
* two runs of each, which differ in `--continue-steps` alone: 0, and 2 of 6 training steps;
* 38,400 attempts a run: room for about ten trainings from the base in the search, and a proof;
* the rules propose, so only the way to try ideas differs.

*Points found* are what the claim about the harness measured: the gain in clean success of the
search's result over the start, on fresh training seeds and confirm tasks, in points. A search that
found nothing has found 0. They are divided by the attempts before the claim, in thousands. Those of
the search split and of the vault are reported beside them.

Runs are made seed by seed, two at a time. None begins after `--minutes`. The same command goes on
with a run that Ctrl-C or a kill ended. A pair counts if both of its runs are done. `continued.json`
and the table hold every pair of DIR, whichever seeds the command names.

    python benchmarks/continued.py --out DIR [--seeds 1 2] [--minutes 25]
    python benchmarks/continued.py --out DIR --report

Not covered: trainings that cost hours, where the evaluation beside a training weighs less; language
models as proposers, whose ideas are more than a bundle holds.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, Final

from meta_agent.composition.evolve import evolve
from meta_agent.composition.opening import name_of
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import Interrupted
from meta_agent.core.gate.numbers.results import interval
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.loop.budget import spent
from meta_agent.core.workspace import open_workspace
from meta_agent.reports.terminal.display import beside

SUITES: Final = ("math", "swe")
SEEDS: Final = range(1, 6)
STEPS: Final = (0, 2)
DESIGN: Final = RunConfig(
    generations=20, candidates=6, train_steps=6, budget=38400, sandbox="process", jobs=1
)
FIGURES: Final = ("points_per_1000", "points", "search_points", "search_attempts", "vault")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", choices=SEEDS, default=SEEDS)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--report", action="store_true", help="run nothing, print the table")
    args = parser.parse_args()
    out: Path = args.out.absolute()
    if not args.report:
        declare(out)
        carry_out(list(settings_of(out, args.seeds)), until=time.monotonic() + 60 * args.minutes)
    rows = [row for config in settings_of(out, SEEDS) if (row := measured(config))]
    (out / "continued.json").write_text(json.dumps(rows, indent=1))
    print("\n".join(table(rows)))


def declare(out: Path) -> None:
    """Writes the design and the time to a file, once."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "declaration.json"
    if not file.exists():
        design: dict[str, Any] = {"at": time.strftime("%FT%TZ", time.gmtime()), "suites": SUITES}
        design |= {"steps": STEPS, "seeds": list(SEEDS), "settings": DESIGN.hashed}
        file.write_text(json.dumps(design, indent=1))


def settings_of(out: Path, seeds: Sequence[int]) -> Iterator[RunConfig]:
    """Yields the settings of every run, seed by seed."""
    for seed in seeds:
        for suite in SUITES:
            for steps in STEPS:
                place = {"workspace": out / f"{suite}-s{seed}-k{steps}", "domain": suite}
                yield DESIGN.model_copy(update={**place, "seed": seed, "continue_steps": steps})


def carry_out(configs: Sequence[RunConfig], until: float) -> None:
    """Carries the runs out, two at a time. Ctrl-C and SIGTERM end them where they can go on."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def run(config: RunConfig) -> None:
        if not stop.is_set() and time.monotonic() < until:
            with suppress(Interrupted):
                evolve(config, beside()(config.workspace.name), stop)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, configs))


def measured(config: RunConfig) -> dict[str, Any] | None:
    """Returns the figures of a run, or None if it is not done."""
    if not (config.workspace / "meta-agent.toml").exists():
        return None
    run, file = name_of(config), open_workspace(config.workspace).ledger_file
    with Ledger.open(file, owner_lock=False) as ledger:
        vault = ledger.step(f"{run}/vault/final")
        if vault is None or not vault.is_done:
            return None
        settings = {"suite": config.domain, "seed": config.seed}
        settings |= {"continue_steps": config.continue_steps}
        vault_points = 100 * record_of(vault)["clean_success"]
        return settings | figures(ledger, run) | {"vault": vault_points}


def figures(ledger: Ledger, run: str) -> dict[str, Any]:
    """Returns what a run's search found, at how many attempts, and whether it was proven."""
    looks = [record_of(step) for step in ledger.steps(run, kind="live")]
    looks = [look for look in looks if look["claim"] == "harness"]
    ends = (ledger.step(f"{run}/{name}") for name in ("claim/begun", "train_on/0/left"))
    end = min(filter(None, ends), key=lambda step: step.seq, default=None)
    verdict: Any = looks[-1]["verdict"] if looks else {"effect": None, "kind": "none"}
    points: float = 100 * verdict["effect"]["delta"] if verdict["effect"] else 0.0
    attempts = spent(ledger, run, before=end)
    base = [record_of(step) for step in ledger.steps(run, kind="bundle")]
    cells = [record_of(step) for step in ledger.steps(run, kind="cell")]
    gains = {(cell["generation"], cell["name"]): cell["delta"] for cell in cells}
    chosen = [gains[record["generation"], record["chosen"]] for record in base if record["chosen"]]
    return {
        "points_per_1000": 1000 * points / attempts,
        "points": points,
        "proven": verdict["kind"] == "PROMOTE",
        "search_points": 100 * sum(chosen),
        "search_attempts": attempts,
        "ideas": len({member for cell in cells for member in cell["members"]}),
        "continued_cells": sum("continued" in cell for cell in cells),
        "unconfirmed": _unconfirmed(cells, base),
    }


def record_of(step: Step) -> Any:
    return step.fields


def _unconfirmed(cells: Sequence[Any], bundles: Sequence[Any]) -> int:
    confirmed = [cell["name"] for cell in cells if cell["name"].startswith("from the base: ")]
    taken = [str(record["chosen"]) for record in bundles]
    return len(confirmed) - sum(name.startswith("from the base: ") for name in taken)


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yields a Markdown table: means of whole pairs with 95 % intervals, and their difference."""
    yield f"| suite | steps | runs | {' | '.join(FIGURES)} | proven |"
    yield "|---" * (len(FIGURES) + 4) + "|"
    for suite in SUITES:
        pairs = list(_pairs(rows, suite))
        for at, steps in enumerate(STEPS):
            side = [pair[at] for pair in pairs]
            cells = [_interval([row[name] for row in side]) for name in FIGURES]
            proven = sum(row["proven"] for row in side)
            yield f"| {suite} | {steps} | {len(side)} | {' | '.join(cells)} | {proven} |"
        cells = [_interval([pair[1][name] - pair[0][name] for pair in pairs]) for name in FIGURES]
        yield f"| {suite} | difference | {len(pairs)} | {' | '.join(cells)} | |"


def _pairs(
    rows: Sequence[dict[str, Any]], suite: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    by_run = {(row["seed"], row["continue_steps"]): row for row in rows if row["suite"] == suite}
    for seed in sorted({seed for seed, _ in by_run}):
        if all((seed, steps) in by_run for steps in STEPS):
            yield by_run[seed, STEPS[0]], by_run[seed, STEPS[1]]


def _interval(values: Sequence[float]) -> str:
    if len(values) < 2:
        return ", ".join(f"{value:.2f}" for value in values) or "–"
    figure = interval([[value] for value in values], "mean")
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"


if __name__ == "__main__":
    main()
