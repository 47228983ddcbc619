"""The rows that the ledger returns, and the conversion of values to JSON text and back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Never, Self, TypeVar, cast

from meta_agent.core.ledger.kinds import KINDS

Cell = str | int | float | bytes | None
"""A value that SQLite returns."""
T = TypeVar("T")

FAILED: Final = "failed"  # the event of an attempt at a step that raised
WAIT: Final = "wait"  # the event of a wait that lasts; it is no progress of a run
DONE: Final = "done"  # the exit reason of a run that has nothing left to do


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step of a run: what was to be done (`intent`), and its outcome.

    `finished_at` and `outcome` are None until the step has finished.
    """

    seq: int
    key: str
    run: str | None
    kind: str
    intent: Mapping[str, object]
    attempts: int
    started_at: float  # Unix time, for people; never used to decide anything
    finished_at: float | None
    duration_sec: float | None  # of the attempt that finished, by a monotonic clock
    outcome: object
    error: str | None  # how the latest attempt failed, while there is no outcome

    QUERY: ClassVar[str] = (
        "SELECT seq, key, run, kind, intent, attempts, started_at, finished_at, duration_sec, "
        "outcome, error FROM steps "
    )

    @classmethod
    def parse(cls, row: tuple[Cell, ...]) -> Self:
        """Returns the step in `row`, a row of the result of the SQL query `QUERY`."""
        return cls(*_decoded(row, 4, 9))

    @property
    def is_done(self) -> bool:
        """Returns True if the step has finished."""
        return self.finished_at is not None

    @property
    def fields(self) -> Mapping[str, object]:
        """Returns the outcome if it is a JSON object, else an empty mapping."""
        return fields_of(self.outcome)

    def outcome_as(self, holds: type[T]) -> T:
        """Returns the outcome as the type `holds`, which has to be the one declared in `KINDS`."""
        outcome_types = [wrote.outcome for kind, wrote in KINDS.items() if kind == self.kind]
        if outcome_types != [holds]:
            raise TypeError(f"a step of kind {self.kind} holds {outcome_types}, not {holds}")
        return cast("T", self.outcome)


@dataclass(frozen=True, slots=True)
class Event:
    """One event in the ledger's append-only log. `at` is in seconds since the epoch."""

    seq: int
    run: str | None
    kind: str
    at: float
    payload: object

    QUERY: ClassVar[str] = "SELECT seq, run, kind, at, payload FROM events "

    @classmethod
    def parse(cls, row: tuple[Cell, ...]) -> Self:
        """Returns the event in `row`, a row of the result of the SQL query `QUERY`."""
        return cls(*_decoded(row, 4))

    @property
    def fields(self) -> Mapping[str, object]:
        """Returns the payload if it is a JSON object, else an empty mapping."""
        return fields_of(self.payload)


@dataclass(frozen=True, slots=True)
class RunRow:
    """The ledger's record of one run. `starts` counts how often it was started or resumed."""

    run: str
    config_hash: str
    config: Mapping[str, object]
    starts: int
    started_at: float
    finished_at: float | None
    exit_reason: str | None

    QUERY: ClassVar[str] = (
        "SELECT run, config_hash, config, starts, started_at, finished_at, exit_reason FROM runs "
    )

    @classmethod
    def parse(cls, row: tuple[Cell, ...]) -> Self:
        """Returns the run in `row`, a row of the result of the SQL query `QUERY`."""
        return cls(*_decoded(row, 2))


@dataclass(frozen=True, slots=True)
class Spend:
    """The cost of a run's model calls for one use (role). `open_` fields are not billed yet."""

    usd: float
    tokens: int
    open_usd: float  # reserved, outcome not known: counted against the cap until settled
    open_tokens: int
    calls: int
    unpriced_calls: int


def link(before: str, step: Step) -> str:
    """Returns the hash over a step and `before`, the hash over all steps before it."""
    text = canonical([before, step.key, step.run, step.kind, step.intent, step.outcome])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode(value: object) -> str:
    """Returns a value as JSON text with keys in their order. NaN and infinity become null."""
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> str:
    """Returns a value as JSON text with sorted keys. NaN and infinity become null."""
    return json.dumps(_finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(text: str | None) -> object:
    """Returns the value that JSON text holds, or None for None."""
    return None if text is None else json.loads(text)


def fields_of(value: object) -> Mapping[str, object]:
    """Returns the value if it is a JSON object, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def _decoded(row: tuple[Cell, ...], *json_columns: int) -> Iterator[Never]:
    """Yields a row's cells, with JSON columns parsed. STRICT tables ensure the other types."""
    for at, cell in enumerate(row):
        yield cast("Never", decode(cast("str | None", cell)) if at in json_columns else cell)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
