"""Recorded runs judged again by today's gate: which verdicts change, and by which reason.

Every claim's last look is put before `judge_live` as the code stands now, with what the run had
declared. Where its rollouts are stored the rows come from them, and all detectors are asked; where
they were left out (the recording that ships), rows are drawn that have the recorded means, by
training seed, of sides that hang together in nothing, so that what tasks tell is told as badly as
can be, and the recorded findings stand.

Not covered: what a run would find today (its search is not repeated), and members' verdicts, which
follow from the claim's and their shares.

    python benchmarks/rejudge.py [WORKSPACE ...]    # without one: examples/recorded-run
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from meta_agent.composition.inputs import load_run_domain
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import IntegrityError
from meta_agent.core.gate import (
    COLLAPSE,
    MIN_TRAINING_SEEDS,
    Arm,
    Course,
    ErrorBudget,
    Finding,
    OutcomeRow,
    judge_live,
    verdict_from_json,
)
from meta_agent.core.lab.arms import ArmRef, load_arm
from meta_agent.core.lab.inspector import Inspector
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Live
from meta_agent.core.loop.plan import MISS
from meta_agent.core.protocols import Domain, Verdict
from meta_agent.core.rollouts import RolloutStore
from meta_agent.core.slices import clusters_of
from meta_agent.core.workspace import Workspace, open_workspace
from meta_agent.studies.demo import unpacked

MOST_PAIRS = 8  # of a claim that has come near, in the default plan


class Again(NamedTuple):
    """A claim as it was recorded and as it is judged now."""

    run: str
    kind: str
    recorded: Verdict
    now: Verdict
    from_rows: bool

    @property
    def same(self) -> bool:
        return self.recorded.kind is self.now.kind


def judged_again(workspace: Workspace) -> Iterator[Again]:
    """Every claim of a workspace's runs."""
    with Ledger.open(workspace.ledger_file, owner_lock=False) as ledger:
        for run in ledger.runs():
            made = ledger.outcomes("live", Live, run.run)
            looks = {look["claim"]: look for look in made if look.get("claim")}
            if looks:
                domain = load_run_domain(RunConfig.from_json(run.config), sandbox="process")
                store = RolloutStore(workspace.rollouts)
                for kind, look in looks.items():
                    yield Again(run.run, kind, *_both(store, domain, look))


def _both(store: RolloutStore, domain: Domain, look: Any) -> tuple[Verdict, Verdict, bool]:
    recorded = verdict_from_json(look["verdict"])
    told, refs = recorded.evidence["inputs"], [ArmRef.from_json(ref) for ref in look["arms"]]
    findings: Sequence[Finding]
    try:
        arms = load_arm(store, refs[0]), load_arm(store, refs[1])
        findings, stored = Inspector(store, domain).handed_over((refs[0], refs[1]), arms), True
    except IntegrityError:
        arms, stored = _drawn(recorded.evidence), False
        findings = [Finding(**{**one, "lines": ()}) for one in recorded.evidence["findings"]]
    course = told["course"] and {
        **told["course"],
        "collapse": COLLAPSE,
        "rule": "pairs_and_signs",
        "further": MOST_PAIRS,
    }
    now = judge_live(
        *arms,
        min_seeds=MIN_TRAINING_SEEDS if look["claim"] == "harness" else 1,
        budget=ErrorBudget(told["budget"]["alpha"], futility=MISS),
        look=0,
        final_look=told["final_look"],
        min_effect=told["min_effect"],
        findings=findings,
        course=Course(**course) if course else None,
        elsewhere=told["elsewhere"],
        clusters=clusters_of(domain, look["split"]) if stored else None,
        ties=told.get("ties", ""),
    )
    return recorded, now, stored


def _drawn(evidence: Any) -> tuple[Arm, Arm]:
    """Rows with the recorded differences by seed, and the baseline's recorded level."""
    numbers, arms = evidence["numbers"], evidence["arms"]
    tasks, seeds = numbers["tasks"], arms["baseline"]["seeds"]
    level = arms["baseline"]["clean"] / arms["baseline"]["n"]
    draw = np.random.default_rng(0)
    sides: tuple[dict[int, tuple[OutcomeRow, ...]], ...] = ({}, {})
    for seed, moved in zip(seeds, numbers["per_seed"], strict=True):
        solved = round(tasks * level)
        for side, count in zip(sides, (solved, solved + round(tasks * moved)), strict=True):
            clean = set(draw.permutation(tasks)[:count].tolist())
            side[seed] = tuple(_row(at, at in clean, seed) for at in range(tasks))
    before, after = (
        Arm(name, side, tasks) for name, side in zip(("baseline", "found"), sides, strict=True)
    )
    return before, after


def _row(task: int, clean: bool, seed: int) -> OutcomeRow:
    key = f"{task:04d}"
    return OutcomeRow(key, key, 0, seed, clean, (), None, None, "submitted", 1, "")


def main() -> None:
    named = [open_workspace(Path(name)) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        changed = 0
        for workspace in named or [unpacked(Path(folder) / "recorded")]:
            for one in judged_again(workspace):
                changed += not one.same
                rows = "rows" if one.from_rows else "recorded means"
                word = "as recorded" if one.same else f"recorded {one.recorded.kind}"
                print(f"{one.run:<18} this {one.kind:<8} {one.now.kind:<13} {word:<24} by {rows}")
                for reason in one.now.reasons:
                    print(f"    {reason}")
        print(f"{changed} verdicts change")


if __name__ == "__main__":
    main()
