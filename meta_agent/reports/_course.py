"""How a run went: clean success over attempts, the stages of a training, and where time went.

Everything is derived from finished steps, in the order in which they finished. A step of an unknown
form adds nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from meta_agent.core.ledger import Step
from meta_agent.reports._parts import count_of, short_id

PointKind = Literal["start", "edit", "dropped", "bundle", "imitation", "leg", "training"]

_SERIES: Final = re.compile(r"(.*?)(?: seed |[-/]s)(\d+)(?:(?:, |-n)(\d+)(?: steps)?)?")
_CANDIDATE: Final = re.compile(r"g\d+/c\d+$")
_ACTIVITIES: Final[Mapping[str, str]] = {
    "train": "training",
    "eval": "attempts",
    "proposal": "proposing",
    "revision": "proposing",
    "screen": "checks without training",
}


class Point(NamedTuple):
    """Clean success (a share) on search tasks when a run had made `at` attempts."""

    at: int
    share: float
    kind: PointKind
    label: str

    @property
    def is_kept(self) -> bool:
        """Returns True if the search went on from what was measured."""
        return self.kind != "dropped"


class Stage(NamedTuple):
    """A part of a longer training: the steps made before it, and whether it imitates rows."""

    before: int
    imitates: bool


@dataclass(slots=True)
class Course:
    """What finished steps say about a run's way; see the module's docstring."""

    points: list[Point] = field(default_factory=list)
    stages: dict[tuple[int, int], Stage] = field(default_factory=dict)
    """By seed and number of steps, the trainings that are parts of a longer one."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by activity. Jobs that ran at the same time add up."""
    shards: list[str] = field(default_factory=list)
    """Names of the stored sets of attempts at search tasks, in the order in which they ended."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of commits of the harness: a version, a candidate, or a bundle."""
    steps_of: dict[str, int] = field(default_factory=dict)
    """Training steps behind each policy."""


def course_of(steps: Iterable[Step]) -> Course:
    """Returns the course of a run from its steps, in any order; unfinished ones are left out."""
    done = [step for step in steps if step.finished_at is not None]
    done.sort(key=lambda step: (step.finished_at or 0.0, step.seq))
    course, attempts_made, tried = Course(), 0, _Tried()
    evaluated: list[int] = []  # attempts made when each evaluation on search tasks ended
    for step in done:
        fields: Mapping[str, Any] = step.fields
        attempts_made += count_of(fields.get("rollouts"))
        if step.kind == "eval" and step.intent.get("split") == "search":
            evaluated.append(attempts_made)
            if isinstance(shard := fields.get("shard"), dict):
                course.shards.append(str(shard.get("name")))
        _name_commits(course.names, step, fields)
        if step.kind == "train":
            _stage(course, step, fields)
        course.points += _points(step, fields, attempts_made, evaluated, tried, course.points)
    course.seconds = _seconds(done)
    return course


def split_series(series: str) -> tuple[str, int | None, int | None]:
    """Returns arm, training seed and steps of a curve's name such as `g0/c2 seed 1, 30 steps`."""
    match = _SERIES.fullmatch(series)
    if not match:
        return series, None, None
    arm, seed, steps = match.groups()
    return arm, int(seed), int(steps) if steps else None


# --- points -------------------------------------------------------------------------------------


class _Tried:
    """Attempts and clean successes of candidates that race, summed over their blocks."""

    def __init__(self) -> None:
        self._clean: defaultdict[str, int] = defaultdict(int)
        self._attempts: defaultdict[str, int] = defaultdict(int)

    def add(self, fields: Mapping[str, Any]) -> float | None:
        """Adds a block, and returns the candidate's share so far; None without attempts."""
        name = str(fields.get("of"))
        self._clean[name] += count_of(fields.get("clean"))
        self._attempts[name] += count_of(fields.get("attempts"))
        return self._clean[name] / self._attempts[name] if self._attempts[name] else None


def _points(
    step: Step,
    fields: Mapping[str, Any],
    attempts_made: int,
    evaluated: Sequence[int],
    tried: _Tried,
    before: list[Point],
) -> Iterator[Point]:
    share = fields.get("clean_success")
    match step.kind:
        case "baseline" if isinstance(share, float):
            yield Point(attempts_made, share, "start", "the start")
        case "race" if _CANDIDATE.search(name := str(fields.get("of"))):
            share, word = tried.add(fields), fields.get("word")
            if share is not None and word in ("kept", "dropped"):
                kind: PointKind = "edit" if word == "kept" else "dropped"
                yield Point(attempts_made, share, kind, short_id(name))
        case "lead" if _joined(name := str(fields.get("candidate")), before):
            line = [point for point in before if point.is_kept]
            yield Point(attempts_made, line[-1].share, "edit", short_id(name))
        case "cell" if isinstance(share, float):
            name = f"g{fields.get('generation')} {fields.get('name')}"
            yield Point(attempts_made, share, "dropped", name)
        case "bundle":
            _keep_chosen(before, f"g{fields.get('generation')} {fields.get('chosen')}")
        case "passes":
            yield from _repeated(fields.get("clean_success"), evaluated, "imitation", "pass")
        case "checkpoint":
            shares = fields.get("search_clean_success")
            values = list(shares.values()) if isinstance(shares, dict) else None
            yield from _repeated(values, evaluated, "training", "training")
        case "leg" if isinstance(share, float):
            kind = "dropped" if fields.get("harm") else "leg"
            yield Point(attempts_made, share, kind, f"leg {count_of(fields.get('leg')) + 1}")


def _joined(candidate: str, before: Sequence[Point]) -> bool:
    """Returns True for a candidate that joined the lead without an own measurement."""
    names = {point.label for point in before if point.kind == "edit"}
    return bool(before) and candidate != "None" and short_id(candidate) not in names


def _keep_chosen(points: list[Point], label: str) -> None:
    """Marks the bundle that the search continued from, and moves it behind its rivals."""
    for place, point in enumerate(points):
        if point.label == label:
            points.append(points.pop(place)._replace(kind="bundle"))
            return


def _repeated(
    shares: object, evaluated: Sequence[int], kind: PointKind, word: str
) -> Iterator[Point]:
    """Yields a point for each share of one step, at the last evaluations before the step."""
    listed = shares if isinstance(shares, list) else []
    values = [share for share in listed if isinstance(share, float)]
    values = values[1:] if kind == "imitation" else values  # the first is of no pass
    places = list(evaluated[-len(values) :]) if values else []
    for number, (at, share) in enumerate(zip(places, values[-len(places) :], strict=True), 1):
        yield Point(at, share, kind, f"{word} {number}")


# --- trainings, commits, time -------------------------------------------------------------------


def _stage(course: Course, step: Step, fields: Mapping[str, Any]) -> None:
    seed, stage_steps, total = (
        step.intent.get("seed"),
        step.intent.get("steps"),
        fields.get("steps"),
    )
    if not (isinstance(seed, int) and isinstance(stage_steps, int) and isinstance(total, int)):
        return
    course.steps_of[str(fields.get("policy"))] = total
    imitates = step.key.endswith("-imitates")
    if imitates or total > stage_steps:
        course.stages[seed, stage_steps] = Stage(total - stage_steps, imitates)


def _name_commits(names: dict[str, str], step: Step, fields: Mapping[str, Any]) -> None:
    commit = fields.get("commit") or fields.get("harness_commit") or step.intent.get("commit")
    if not isinstance(commit, str):
        return
    match step.kind:
        case "baseline" | "merge":
            names[commit] = str(fields.get("version"))
        case "candidate":
            names.setdefault(commit, short_id(str(fields.get("id"))))
        case "cell":
            names.setdefault(commit, f"g{fields.get('generation')} {fields.get('name')}")
        case "race":
            names.setdefault(commit, short_id(str(fields.get("of"))))


def _seconds(done: Sequence[Step]) -> dict[str, float]:
    """Returns seconds by activity, without the attempts that a proposer asked for in its time."""
    seconds: dict[str, float] = defaultdict(float)
    inner = [step for step in done if step.kind in ("eval", "train")]
    for step in done:
        activity, lasted = _ACTIVITIES.get(step.kind), step.duration_sec or 0.0
        if activity is None:
            continue
        if step.kind == "proposal":
            within = (other.duration_sec or 0.0 for other in inner if _is_within(other, step))
            lasted = max(0.0, lasted - sum(within))
        seconds[activity] += lasted
    return dict(sorted(seconds.items(), key=lambda pair: -pair[1]))


def _is_within(inner: Step, outer: Step) -> bool:
    return outer.started_at <= inner.started_at and (inner.finished_at or 0.0) <= (
        outer.finished_at or 0.0
    )
