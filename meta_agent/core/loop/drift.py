"""Detects whether a frozen policy behind a server changed during the run.

In the exam both sides take turns, so a change hits both. The race was measured earlier. So before
the exam some attempts of the start are made again with the same seeds, and compared with the first.

A server also names its model in every reply, often with a fingerprint. More than one name in a run
is a finding. If the two sides of a claim share no name, the claim stays unproven.

In the race, a block of replies under a new name is a change at once: earlier outcomes are dropped,
and the best version so far gets fresh attempts (`strategies/race.py`).

Not covered: a change that moves no outcome and no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from meta_agent.core.gate import Arm, Finding, pair, sign_flip_p
from meta_agent.core.lab.arms import ArmRef, parts_of
from meta_agent.core.lab.measured import Part
from meta_agent.core.ledger.kinds import Drift, Stored
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON

SURE: Final = 0.01
"""Two-sided p-value below which the start's second attempts count as different from its first."""
MOST: Final = 3
"""A race restarts for at most this many changes. More would mean that names are arbitrary."""
_KEY: Final = "race/again"


class ModelNames:
    """Collects the names by which a server calls its model, to notice when the model changes."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._times = 0
        self.words = ""

    def changed(self, served: Iterable[str]) -> bool:
        """Returns True if none of the names in `served` came before: the server changed its model.

        The first names of a run are no change. After three changes it always returns False.
        """
        now, before = set(served), self._known
        self._known = before | now
        if not now or not before or now & before or self._times == MOST:
            return False
        self._times += 1
        self.words = (
            f"the server calls its model {', '.join(sorted(now))} now, not "
            f"{', '.join(sorted(before)[:4])}: what was solved before is no measure for what "
            "comes, and what is built on gets fresh attempts"
        )
        return True


def repeat_start(run: Run, first: Version, earlier: Arm) -> None:
    """Makes some of the first version's attempts again, to see whether the served model changed.

    Records the comparison with the `earlier` attempts. Does nothing if the plan repeats none.
    """
    if not run.plan.again:
        return
    run.phase("race", f"{run.plan.again} attempts of the start again, to check for drift")
    tree, part = run.repo.tree(first.commit), Part(run.plan.order, range(run.plan.again))
    repeated = run.lab.evaluate(
        tree, run.lab.untrained(), split="search", limit=run.plan.search, part=part, again="-again"
    )
    note_drift(run, earlier, run.lab.rows(run.lab.arm_of(first.id, tree, {0: repeated})))


def note_drift(run: Run, first: Arm, again: Arm) -> None:
    """Compares the first version's attempts with their repeats, made after the search.

    It records the comparison, and warns the user if the two differ.
    """
    comparison = run.once(_KEY, "drift", {}, lambda: _compared(first, again))
    if comparison["p"] <= SURE:
        run.note(_words(comparison))


def drift(run: Run, refs: tuple[ArmRef, ArmRef]) -> Iterator[Finding]:
    """Yields findings if the model behind the server may have changed before or in the final test.

    `refs` are the stored rollouts of the two sides of that test.
    """
    step = run.ledger.step(f"{run.id}/{_KEY}")
    if step and step.is_done and (comparison := step.outcome_as(Drift))["p"] <= SURE:
        numbers = {key: comparison[key] for key in ("before", "after", "p")}
        yield Finding("drift.outcomes", "warn", _words(comparison), (), numbers, "both")
    served = _served(run)
    names = sorted({name for some in served.values() for name in some})
    if len(names) > 1:
        listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        message = f"the server named its model {len(names)} ways in this run: {listed}"
        yield Finding("drift.model", "warn", message, side="both")
    before, after = (_names(served, ref) for ref in refs)
    if before and after and before.isdisjoint(after):
        message = f"{', '.join(sorted(before))} answered for one side, {', '.join(sorted(after))}"
        yield Finding("drift.sides", "unproven", f"{message} for the other", side="both")


def _compared(first: Arm, again: Arm) -> JSON:
    pairs = pair(first, again)
    row = pairs.cells[0] if pairs.cells.size else pairs.cells.ravel()
    better, worse = (sign_flip_p(sign * row, pairs.samples).p for sign in (1, -1))
    after = [outcome.clean for outcome in again.rows() if outcome.clean is not None]
    mean = float(row.mean()) if row.size else 0.0
    share = sum(after) / len(after) if after else 0.0
    p = min(1.0, 2 * min(better, worse))
    return {"attempts": int(row.size), "before": share - mean, "after": share, "p": p}


def _words(comparison: JSON) -> str:
    return (
        f"the start solved {comparison['before']:.0%} of {comparison['attempts']} attempts when "
        f"the race began and {comparison['after']:.0%} of the same now (p {comparison['p']:.2g}): "
        "the model may have changed; "
        "the exam's sides took turns, what was chosen before it is less sure"
    )


def _served(run: Run) -> dict[str, frozenset[str]]:
    """Returns the names that the server gave its model, by shard."""
    return {
        str(evaluation["shard"]["name"]): frozenset(evaluation["served"])
        for evaluation in run.ledger.outcomes("eval", Stored, run.id)
        if evaluation.get("served")
    }


def _names(served: dict[str, frozenset[str]], ref: ArmRef) -> set[str]:
    parts = (part for shard in ref.shards.values() for part in parts_of(shard))
    return {name for part in parts for name in served.get(part["name"], ())}
