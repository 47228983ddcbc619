"""Files that speak of one attempt together: trajectories, their predictions, results and verdicts.

Agents leave a trajectory for each task and one file with all patches; the harness leaves a report;
Harbor leaves a result above each trajectory, verifiers its metadata beside the results.
Promises: an attempt is counted once; a verdict goes to an attempt only if it is the one verdict on
that task and the attempt is the only one at it; every other verdict is counted as unused. Whether
verdict and attempt are of one model nobody can tell from the files: who gives both says they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import Rollout
from meta_agent.readers.formats import _harbor, _predictions, _verdicts, _verifiers
from meta_agent.readers.formats._draft import digest, origin, with_outcome
from meta_agent.readers.formats._source import Source, head_of
from meta_agent.readers.formats._tally import Tally

_OF_REPORTS: Final = (b'"resolved_ids"', b'"total_instances"', b'"patch_is_None"')
_OF_PREDICTIONS: Final = b'"model_patch"'
_OF_TRAJECTORIES: Final = (b'"messages"', b'"trajectory"')
SAME: Final = "the patch of a trajectory that is read too"
UNUSED: Final = (
    "a verdict on a task without an attempt here that is the only one and has no outcome"
)
# (a file, the file that belongs to it, as what it is attached to each of the first one's values)
_PAIRS: Final = (
    (_harbor.RESULT, _harbor.TRAJECTORY, _harbor.ATTACHED),
    (_verifiers.RESULTS, _verifiers.METADATA, _verifiers.ATTACHED),
)


def paired(sources: Sequence[Source]) -> list[Source]:
    """Each file once; those that belong to another are attached to it, and are not read alone."""
    paths = {one.path for one in sources}
    files = {one.path.resolve(): one for one in reversed(sources)}
    found = [one._replace(beside=_beside(one.path, paths)) for one in reversed(files.values())]
    taken = {one.beside[1] for one in found if one.beside}
    return [one for one in found if one.path not in taken]


def _beside(path: Path, paths: Container[Path]) -> tuple[str, Path] | None:
    for name, other, attached in _PAIRS:
        if path.name == name and path.parent / other in paths:
            return attached, path.parent / other
    return None


def is_report(source: Source) -> bool:
    """Whether the file looks like one of the harness, judged by its beginning alone."""
    path = source.path
    return path.suffix == ".json" and any(mark in head_of(path) for mark in _OF_REPORTS)


def in_order(sources: Sequence[Source]) -> list[Source]:
    """Predictions last, so that their trajectories are known by then."""
    return sorted(sources, key=_of_predictions) if len(sources) > 1 else list(sources)


def _of_predictions(source: Source) -> bool:
    if source.path.suffix not in (".json", ".jsonl"):
        return False
    head = head_of(source.path)
    return _OF_PREDICTIONS in head and not any(mark in head for mark in _OF_TRAJECTORIES)


@dataclass(slots=True)
class Patches:
    """The patches that trajectories ended with, by name of task: 64 bytes each."""

    seen: set[str] = field(default_factory=set)

    def repeats(self, rollout: Rollout) -> bool:
        """Whether this is a prediction whose trajectory was read before."""
        kind = origin(rollout).get("format")
        patch = rollout.verifier_inputs.get("patch", "")
        if rollout.domain != "swe" or kind == _verdicts.NAME:
            return False
        mark = digest([rollout.task_key, str(patch).strip()])
        if kind == _predictions.NAME:
            return mark in self.seen
        self.seen.add(mark)
        return False


@dataclass(slots=True)
class Verdicts:
    """Outcomes by task, for attempts that have none."""

    of: dict[str, Rollout]

    def given(self, rollout: Rollout) -> Rollout:
        """The attempt with its outcome where there is a verdict on it."""
        if rollout.outcome is not None or rollout.error is not None:
            return rollout
        verdict = self.of.pop(rollout.task_key, None)
        if verdict is None:
            return rollout
        return with_outcome(rollout, verdict.outcome, place_of(verdict), error=verdict.error)


def place_of(rollout: Rollout) -> str:
    return str(origin(rollout).get("place"))


def verdicts_for(
    attempts: Iterable[Rollout], verdicts: Iterable[Rollout], tally: Tally
) -> Verdicts:
    """Those that are about one attempt; the others are counted."""
    at: Counter[str] = Counter()
    waiting: set[str] = set()
    for one in attempts:
        at[one.task_key] += 1
        waiting |= {one.task_key} if one.outcome is None and one.error is None else set()
    told = list(verdicts)
    on = Counter(one.task_key for one in told)
    alone = {task for task in waiting if at[task] == on[task] == 1}
    used = {one.task_key: one for one in told if one.task_key in alone}
    for one in told:
        if one.task_key not in used:
            tally.rows += 1
            tally.skip(UNUSED, place_of(one))
    tally.joined = len(used)
    return Verdicts(used)


def once(rollouts: Iterable[Rollout], tally: Tally) -> Iterator[Rollout]:
    """Without the predictions whose trajectories are there."""
    patches = Patches()
    for rollout in rollouts:
        if patches.repeats(rollout):
            tally.skip(SAME, place_of(rollout))
            tally.rollouts -= 1
        else:
            yield rollout
