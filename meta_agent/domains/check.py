"""`meta-agent tasks check FILE`: is a task file fit to train and to judge on?

Promises: for every task, by the same grader that scores rollouts: the gold patch resolves it, the
empty patch does not, and none of the named cheats does; across the file: no task twice, and none
in two splits. A sandbox that failed is reported as such and makes the check fail, it never counts
as an answer. The manifest names everything that the answer rests on by hash (file, archives,
grader, each task) and nothing that differs from one check of it to the next.

Does not cover: how hard a task is, whether its text gives the answer away, or tests too weak to
tell a wrong fix from a right one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from meta_agent.domains.formats import SweRow, semantic_key
from meta_agent.domains.swe import RealSwe, load_tasks_domain
from meta_agent.domains.swe.cheats import CHEATS
from meta_agent.errors import InfrastructureError
from meta_agent.protocols import JSON, SPLITS, Outcome

PARALLEL_SANDBOXES = 2
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """One patch tried on one task: `resolved` is None where infrastructure failed."""

    name: str  # "gold", "empty", or a cheat
    must_resolve: bool
    resolved: bool | None
    verdict: str
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.resolved is self.must_resolve

    @property
    def reason(self) -> str:
        """What is wrong, in words; empty where nothing is."""
        if self.ok:
            return ""
        if self.resolved is None:
            return f"{self.name}: not measured ({self.verdict})"
        wrong = "does not resolve the task" if self.must_resolve else "resolves the task"
        why = "; ".join((self.verdict, *self.evidence))
        return f"{self.name} patch {wrong} ({why})"


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """One task's row of the report."""

    key: str
    split: str
    line: int
    fail_to_pass: int
    pass_to_pass: int
    trials: tuple[Trial, ...]
    reasons: tuple[str, ...]
    content_hash: str = ""

    @property
    def ok(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The whole file."""

    path: str
    evaluator_hash: str
    tasks: tuple[TaskCheck, ...]
    notes: tuple[str, ...] = field(default=())
    archives: tuple[tuple[str, str], ...] = ()  # name and sha256

    @property
    def ok(self) -> bool:
        return all(task.ok for task in self.tasks)

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON, with the verdict of each row spelled out."""
        rows = [{**asdict(task), "ok": task.ok} for task in self.tasks]
        return {
            "schema_version": 1,
            "path": self.path,
            "ok": self.ok,
            "evaluator_hash": self.evaluator_hash,
            "notes": list(self.notes),
            "tasks": rows,
        }

    def manifest(self) -> dict[str, JSON]:
        """What was checked, by hash, and what came out."""
        splits = Counter(task.split for task in self.tasks)
        return {
            "schema_version": 1,
            "file": Path(self.path).name,
            "sha256": hashlib.sha256(Path(self.path).read_bytes()).hexdigest(),
            "archives": dict(sorted(self.archives)),
            "evaluator_hash": self.evaluator_hash,
            "ok": self.ok,
            "splits": {split: splits[split] for split in SPLITS},
            "tasks": {
                task.key: {
                    "content_hash": task.content_hash,
                    "split": task.split,
                    "ok": task.ok,
                    "trials": {trial.name: trial.resolved for trial in task.trials},
                }
                for task in self.tasks
            },
        }


def check_file(
    path: Path,
    *,
    sandbox: str = "docker",
    jobs: int = PARALLEL_SANDBOXES,
    progress: Progress | None = None,
) -> CheckReport:
    """Checks every task of a file; raises `ConfigError` where the file cannot be read at all."""
    return check_domain(
        load_tasks_domain(path, sandbox=sandbox, run="tasks-check"), jobs=jobs, progress=progress
    )


def check_domain(
    domain: RealSwe, *, jobs: int = PARALLEL_SANDBOXES, progress: Progress | None = None
) -> CheckReport:
    """The same for a domain that is already loaded; `jobs` sandboxes at a time."""
    repeats = _repeats(list(domain.rows.values()))
    tasks: list[TaskCheck] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(_check_task, domain, key, repeats) for key in domain.rows]
        try:
            for future in futures:
                tasks.append(future.result())
                if progress:
                    progress(f"[{len(tasks)}/{len(futures)}] {_line(tasks[-1])}")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return CheckReport(
        str(domain.path),
        domain.evaluator_hash,
        tuple(tasks),
        (*domain.notes, *_same_places(domain)),
        _archives(domain),
    )


def default_manifest(path: Path) -> Path:
    """Where the manifest of a check goes if nobody says otherwise."""
    return path.with_name(f"{path.stem}.checked.json")


def write_manifest(report: CheckReport, path: Path) -> None:
    """Writes the manifest; the same file and grader give the same bytes."""
    text = json.dumps(report.manifest(), indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def render(report: CheckReport) -> str:
    """The report as a table for people."""
    columns = ["gold", "empty", *CHEATS]
    width = max([len(task.key) for task in report.tasks] + [len("task")])
    head = ["task".ljust(width), "split  ", "F2P", "P2P", *columns]
    lines = ["  ".join(head)]
    lines += ["  ".join(_cells(task, width, columns)) for task in report.tasks]
    lines += [f"{task.key}: {reason}" for task in report.tasks for reason in task.reasons]
    lines += [f"note: {note}" for note in report.notes]
    bad = sum(not task.ok for task in report.tasks)
    lines.append(
        f"{len(report.tasks)} tasks, {bad} unfit" if bad else f"{len(report.tasks)} tasks, all fit"
    )
    return "\n".join(lines)


def _check_task(domain: RealSwe, key: str, repeats: dict[str, str]) -> TaskCheck:
    row = domain.rows[key]
    trials = tuple(_trials(domain, row))
    reasons = [trial.reason for trial in trials if not trial.ok]
    if row.patch is None:
        reasons.append("the row has no gold patch, so nothing shows that the task can be solved")
    if key in repeats:
        reasons.append(repeats[key])
    return TaskCheck(
        key,
        row.split,
        row.line,
        len(row.fail_to_pass),
        len(row.pass_to_pass),
        trials,
        tuple(reasons),
        domain.task(key).content_hash,
    )


def _trials(domain: RealSwe, row: SweRow) -> Iterator[Trial]:
    if row.patch is not None:
        yield _trial(domain, row, "gold", row.patch, must_resolve=True)
    yield _trial(domain, row, "empty", "", must_resolve=False)
    for name, cheat in CHEATS.items():
        yield _trial(domain, row, name, cheat(domain.files(row.instance_id)), must_resolve=False)


def _trial(domain: RealSwe, row: SweRow, name: str, patch: str, *, must_resolve: bool) -> Trial:
    try:
        outcome = domain.regrade(row.instance_id, {"patch": patch})
    except InfrastructureError as problem:
        return Trial(name, must_resolve, None, f"infrastructure: {problem}"[:300])
    return _measured(name, must_resolve, outcome)


def _measured(name: str, must_resolve: bool, outcome: Outcome) -> Trial:
    detail = outcome.detail
    evidence = (*map(str, detail["not_passing"][:3]), *map(str, detail["evidence"][:3]))
    verdict = str(detail["verdict"])
    return Trial(name, must_resolve, outcome.success, verdict, outcome.flags, evidence)


def _repeats(rows: list[SweRow]) -> dict[str, str]:
    """Why a row is a repetition of an earlier one, by key."""
    first: dict[str, SweRow] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        for mark in (
            semantic_key(row.repo, row.patch, row.problem_statement),
            f"text {row.repo} {' '.join(row.problem_statement.split())}",
        ):
            known = first.setdefault(mark, row)
            if known is not row:
                reasons[row.instance_id] = _repetition(row, known)
    return reasons


def _same_places(domain: RealSwe) -> tuple[str, ...]:
    """Not the same task, but the same lines to mend, seen from two splits."""
    splits: dict[tuple[str, str], set[str]] = {}
    for row in domain.rows.values():
        for path, content in (domain.files(row.instance_id).gold or {}).items():
            place = (path, hashlib.sha256(content or b"").hexdigest() + _hunks(row.patch or ""))
            splits.setdefault(place, set()).add(row.split)
    count = sum(len(found) > 1 for found in splits.values())
    if not count:
        return ()
    return (f"{count} places of a file are mended by tasks of more than one split",)


def _hunks(patch: str) -> str:
    """Where a patch ends up in the mended file, to the hunk."""
    return " ".join(re.findall(r"^@@ -\S+ \+(\d+)", patch, re.MULTILINE))


def _archives(domain: RealSwe) -> tuple[tuple[str, str], ...]:
    sources = [row.source for row in domain.rows.values() if row.source]
    return tuple(sorted({(one.archive, one.sha256) for one in sources if one.archive}))


def _repetition(row: SweRow, known: SweRow) -> str:
    if known.split != row.split:
        return (
            f"the same task as {known.instance_id}, which is in another split "
            f"({known.split}, this one {row.split}): the splits overlap"
        )
    return f"the same task as {known.instance_id}"


def _cells(task: TaskCheck, width: int, columns: list[str]) -> list[str]:
    trials = {trial.name: trial for trial in task.trials}
    cells = [
        task.key.ljust(width),
        task.split.ljust(7),
        f"{task.fail_to_pass:3d}",
        f"{task.pass_to_pass:3d}",
    ]
    return cells + [_cell(trials.get(name)).ljust(len(name)) for name in columns]


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return "-"
    if trial.resolved is None:
        return "infra"
    word = "yes" if trial.resolved else "no"
    return word if trial.ok else f"{word}!"


def _line(task: TaskCheck) -> str:
    return f"{task.key}: {'fit' if task.ok else '; '.join(task.reasons)}"


__all__ = [
    "CheckReport",
    "TaskCheck",
    "Trial",
    "check_domain",
    "check_file",
    "default_manifest",
    "render",
    "write_manifest",
]
