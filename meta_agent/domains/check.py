"""`meta-agent tasks check FILE`: is a task file fit to train and to judge on?

Promises: for every task, by the same grader that scores rollouts: the gold resolves it, nothing
does not, and none of the named cheats does; across the file: `evolve` takes it, no task twice,
none in two splits, and those whose texts are nearly the same in two splits are named. A sandbox
that failed is reported as such and makes the check fail, it never counts as an answer. The manifest
names everything that the answer rests on by hash (file, archives, grader, each task) and nothing
that differs from one check of it to the next.

Does not cover: how hard a task is, whether its text gives the answer away, or tests too weak to
tell a wrong fix from a right one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import Domain, Outcome
from meta_agent.core.task_splits import as_used, lacking, sizes
from meta_agent.domains import Asked, door_of, open_domain
from meta_agent.domains.checking._overlap import Facts, near_pairs, repetitions
from meta_agent.domains.checking._render import render
from meta_agent.domains.checking._report import CheckReport, TaskCheck, Trial, totals
from meta_agent.domains.checking._subject import Attempt, Subject
from meta_agent.domains.swe import RealSwe

PARALLEL_SANDBOXES = 2
PROGRESS_EVERY: Final = 50  # of tasks that are fit, where there are many
Progress = Callable[[str], None]


def check_file(
    path: Path,
    *,
    domain: str = "swe",
    sandbox: str = "docker",
    jobs: int = PARALLEL_SANDBOXES,
    progress: Progress | None = None,
    images: Path | None = None,
) -> CheckReport:
    """Checks every task of a file; raises `ConfigError` where the file cannot be read at all."""
    asked = Asked(domain, path, sandbox=sandbox, run="tasks-check", images=images)
    return check_asked(asked, jobs=jobs, progress=progress)


def told_twice(asked: Asked, domain: Domain) -> str:
    """The first task that repeats another and how many do, as `evolve` refuses them; or nothing."""
    repeats = repetitions(_subject(asked, domain).facts())
    if not repeats:
        return ""
    key = next(iter(repeats))
    return f"{len(repeats)} of its tasks repeat others: {key} is {repeats[key]}"


def _subject(asked: Asked, domain: Domain) -> Subject[Any]:
    subject: Subject[Any] = import_module(door_of(asked.name)[0].check).subject_of(domain)
    return subject


def check_asked(
    asked: Asked, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """The same for whatever a run could be asked for."""
    domain = open_domain(asked)
    subject = _subject(asked, domain)
    try:
        found = check_subject(subject, jobs=jobs, progress=progress)
        return replace(found, **_as_a_set(domain, found.notes))
    finally:
        subject.close()


def _as_a_set(domain: Domain, notes: tuple[str, ...]) -> dict[str, Any]:
    """Whether `evolve` takes the set: for a frozen policy, or not at all."""
    lacks, trained = (
        lacking(sizes(as_used(domain, trainable=trainable)), trainable=trainable)
        for trainable in (False, True)
    )
    more = (f"a policy that is trained is refused: it has {trained}",)
    return {"lacks": lacks, "notes": (*notes, *(more if trained and not lacks else ()))}


def check_domain(
    domain: RealSwe, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """The same for repository tasks that are already loaded; `jobs` sandboxes at a time."""
    from meta_agent.domains.checking._swe import SweSubject

    return check_subject(SweSubject(domain), jobs=jobs, progress=progress)


def check_subject(
    subject: Subject[Any], *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """The same for any kind of task file."""
    facts = list(subject.facts())
    repeats = repetitions(facts)
    tasks: list[TaskCheck] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(_check_task, subject, task, repeats) for task in facts]
        try:
            for future in futures:
                tasks.append(future.result())
                if progress:
                    _tell(progress, tasks, len(futures))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return CheckReport(
        path=str(subject.path),
        domain=subject.name,
        evaluator_hash=subject.evaluator_hash,
        tasks=tuple(tasks),
        columns=subject.columns,
        notes=subject.notes,
        near=tuple(near_pairs(facts)),
        archives=subject.archives(),
        rows_refused=subject.rows_refused,
        totals=totals(tasks, subject.columns),
    )


def default_manifest(path: Path) -> Path:
    """Where the manifest of a check goes if nobody says otherwise."""
    return path.with_name(f"{path.stem}.checked.json")


def write_manifest(report: CheckReport, path: Path) -> None:
    """Writes the manifest; the same file and grader give the same bytes."""
    text = json.dumps(report.manifest(), indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _tell(progress: Progress, tasks: list[TaskCheck], total: int) -> None:
    task = tasks[-1]
    many = total > 4 * PROGRESS_EVERY
    if not many or not task.ok or len(tasks) % PROGRESS_EVERY == 0 or len(tasks) == total:
        said = "fit" if task.ok else "; ".join(task.reasons)
        progress(f"[{len(tasks)}/{total}] {task.key}: {said}")


def _check_task(subject: Subject[Any], task: Facts, repeats: dict[str, str]) -> TaskCheck:
    trials = tuple(_tried(subject, attempt) for attempt in subject.attempts(task.key))
    reasons = [trial.reason for trial in trials if not trial.ok]
    reasons += subject.complaints(task.key)
    if task.key in repeats:
        reasons.append(repeats[task.key])
    return TaskCheck(
        task.key,
        task.split,
        task.line,
        subject.size(task.key),
        trials,
        tuple(reasons),
        subject.content_hash(task.key),
    )


def _tried(subject: Subject[Any], attempt: Attempt) -> Trial:
    try:
        outcome: Outcome = attempt.graded()
    except InfrastructureError as problem:
        told = f"infrastructure: {problem}"[:300]
        return Trial(attempt.name, attempt.must_resolve, None, told, noun=subject.noun)
    return Trial(
        attempt.name,
        attempt.must_resolve,
        outcome.success,
        str(outcome.detail["verdict"]),
        outcome.flags,
        subject.evidence(outcome),
        subject.noun,
    )


__all__ = [
    "CheckReport",
    "check_asked",
    "check_domain",
    "check_file",
    "default_manifest",
    "render",
    "write_manifest",
]
