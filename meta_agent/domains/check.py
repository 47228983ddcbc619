"""`meta-agent tasks check FILE`: is a task file fit to train and to judge on?

Promises: the grader that scores rollouts grades several attempts at every task. The gold has to
resolve the task; an empty attempt and the named cheats must not. No task may stand in the file
twice or in two splits, and `evolve` has to take the set. A sandbox that failed makes the check fail
and never counts as an answer.
The manifest names by hash what the answer rests on (file, archives, grader, each task), and nothing
that differs from one check to the next.

Does not cover: how hard a task is, whether its text gives the answer away, or tests too weak to
tell a wrong fix from a right one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.errors import InfrastructureError
from meta_agent.core.protocols import SPLITS, Domain, Outcome
from meta_agent.core.task_splits import as_used, lacking, sizes
from meta_agent.domains import DomainOptions, kind_of, open_domain
from meta_agent.domains.checking._report import CheckReport, TaskCheck, Trial, render
from meta_agent.domains.checking._subject import RIGHT, Subject, Subjects, repetitions

PARALLEL_SANDBOXES = 2
PROGRESS_EVERY: Final = 50  # fit tasks, if the file has many
Progress = Callable[[str], None]


def repeated_tasks(request: DomainOptions, domain: Domain) -> str:
    """Returns a sentence on how many tasks repeat others, with an example; empty if none does."""
    repeats = repetitions(_subjects(request.name, domain).tasks)
    if not repeats:
        return ""
    key = next(iter(repeats))
    return f"{len(repeats)} of its tasks repeat others: {key} is {repeats[key]}"


def check_tasks(
    request: DomainOptions, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """Opens a task set and tests its grader with right and cheating attempts at each task.

    `jobs` sandboxes run at a time. Raises `ConfigError` if the task file cannot be read at all.
    """
    domain = open_domain(request)
    try:
        report = check_domain(domain, name=request.name, jobs=jobs, progress=progress)
        return replace(report, **_as_a_set(domain, report.notes))
    finally:
        Capabilities.of(domain).close()


def check_domain(
    domain: Domain,
    *,
    name: str = "",
    jobs: int = PARALLEL_SANDBOXES,
    progress: Progress | None = None,
) -> CheckReport:
    """Tests an open domain's grader with right and cheating attempts, `jobs` tasks at a time.

    `name` is the value of `--domain`, which says how to check. By default it is `domain.name`.
    """
    subjects = _subjects(name or domain.name, domain)
    repeats = repetitions(subjects.tasks)
    hashes = {task.key: task.content_hash for split in SPLITS for task in domain.tasks(split)}
    tasks: list[TaskCheck] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = [
            pool.submit(_check_task, subjects, task, repeats, hashes[task.key])
            for task in subjects.tasks
        ]
        try:
            for future in futures:
                tasks.append(future.result())
                if progress:
                    _tell(progress, tasks, len(futures))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return CheckReport(
        path=str(Capabilities.of(domain).path or domain.name),
        domain=domain.name,
        evaluator_hash=domain.evaluator_hash,
        tasks=tuple(tasks),
        columns=subjects.columns,
        notes=subjects.notes,
        archives=subjects.archives,
        rows_refused=subjects.rows_refused,
    )


def default_manifest(path: Path) -> Path:
    """Returns the file beside a task file to which the results of checking it are written."""
    return path.with_name(f"{path.stem}.checked.json")


def write_manifest(report: CheckReport, path: Path) -> None:
    """Writes a check's hashes and results as JSON. The same file and grader give equal bytes."""
    text = json.dumps(report.manifest(), indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _subjects(name: str, domain: Domain) -> Subjects:
    subjects: Subjects = import_module(kind_of(name)[0].check).subjects_of(domain)
    return subjects


def _as_a_set(domain: Domain, notes: tuple[str, ...]) -> dict[str, Any]:
    """Says what keeps `evolve` from the set (`lacks`), and notes it for policies that train."""
    lacks, trained = (
        lacking(
            sizes(as_used(domain, trainable=trainable)), trainable=trainable, pooled=not trainable
        )
        for trainable in (False, True)
    )
    more = (f"a policy that is trained is refused: it has {trained}",)
    return {"lacks": lacks, "notes": (*notes, *(more if trained and not lacks else ()))}


def _tell(progress: Progress, tasks: list[TaskCheck], total: int) -> None:
    task = tasks[-1]
    many = total > 4 * PROGRESS_EVERY
    if not many or not task.ok or len(tasks) % PROGRESS_EVERY == 0 or len(tasks) == total:
        answer = "fit" if task.ok else "; ".join(task.reasons)
        progress(f"[{len(tasks)}/{total}] {task.key}: {answer}")


def _check_task(
    subjects: Subjects, task: Subject, repeats: Mapping[str, str], content_hash: str
) -> TaskCheck:
    trials = tuple(_trial(subjects, name, grade) for name, grade in task.attempts.items())
    reasons = [trial.reason for trial in trials if not trial.ok]
    reasons += [*task.complaints, *([repeats[task.key]] if task.key in repeats else [])]
    return TaskCheck(
        task.key, task.split, task.line, task.size, trials, tuple(reasons), content_hash
    )


def _trial(subjects: Subjects, name: str, grade: Callable[[], Outcome]) -> Trial:
    must_resolve = name in RIGHT
    try:
        outcome = grade()
    except InfrastructureError as problem:
        reason = f"infrastructure: {problem}"[:300]
        return Trial(name, must_resolve, None, reason)
    return Trial(
        name,
        must_resolve,
        outcome.success,
        str(outcome.detail["verdict"]),
        flags=outcome.flags,
        evidence=tuple(subjects.evidence(outcome)),
    )


__all__ = [
    "CheckReport",
    "check_domain",
    "check_tasks",
    "default_manifest",
    "render",
    "repeated_tasks",
    "write_manifest",
]
