"""`RetracedLedger`: a recorded run gone through again by the code that made it.

Promises: a step that rests on others is computed again and set beside what was recorded; the walk
itself goes on along the record, and sees of it only what was there at that moment. Nothing is
written.

Does not cover: steps whose work cannot be done again (`taken`): their outcomes are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.ledger._ledger import Ledger
from meta_agent.core.ledger._rows import RunRow, Step, T, canonical, decode, encode
from meta_agent.core.ledger.kinds import Kind

Compare = Callable[[Step, object, object], None]
"""Hears of a step, its intent and its outcome as they are now."""


class UnrecordedError(Exception):
    """The walk came to a step that the journal does not have."""


class RetracedLedger(Ledger):
    """A read-only ledger whose `once` computes again."""

    def __init__(
        self, recorded: Ledger, run: str, taken: Collection[str], compare: Compare
    ) -> None:
        super().__init__(recorded._journal, None)
        self._run, self._taken, self._compare = run, taken, compare
        self._order = {key: place for place, key in enumerate(self.order())}
        self._seen = -1
        """The place in the order up to which the walk has come."""
        self.walked: set[str] = set()

    def once(self, key: str, kind: Kind, intent: Mapping[str, object], work: Callable[[], T]) -> T:
        """The recorded outcome, after the work was done again."""
        step = super().step(key)
        if step is None or not step.is_done:
            raise UnrecordedError(key)
        self.walked.add(key)
        before, place = self._seen, self._order[key]
        again = step.outcome
        if kind not in self._taken:
            self._seen = place - 1
            again = _outcome_of(work)
        self._seen = max(before, place)
        self._compare(step, decode(canonical({"kind": kind, "intent": intent})), again)
        return cast("T", step.outcome)

    def step(self, key: str) -> Step | None:
        """A step that was recorded by then."""
        step = super().step(key)
        return step if step and self._was_there(step) else None

    def steps(self, run: str | None = None, kind: Kind | None = None) -> list[Step]:
        """Steps that were recorded by then."""
        return [step for step in super().steps(run, kind) if self._was_there(step)]

    def recorded(self, key: str) -> Step | None:
        """A step, whenever it was recorded."""
        return super().step(key)

    def _was_there(self, step: Step) -> bool:
        return step.key in self._order and self._order[step.key] <= self._seen

    def event(self, kind: str, payload: Mapping[str, object], run: str | None = None) -> int:
        """Nothing: what people were told is told already."""
        return 0

    def start_run(self, run_id: str, config: Mapping[str, object], *, config_hash: str) -> RunRow:
        """Nothing: it has begun."""
        return self._existing_run(run_id)

    def finish_run(self, run_id: str, exit_reason: str) -> None:
        """Nothing: it has ended."""


def _outcome_of(work: Callable[[], object]) -> object:
    try:
        return decode(encode(work()))
    except MetaAgentError as error:
        return {"error": str(error)}
