"""Whether a frozen policy behind somebody's server stayed what it was.

In the exam both sides take turns, so what changes there changes for both. What the race went by
was measured earlier: before the exam some attempts of the start are made once more, with the
seeds they had, and compared with the first ones. And a server names its model in every reply,
often with a fingerprint: more than one name in a run is a finding, and names that the sides of a
claim do not share leave it unproven.

In the race a block that is answered under a name unheard of is a change at once: what was solved
before is forgotten, and the tip gets fresh attempts (`gate.race.Race.changed`).

Not covered: a change that moves no outcome and no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from meta_agent.core.gate import Arm, Finding, pair, sign_flip_p
from meta_agent.core.lab.arms import ArmRef, parts_of
from meta_agent.core.ledger.kinds import Drift, Stored
from meta_agent.core.loop.run import Run
from meta_agent.core.protocols import JSON

SURE: Final = 0.01
"""Two-sided error at which the start's second attempts are called different from its first."""
MOST: Final = 3
"""Changes that a race begins anew for: a server that names every reply otherwise names nothing."""
_KEY: Final = "race/again"


class Named:
    """What a server has called its model so far."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._times = 0
        self.words = ""

    def changed(self, served: Iterable[str]) -> bool:
        """Whether none of the names was heard before; the first ones are no change."""
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


def note_drift(run: Run, first: Arm, again: Arm) -> None:
    """Compares and journals the start's attempts at the race's beginning and before its exam."""
    told = run.once(_KEY, "drift", {}, lambda: _compared(first, again))
    if told["p"] <= SURE:
        run.note(_words(told))


def drift(run: Run, refs: tuple[ArmRef, ArmRef]) -> Iterator[Finding]:
    """What a claim says of the model behind it."""
    step = run.ledger.step(f"{run.id}/{_KEY}")
    if step and step.is_done and (told := step.outcome_as(Drift))["p"] <= SURE:
        numbers = {"before": told["before"], "after": told["after"], "p": told["p"]}
        yield Finding("drift.outcomes", "warn", _words(told), (), numbers, "both")
    served = _served(run)
    names = sorted({name for some in served.values() for name in some})
    if len(names) > 1:
        listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        said = f"the server named its model {len(names)} ways in this run: {listed}"
        yield Finding("drift.model", "warn", said, side="both")
    before, after = (_names(served, ref) for ref in refs)
    if before and after and before.isdisjoint(after):
        said = f"{', '.join(sorted(before))} answered for one side, {', '.join(sorted(after))}"
        yield Finding("drift.sides", "unproven", f"{said} for the other", side="both")


def _compared(first: Arm, again: Arm) -> JSON:
    pairs = pair(first, again)
    row = pairs.cells[0] if pairs.cells.size else pairs.cells.ravel()
    better, worse = (sign_flip_p(sign * row, pairs.samples).p for sign in (1, -1))
    after = [one.clean for one in again.rows() if one.clean is not None]
    mean = float(row.mean()) if row.size else 0.0
    share = sum(after) / len(after) if after else 0.0
    p = min(1.0, 2 * min(better, worse))
    return {"attempts": int(row.size), "before": share - mean, "after": share, "p": p}


def _words(told: JSON) -> str:
    return (
        f"the start solved {told['before']:.0%} of {told['attempts']} attempts when the race began "
        f"and {told['after']:.0%} of the same now (p {told['p']:.2g}): the model may have changed; "
        "the exam's sides took turns, what was chosen before it is less sure"
    )


def _served(run: Run) -> dict[str, frozenset[str]]:
    """By shard, what the server called the model."""
    told = (one for one in run.ledger.outcomes("eval", Stored, run.id) if one.get("served"))
    return {str(one["shard"]["name"]): frozenset(one["served"]) for one in told}


def _names(served: dict[str, frozenset[str]], ref: ArmRef) -> set[str]:
    parts = (part for shard in ref.shards.values() for part in parts_of(shard))
    return {name for part in parts for name in served.get(part["name"], ())}
