"""What the runs of one workspace share: the error of their claims, the vault, and small task sets.

The first run that makes a claim uses the whole error. All later runs together get as much again:
the k-th of them gets 1 / (k (k + 1)) of it. So any number of runs, with edits however similar,
promotes falsely with at most twice the declared chance. A run that is given up half-way counts,
because its share is journalled before its claim is measured. A run without a claim spends nothing.

Not covered: claims of other workspaces on the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Half
from meta_agent.core.loop.plan import ALPHA, Plan
from meta_agent.core.loop.run import Run

BEGUN: Final = "claim"
"""Ledger kind of the step that a claim begins with."""
_KEY: Final = "claim/begun"
_HALF: Final = "race/tasks"


def share_of(earlier: int) -> float:
    """Returns the share of the permitted error that a final test gets after `earlier` others."""
    return 1 / (earlier * (earlier + 1)) if earlier else 1.0


def alpha_of(ledger: Ledger, run: str) -> float:
    """Returns the error rate of a run's final test, given the final tests of earlier runs."""
    return ALPHA * share_of(_claimed_before(ledger, run))


def begin_claim(run: Run) -> None:
    """Records that this run's final test begins, so that its share of the error rate is used."""
    claim = {"alpha": run.plan.alpha, "earlier": _claimed_before(run.ledger, run.id)}
    run.once(_KEY, BEGUN, {}, lambda: claim)


def _claimed_before(ledger: Ledger, run: str) -> int:
    runs = [step.run for step in ledger.steps(kind=BEGUN)]
    return runs.index(run) if run in runs else len(runs)


def runs_that_read_vault(ledger: Ledger) -> set[str]:
    """Returns the ids of the workspace's runs that began to measure on the vault split."""
    evals = ledger.steps(kind="eval")
    return {str(step.run) for step in evals if step.intent["split"] == "vault"}


def shared_words(ledger: Ledger, run: str, plan: Plan) -> Iterator[str]:
    """Yields sentences on the error rate of a run's final test, and on earlier vault readings."""
    if earlier := _claimed_before(ledger, run):
        yield (
            f"{_runs(earlier)} of this workspace made a claim before: this one's error is "
            f"{plan.alpha:.2%}, since all after the first share {ALPHA:.0%}"
        )
    else:
        yield (
            f"its claim errs with at most {plan.alpha:.0%}, being the first of this workspace; all "
            "later runs together get as much again"
        )
    if plan.vault and (read := len(runs_that_read_vault(ledger) - {run})):
        yield f"the vault was read before, by {_runs(read)} of this workspace: no first look"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count > 1 else ''}"


# --- the halves of a small set -------------------------------------------------------------------


def note_half(run: Run) -> None:
    """Records which half of a small task set this run searches on, for later runs."""
    half = {"search": [task.key for task in run.lab.domain.tasks("search")]}
    run.once(_HALF, "tasks", {}, lambda: half)


def crosses(run: Run, other: str) -> bool:
    """Returns True if the run `other` searched on tasks that test this run's result.

    Its history would reveal those tasks to the authors of edits.
    """
    if other == run.id:
        return False
    half = run.ledger.step(f"{other}/{_HALF}")
    if half is None or not half.is_done:
        return run.plan.halved
    return not {task.key for task in run.lab.domain.tasks("confirm")}.isdisjoint(
        half.outcome_as(Half)["search"]
    )
