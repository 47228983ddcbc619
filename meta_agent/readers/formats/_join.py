"""Joins files that describe the same attempts: trajectories, predictions, and verdicts on them.

An agent writes a trajectory per task and one file with all patches; the harness writes a report.
Promises: an attempt is counted once. A verdict is joined to an attempt only if the task has exactly
one verdict and one attempt. Every other verdict is counted as unused. The files do not say whether
a verdict and an attempt belong to the same model: a user who names both files asserts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from meta_agent.core.protocols import Rollout
from meta_agent.domains.formats.files import head_of
from meta_agent.readers.formats._benchmarks import PREDICTIONS, REPORTS
from meta_agent.readers.formats._draft import digest, origin, with_outcome
from meta_agent.readers.formats._source import Source
from meta_agent.readers.formats._tally import Tally

_OF_REPORTS: Final = (b'"resolved_ids"', b'"total_instances"', b'"patch_is_None"')
_OF_PREDICTIONS: Final = b'"model_patch"'
_OF_TRAJECTORIES: Final = (b'"messages"', b'"trajectory"')
_OF_EVALUATIONS: Final = (b'"test_result"', b'"resolved"')
SAME: Final = "the patch of a trajectory that is read too"
UNUSED: Final = (
    "a verdict on a task without an attempt here that is the only one and has no outcome"
)


def is_report(source: Source) -> bool:
    """Returns True if a file begins like a report of the SWE-bench harness, with its verdicts."""
    path = source.path
    return path.suffix == ".json" and any(mark in head_of(path) for mark in _OF_REPORTS)


def in_order(sources: Sequence[Source]) -> list[Source]:
    """Returns the files in reading order: evaluated attempts, trajectories, predictions.

    An attempt that two files hold is read from the first.
    """
    return sorted(sources, key=_rank) if len(sources) > 1 else list(sources)


def _rank(source: Source) -> int:
    if source.path.suffix not in (".json", ".jsonl"):
        return 1
    head = head_of(source.path)
    if all(mark in head for mark in _OF_EVALUATIONS):
        return 0
    is_prediction = _OF_PREDICTIONS in head and not any(mark in head for mark in _OF_TRAJECTORIES)
    return 2 if is_prediction else 1


@dataclass(slots=True)
class Patches:
    """Hashes of task and final patch of the trajectories read so far: 64 bytes each."""

    marks: set[str] = field(default_factory=set)

    def repeats(self, rollout: Rollout) -> bool:
        """Returns True for a prediction that repeats a trajectory read before: same task and patch.

        Call it for every rollout, in order: it remembers each trajectory, and returns False for it.
        """
        kind = origin(rollout).get("format")
        patch = rollout.verifier_inputs.get("patch", "")
        if rollout.domain != "swe" or kind == REPORTS.name:
            return False
        mark = digest([rollout.task_key, str(patch).strip()])
        if kind == PREDICTIONS.name:
            return mark in self.marks
        self.marks.add(mark)
        return False


def without_repeats(rollouts: Iterable[Rollout], tally: Tally) -> Iterator[Rollout]:
    """Yields the rollouts, except predictions whose trajectory was read; `tally` counts those."""
    patches = Patches()
    for rollout in rollouts:
        if patches.repeats(rollout):
            tally.skip(SAME, place_of(rollout))
            tally.rollouts -= 1
        else:
            yield rollout


@dataclass(slots=True)
class Verdicts:
    """Verdicts of a benchmark's report, by task, for attempts that have no outcome."""

    of_task: dict[str, Rollout]

    def applied_to(self, rollout: Rollout) -> Rollout:
        """Returns the attempt with the outcome of its verdict, or unchanged if there is none."""
        if rollout.outcome is not None or rollout.error is not None:
            return rollout
        verdict = self.of_task.pop(rollout.task_key, None)
        if verdict is None:
            return rollout
        return with_outcome(rollout, verdict.outcome, place_of(verdict), error=verdict.error)


def place_of(rollout: Rollout) -> str:
    """Returns the place (file and position) that a rollout was read from."""
    return str(origin(rollout).get("place"))


def verdicts_for(
    attempts: Iterable[Rollout], verdicts: Iterable[Rollout], tally: Tally
) -> Verdicts:
    """Returns verdicts on tasks with 1 verdict and 1 unjudged attempt; `tally` counts others."""
    attempts_at: Counter[str] = Counter()
    without_outcome: set[str] = set()
    for rollout in attempts:
        attempts_at[rollout.task_key] += 1
        if rollout.outcome is None and rollout.error is None:
            without_outcome.add(rollout.task_key)
    verdicts = list(verdicts)
    verdicts_on = Counter(verdict.task_key for verdict in verdicts)
    tasks = {task for task in without_outcome if attempts_at[task] == verdicts_on[task] == 1}
    for verdict in verdicts:
        if verdict.task_key not in tasks:
            tally.rows += 1
            tally.skip(UNUSED, place_of(verdict))
    tally.joined = len(tasks)
    return Verdicts({v.task_key: v for v in verdicts if v.task_key in tasks})
