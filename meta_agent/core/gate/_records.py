"""The gate's own records: outcome rows, arms and findings.

A verdict must be recomputable from what is stored. So the gate reads nothing but these rows: one
per *planned* rollout (attempt at a task), whatever happened to it.

Not covered: where rows are stored, and how the attempts of an arm were made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from meta_agent.core.protocols import JSON, ErrorKind, Rollout

RowKey = tuple[str, int]  # (task_key, sample_idx)
Severity = Literal["veto", "harm", "unproven", "warn", "note"]
ArmSide = Literal["candidate", "baseline", "both"]


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """The outcome of a planned rollout (attempt at a task), in the few fields that the gate reads.

    `success` is None if the outcome is unknown because a machine or the grader failed. `reward` is
    the weighted total that training saw, or None if it was not computed. `training_seed` is 0 for a
    policy that the arm did not train.
    """

    task_key: str
    task_hash: str
    sample_idx: int
    training_seed: int
    success: bool | None
    flags: tuple[str, ...]
    reward: float | None
    error_kind: ErrorKind | None
    stop_reason: str
    turns: int
    evaluator_hash: str

    @property
    def key(self) -> RowKey:
        """Returns (task key, sample number), which is unique among the rows of a training seed."""
        return self.task_key, self.sample_idx

    @property
    def clean(self) -> bool | None:
        """Returns whether the task was solved without flagged conduct; None if that is unknown."""
        return None if self.success is None else self.success and not self.flags


def row_of(rollout: Rollout, *, training_seed: int = 0) -> OutcomeRow:
    """Returns the outcome row of a rollout; `training_seed` is the policy's, or 0 if untrained."""
    # Whatever the record claims, an infrastructure or verifier failure has no outcome.
    lost = rollout.error is not None and rollout.error.kind in ("infra", "verifier")
    return OutcomeRow(
        task_key=rollout.task_key,
        task_hash=rollout.task_hash,
        sample_idx=rollout.sample_idx,
        training_seed=training_seed,
        success=None if lost else bool(rollout.outcome),
        flags=tuple(rollout.flags),
        reward=rollout.total_reward if rollout.rewards else None,
        error_kind=rollout.error.kind if rollout.error else None,
        stop_reason=rollout.stop_reason,
        turns=rollout.turns,
        evaluator_hash=rollout.evaluator_hash,
    )


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison (baseline or candidate): its outcome rows by training seed.

    `planned` is the number of rows that every seed should have; missing rows are reported.
    `reward_hash` identifies the code that computed the rewards. Rewards of two arms are compared
    only if their hashes are equal and not empty.
    """

    name: str
    seeds: Mapping[int, tuple[OutcomeRow, ...]]
    planned: int
    reward_hash: str = ""

    def rows(self) -> Iterator[OutcomeRow]:
        """Yields all outcome rows (one per attempt), by training seed in ascending order."""
        for seed in sorted(self.seeds):
            yield from self.seeds[seed]

    @property
    def digest(self) -> str:
        """Returns a hash of the rows (in any order), the planned number and the reward hash."""
        lines = sorted(json.dumps(_fields(row), sort_keys=True) for row in self.rows())
        head = json.dumps([self.planned, sorted(self.seeds), self.reward_hash])
        return hashlib.sha256("\n".join([head, *lines]).encode()).hexdigest()


def _fields(row: OutcomeRow) -> dict[str, JSON]:
    # Not `asdict`, which copies each value: a digest is over thousands of rows.
    fields = {name: getattr(row, name) for name in row.__dataclass_fields__}
    return {**fields, "flags": list(row.flags), "clean": row.clean}


def arm_of(name: str, rows: Iterable[OutcomeRow], *, planned: int, reward_hash: str = "") -> Arm:
    """Returns one side of a comparison, with its rows grouped by training seed."""
    seeds: dict[int, list[OutcomeRow]] = {}
    for row in rows:
        seeds.setdefault(row.training_seed, []).append(row)
    return Arm(
        name, {seed: tuple(seed_rows) for seed, seed_rows in seeds.items()}, planned, reward_hash
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """One report of a validity check on an arm (one side of a comparison).

    Severity `veto` makes the candidate INVALID at any score. `harm` turns a promotion into a
    rejection, `unproven` only prevents it. `warn` and `note` change no verdict. A finding whose
    `side` is the baseline never counts against the candidate.
    """

    code: str
    severity: Severity
    message: str
    lines: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    side: ArmSide = "candidate"

    def to_json(self) -> dict[str, JSON]:
        return {**asdict(self), "lines": list(self.lines), "numbers": dict(self.numbers)}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Finding:
        return cls(**{**data, "lines": tuple(data["lines"]), "numbers": dict(data["numbers"])})
