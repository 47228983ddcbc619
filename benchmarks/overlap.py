"""What rollouts beside the training gain in time, and what one event of staleness costs.

    python benchmarks/overlap.py [--seeds 4] [--steps 12] [--groups 8] [--latency 0]

For each seed two trainings of nano-swe, with a second child as the engine, the two children
with one thread each: `max_staleness` 0 (rollouts and training by turns) and 1 (beside each other,
corrected). Which of the two comes first changes from seed to seed. Of each it says, the first event
left out:

* `step_sec`, median seconds of a step on the clock, and its two halves as a training by turns has
  them: `rollout_sec` (with scoring and publishing) and `train_sec`;
* `beside`, the share of the shorter half during which the other half was at work too;
* `cpu_sec`, processor time a step of trainer, engine and this process: on a machine with nothing
  else to do a step takes at least the largest of the three, and by turns their sum;
* `clean`, clean success of the trained policy on the search split (one attempt a task).

On a machine that is busy the clock says little: read `beside` and `cpu_sec`, and say the load. With
`--latency SEC` each round of model calls takes at least so long, as those of an engine on a device
of its own, and rows are corrected in both, as those of such an engine are: so the trainer does the
same by turns and beside, and one half waits while the other one has the processors. Last come the
geometric mean of the gains with its 95 % interval (t on their logarithms), and what they cost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from _nano import STAMP, clean_success, competent
from _pairs import ratio

from meta_agent.core.lab.training import settings_of
from meta_agent.core.protocols import GenerateReply, GenerateRequest, PlannedRollout, Rollout
from meta_agent.core.rollouts import Runner
from meta_agent.domains.nano import NanoSwe
from meta_agent.policies.training import PolicyChild, TrainSettings, train_policy
from meta_agent.policies.training.serving.publishing import EngineChild

Interval = tuple[float, float]
_TICKS = os.sysconf("SC_CLK_TCK")


class Elsewhere:
    """An engine whose replies take their time; a `Gateway`."""

    lock_step = True

    def __init__(self, engine: PolicyChild, latency_sec: float) -> None:
        self._engine, self._latency_sec = engine, latency_sec
        self.finish = engine.finish

    @property
    def policy(self) -> str:
        return self._engine.policy

    def generate(self, requests: Sequence[GenerateRequest]) -> list[GenerateReply]:
        due = time.monotonic() + self._latency_sec
        replies = self._engine.generate(requests)
        time.sleep(max(0.0, due - time.monotonic()))
        return replies


class Timed:
    """A runner that notes when it was at work."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.intervals: list[Interval] = []

    def run(self, plan: Sequence[PlannedRollout], **options: Any) -> list[Rollout]:
        began = time.monotonic()
        rollouts = self._runner.run(plan, **options)
        self.intervals.append((began, time.monotonic()))
        return rollouts


def trained(
    given: argparse.Namespace, children: Sequence[PolicyChild], seed: int, stale: int, folder: Path
) -> dict[str, Any]:
    """One training and the evaluation of what came of it."""
    child, engine = children
    child.settings = TrainSettings(corrected=stale > 0 or given.latency > 0, max_staleness=stale)
    domain, out = NanoSwe(), folder / f"{seed}-{stale}"
    ends: list[float] = []
    spent: list[list[float]] = []

    def on_metrics(_: Any) -> None:
        ends.append(time.monotonic())
        spent.append([*map(_processor_sec, (child.pid, engine.pid)), time.process_time()])

    with competent() as session:
        elsewhere: Any = Elsewhere(engine, given.latency)  # its name changes with its weights
        timed = Timed(Runner(domain, session, elsewhere, STAMP))
        result = train_policy(
            child, timed, session, domain,
            {**settings_of(session.recipe), "groups_per_step": given.groups},
            seed=seed, steps=given.steps, base_policy="nano", out_dir=out,
            publisher=EngineChild(child, engine, out), on_metrics=on_metrics,
        )  # fmt: skip
        clean = clean_success(child, session, "search")
    rows = result.metrics[1:]
    halves = {n: _median(float(row[n]) for row in rows) for n in ("rollout_sec", "train_sec")}
    trains = [(end - float(row["train_sec"]), end) for end, row in zip(ends[1:], rows, strict=True)]
    return {
        "seed": seed,
        "max_staleness": stale,
        "step_sec": _median(after - before for before, after in pairwise(ends)),
        **halves,
        "beside": _beside(timed.intervals[1:], trains),
        "cpu_sec": dict(zip(("trainer", "engine", "host"), _each_step(spent), strict=True)),
        "clean": clean,
        "clean_in_training": statistics.fmean(float(r["clean_success"]) for r in rows[-4:]),
    }


def _beside(one: Sequence[Interval], other: Sequence[Interval]) -> float:
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)
    shorter = min(sum(end - begin for begin, end in each) for each in (one, other))
    return both / shorter


def _each_step(spent: Sequence[Sequence[float]]) -> list[float]:
    first, last = spent[0], spent[-1]
    return [(b - a) / (len(spent) - 1) for a, b in zip(first, last, strict=True)]


def _processor_sec(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--latency", type=float, default=0.0)
    given = parser.parse_args()
    made: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        PolicyChild(threads=1) as child,
        PolicyChild(threads=1) as engine,
    ):
        for seed in range(given.seeds):
            for stale in (0, 1) if seed % 2 == 0 else (1, 0):
                one = trained(given, (child, engine), seed, stale, Path(folder))
                made[stale].append(one)
                print(json.dumps({**one, "load": os.getloadavg()[0]}), flush=True)
    costs = [b["clean"] - a["clean"] for a, b in zip(made[0], made[1], strict=True)]
    gain = ratio(*([one["step_sec"] for one in made[stale]] for stale in (0, 1)))
    told = {"gain": gain, "clean_differences": costs, "clean_cost": statistics.fmean(costs)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
