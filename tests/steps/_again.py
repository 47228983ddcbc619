"""A scripted run gone through again, as `verify` does with a recorded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from meta_agent.core.lab._rows import counted
from meta_agent.core.lab.units import EvalUnit
from meta_agent.core.ledger import Ledger, RetracedLedger
from meta_agent.studies.review import TAKEN, Walk
from tests.steps._bench import Bench, ScriptedLab


def gone_through_again(bench: Bench, carried_out: Callable[[Bench], object]) -> Walk:
    """What is found when the same is carried out over what is recorded."""
    start = bench.repo.log(1000)[-1].commit
    path = bench.run.ledger._journal.path
    with TemporaryDirectory() as folder, Ledger.open(path, owner_lock=False) as recorded:
        walk = Walk(recorded, bench.repo, "r", finished=True)
        ledger = RetracedLedger(recorded, "r", TAKEN, walk.compare_step)
        copy = bench.repo.rewound(Path(folder) / "copy", start)
        again = _copied(bench, _lab(bench, ledger), ledger, copy)
        walk.through(again.run, lambda _: carried_out(again))
    return walk


def _lab(bench: Bench, ledger: RetracedLedger) -> ScriptedLab:
    old = bench.lab
    lab = type(old)(
        replace(old.settings, workers=1),
        ledger=ledger,
        store=old.store,
        domain=old.domain,
        on_step=lambda *_: None,
        stopping=lambda: False,
        policies=old.apparatus.policies,
        open_sandbox=old.open_sandbox,
    )
    for name in ("script", "acts", "leaks", "rollouts_a_step", "skills"):
        setattr(lab, name, getattr(old, name, None))

    def stored(unit: EvalUnit, tree: Any) -> Any:
        shard = old.store.find(f"eval-{unit.name}")
        assert shard is not None
        plan = lab.apparatus.plan(unit.seed, unit.split, unit.limit, unit.samples, unit.part)
        return counted(shard, plan, old.store.read(shard), unit.seed)

    lab._evaluate = stored  # type: ignore[method-assign]
    return lab


def _copied(bench: Bench, lab: ScriptedLab, ledger: RetracedLedger, copy: Any) -> Bench:
    again = object.__new__(Bench)
    again.stop, again._patch, again.repo, again.lab = False, bench._patch, copy, lab
    again.reading = bench.reading
    again.run = replace(bench.run, ledger=ledger, repo=copy, lab=lab)
    return again
