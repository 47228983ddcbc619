"""The report of `meta-agent verify`, and the second grading of stored attempts.

Every difference is reported with both values; nothing is repaired. What is compared, and how it is
computed again, is in `studies.review`.

Not covered: flags that an environment raised during attempts. They cannot be raised again. They are
stored in shards whose hashes the ledger's chain holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Domain, Rollout

TOLERANCE: Final = 1e-9


class Difference(NamedTuple):
    """A value, named `what`, that differs between a run's record and its recomputation."""

    what: str
    recorded: JSON
    recomputed: JSON


class Regrade(NamedTuple):
    """How many stored attempts were graded again or skipped, and where the results differ."""

    checked: int
    skipped: int  # without an outcome, or without verifier inputs
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of computing a run again: `ok` is True if everything matches the record."""

    commit: str
    recorded: str
    recomputed: str
    differences: tuple[Difference, ...]
    taken_as_recorded: tuple[str, ...]
    """What cannot be computed again: kinds of steps, and measurements that a harness broke off."""
    steps: int = 0
    """The number of steps of the run that were computed again."""
    rows: int = 0
    """The number of attempts behind the verdict."""
    regraded: int = 0
    journal: str | None = None
    """The last digest of the ledger's hash chain. Stored elsewhere, it shows later changes."""

    @property
    def ok(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, JSON]:
        record: dict[str, JSON] = {**asdict(self), "ok": self.ok}
        record["differences"] = [difference._asdict() for difference in self.differences]
        record["taken_as_recorded"] = list(self.taken_as_recorded)
        return record


def compared(what: str, recorded: JSON, again: JSON) -> Iterator[Difference]:
    """Yields where two values called `what` differ, leaf by leaf. Rounding errors are ignored."""
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        for key in sorted({*recorded, *again}):
            yield from compared(f"{what}.{key}", recorded.get(key), again.get(key))
    elif not _same(recorded, again):
        yield Difference(what, recorded, again)


def _same(recorded: JSON, again: JSON) -> bool:
    if isinstance(recorded, float) or isinstance(again, float):
        numbers = all(type(value) in (int, float) for value in (recorded, again))
        return numbers and math.isclose(recorded, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(recorded, list) and isinstance(again, list):
        pairs = zip(recorded, again, strict=False)
        return len(recorded) == len(again) and all(_same(a, b) for a, b in pairs)
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        names = recorded.keys() | again.keys()
        return all(_same(recorded.get(name), again.get(name)) for name in names)
    return bool(recorded == again)


def regrade(rollouts: Iterable[Rollout], domain: Domain) -> Regrade:
    """Grades stored attempts again; returns counts, and outcomes that the grader contradicts."""
    checked = skipped = 0
    differences: list[Difference] = []
    for rollout in rollouts:
        if rollout.outcome is None or not rollout.verifier_inputs:
            skipped += 1
            continue
        checked += 1
        differences += _regraded(rollout, domain)
    return Regrade(checked, skipped, tuple(differences))


def _regraded(rollout: Rollout, domain: Domain) -> Iterator[Difference]:
    name = f"{rollout.task_key}#{rollout.sample_idx} (seed {rollout.seed})"
    if rollout.evaluator_hash != domain.evaluator_hash:
        yield Difference(f"evaluator of {name}", rollout.evaluator_hash, domain.evaluator_hash)
        return
    again = domain.regrade(rollout.task_key, rollout.verifier_inputs)
    if again.success is not rollout.outcome:
        yield Difference(f"outcome of {name}", rollout.outcome, again.success)
    if stripped := sorted(set(again.flags) - set(rollout.flags)):
        yield Difference(f"flags of {name}", sorted(rollout.flags), stripped)
