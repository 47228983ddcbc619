"""What the ledger hands out: frozen rows, and the one way values become text and back."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from meta_agent.protocols import JSON

FAILED: Final = "failed"  # the event of an attempt at a step that raised
DONE: Final = "done"  # the exit reason of a run that has nothing left to do


@dataclass(frozen=True, slots=True)
class Step:
    """One durable step. `finished_at` is None while its work is in flight (or was, at a crash)."""

    seq: int
    key: str
    run: str | None
    kind: str
    intent: JSON
    attempts: int
    started_at: float  # Unix time, for people; never used to decide anything
    finished_at: float | None
    duration_sec: float | None  # of the attempt that finished, by a monotonic clock
    outcome: JSON
    error: str | None  # how the latest attempt failed, while there is no outcome

    QUERY: ClassVar[str] = (
        "SELECT seq, key, run, kind, intent, attempts, started_at, finished_at, duration_sec, "
        "outcome, error FROM steps "
    )

    @classmethod
    def parse(cls, row: tuple[Any, ...]) -> Self:
        """Reads a row of `QUERY`."""
        return cls(*_decoded(row, 4, 9))

    @property
    def done(self) -> bool:
        """Whether the outcome is recorded."""
        return self.finished_at is not None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the append-only log."""

    seq: int
    run: str | None
    kind: str
    at: float
    payload: JSON

    QUERY: ClassVar[str] = "SELECT seq, run, kind, at, payload FROM events "

    @classmethod
    def parse(cls, row: tuple[Any, ...]) -> Self:
        """Reads a row of `QUERY`."""
        return cls(*_decoded(row, 4))


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the main command; resumed runs keep their row."""

    run: str
    config_hash: str
    config: JSON
    starts: int
    started_at: float
    finished_at: float | None
    exit_reason: str | None
    result: JSON

    QUERY: ClassVar[str] = (
        "SELECT run, config_hash, config, starts, started_at, finished_at, exit_reason, result "
        "FROM runs "
    )

    @classmethod
    def parse(cls, row: tuple[Any, ...]) -> Self:
        """Reads a row of `QUERY`."""
        return cls(*_decoded(row, 2, 7))


@dataclass(frozen=True, slots=True)
class Spend:
    """What one role has spent. An unpriced call has tokens, and no usd: unknown is not zero."""

    usd: float
    tokens: int
    open_usd: float  # reserved, outcome not known: counted against the cap until settled
    open_tokens: int
    calls: int
    unpriced_calls: int


def link(before: str, step: Step) -> str:
    """The chain's digest over a finished step and all that was recorded before it."""
    told = canonical([before, step.key, step.run, step.kind, step.intent, step.outcome])
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def encode(value: JSON) -> str:
    """JSON text, in the order given. NaN and infinities become null: JSON has no word for them."""
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def canonical(value: JSON) -> str:
    """JSON text that equal values share: what intents are compared by."""
    return json.dumps(_finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(text: str | None) -> JSON:
    """The inverse of `encode`; None stays None."""
    return None if text is None else json.loads(text)


def _decoded(row: tuple[Any, ...], *json_columns: int) -> tuple[Any, ...]:
    return tuple(decode(cell) if at in json_columns else cell for at, cell in enumerate(row))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
