"""`RetracedLedger` runs the code of a recorded run again and compares it with the record.

Promises: a step that rests on other steps is computed again and compared with its record. The code
then goes on with the recorded outcome, and reads only what was recorded by that moment. Nothing is
written.

Does not cover: steps whose work cannot be done again (`taken`): their outcomes are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.ledger._ledger import Ledger
from meta_agent.core.ledger._rows import RunRow, Step, T, canonical, decode, encode
from meta_agent.core.ledger.kinds import StepKind

Compare = Callable[[Step, object, object], None]
"""Is called with a recorded step, and its intent and outcome as computed now."""


class UnrecordedError(Exception):
    """Raised when a repeated run asks for a step that was not recorded. It holds the step's key."""


class RetracedLedger(Ledger):
    """A ledger for repeating a recorded run: it compares each step with its record.

    Nothing is written. The repeated run sees only what was recorded up to the step it is at.
    """

    def __init__(
        self, recorded: Ledger, run: str, taken: Collection[str], compare: Compare
    ) -> None:
        super().__init__(recorded._journal, None)
        self._run, self._taken, self._compare = run, taken, compare
        self._order = {key: place for place, key in enumerate(self.order())}
        self._seen = -1
        """The position in the recorded order of the last step that was reached."""
        self.walked: set[str] = set()

    def once(
        self, key: str, kind: StepKind, intent: Mapping[str, object], work: Callable[[], T]
    ) -> T:
        """Does a step's work again, compares it with the record, and returns the recorded outcome.

        Work that cannot be repeated is skipped. Raises UnrecordedError if no outcome is stored.
        """
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
        """Returns the recorded step `key`, or None if the repeated run has not reached it yet."""
        step = super().step(key)
        return step if step and self._was_there(step) else None

    def steps(self, run: str | None = None, kind: StepKind | None = None) -> list[Step]:
        """Returns the steps, or those of a run or a kind, that the repeated run has reached."""
        return [step for step in super().steps(run, kind) if self._was_there(step)]

    def recorded(self, key: str) -> Step | None:
        """Returns the recorded step `key`, reached or not, or None if there is no such step."""
        return super().step(key)

    def _was_there(self, step: Step) -> bool:
        return step.key in self._order and self._order[step.key] <= self._seen

    def event(self, kind: str, payload: Mapping[str, object], run: str | None = None) -> int:
        """Returns 0 and records nothing."""
        return 0

    def start_run(self, run_id: str, config: Mapping[str, object], *, config_hash: str) -> RunRow:
        """Returns the recorded row of the run `run_id`. Raises IntegrityError if there is none."""
        return self._existing_run(run_id)

    def finish_run(self, run_id: str, exit_reason: str) -> None:
        """Records nothing."""


def _outcome_of(work: Callable[[], object]) -> object:
    try:
        return decode(encode(work()))
    except MetaAgentError as error:
        return {"error": str(error)}
