"""What the runs of one workspace share: the error of their claims, the vault, and small halves.

The first run that makes a claim makes it at the whole error. All later ones together get as much
again, the k-th of them 1 / (k (k + 1)) of it. So any number of runs, of however similar edits,
promotes falsely with at most twice the declared chance, and a run that is given up half-way
counts: its share is journalled before anything is measured for the claim. A run that never comes
to a claim spends nothing.

Not covered: what other workspaces claimed on the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import Half
from meta_agent.core.loop.plan import ALPHA, Plan
from meta_agent.core.loop.run import Run

BEGUN: Final = "claim"
"""The ledger's word for a claim that is about to be measured."""
_KEY: Final = "claim/begun"
_HALF: Final = "race/tasks"


def share_of(earlier: int) -> float:
    """What a claim gets of an error after so many earlier ones: the later ones share one whole."""
    return 1 / (earlier * (earlier + 1)) if earlier else 1.0


def alpha_of(ledger: Ledger, run: str) -> float:
    """The error of a run's claim, by how many runs of the workspace claimed something before it."""
    return ALPHA * share_of(_claimed_before(ledger, run))


def begin_claim(run: Run) -> None:
    """From here on this run has claimed something, whatever becomes of it."""
    told = {"alpha": run.plan.alpha, "earlier": _claimed_before(run.ledger, run.id)}
    run.once(_KEY, BEGUN, {}, lambda: told)


def _claimed_before(ledger: Ledger, run: str) -> int:
    runs = [step.run for step in ledger.steps(kind=BEGUN)]
    return runs.index(run) if run in runs else len(runs)


def runs_that_read_vault(ledger: Ledger) -> set[str]:
    """Runs of this workspace that began to measure on the vault."""
    evals = ledger.steps(kind="eval")
    return {str(step.run) for step in evals if step.intent["split"] == "vault"}


def shared_words(ledger: Ledger, run: str, plan: Plan) -> Iterator[str]:
    """What a run says before it starts: its claim's error, and what earlier runs leave of it."""
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
    """Writes down which half of a small set a race searches on, for the runs after it."""
    told = {"search": [task.key for task in run.lab.domain.tasks("search")]}
    run.once(_HALF, "tasks", {}, lambda: told)


def crosses(run: Run, other: str) -> bool:
    """Whether another run searched on what confirms here: its history would tell of the exam."""
    if other == run.id:
        return False
    half = run.ledger.step(f"{other}/{_HALF}")
    if half is None or not half.is_done:
        return run.plan.halved
    return not {task.key for task in run.lab.domain.tasks("confirm")}.isdisjoint(
        half.outcome_as(Half)["search"]
    )
