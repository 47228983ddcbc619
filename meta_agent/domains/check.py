"""`meta-agent tasks check FILE`: is a task file fit to train and to judge on?

Promises: the grader that scores rollouts grades several attempts at every task. The gold has to
resolve the task; an empty attempt and the named cheats must not. No task may stand in the file
twice or in two splits, and `evolve` has to take the set. Tasks of different splits whose texts are
nearly the same are named. A sandbox that failed makes the check fail and never counts as an answer.
The manifest names by hash what the answer rests on (file, archives, grader, each task), and nothing
that differs from one check to the next.

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
PROGRESS_EVERY: Final = 50  # fit tasks, if the file has many
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
    """Checks every task of a file. Raises `ConfigError` if the file cannot be read at all."""
    request = Asked(domain, path, sandbox=sandbox, run="tasks-check", images=images)
    return check_asked(request, jobs=jobs, progress=progress)


def repeated_tasks(request: Asked, domain: Domain) -> str:
    """Names the first task that repeats another and counts them; empty if none does."""
    repeats = repetitions(_subject(request, domain).facts())
    if not repeats:
        return ""
    key = next(iter(repeats))
    return f"{len(repeats)} of its tasks repeat others: {key} is {repeats[key]}"


def _subject(request: Asked, domain: Domain) -> Subject[Any]:
    subject: Subject[Any] = import_module(door_of(request.name)[0].check).subject_of(domain)
    return subject


def check_asked(
    request: Asked, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """Checks the tasks that a run with these settings would have."""
    domain = open_domain(request)
    subject = _subject(request, domain)
    try:
        report = check_subject(subject, jobs=jobs, progress=progress)
        return replace(report, **_as_a_set(domain, report.notes))
    finally:
        subject.close()


def _as_a_set(domain: Domain, notes: tuple[str, ...]) -> dict[str, Any]:
    """What keeps `evolve` from the set (`lacks`), and a note on policies that are trained."""
    lacks, trained = (
        lacking(sizes(as_used(domain, trainable=trainable)), trainable=trainable)
        for trainable in (False, True)
    )
    more = (f"a policy that is trained is refused: it has {trained}",)
    return {"lacks": lacks, "notes": (*notes, *(more if trained and not lacks else ()))}


def check_domain(
    domain: RealSwe, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """Checks repository tasks that are already loaded; `jobs` sandboxes at a time."""
    from meta_agent.domains.checking._swe import SweSubject

    return check_subject(SweSubject(domain), jobs=jobs, progress=progress)


def check_subject(
    subject: Subject[Any], *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """Checks any kind of task file."""
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
    """The default path of a check's manifest."""
    return path.with_name(f"{path.stem}.checked.json")


def write_manifest(report: CheckReport, path: Path) -> None:
    """Writes the manifest; the same file and grader give the same bytes."""
    text = json.dumps(report.manifest(), indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _tell(progress: Progress, tasks: list[TaskCheck], total: int) -> None:
    task = tasks[-1]
    many = total > 4 * PROGRESS_EVERY
    if not many or not task.ok or len(tasks) % PROGRESS_EVERY == 0 or len(tasks) == total:
        answer = "fit" if task.ok else "; ".join(task.reasons)
        progress(f"[{len(tasks)}/{total}] {task.key}: {answer}")


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
        verdict = f"infrastructure: {problem}"[:300]
        return Trial(attempt.name, attempt.must_resolve, None, verdict, noun=subject.noun)
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
