"""The results of a check of a task file, as values, as JSON and as a table."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from meta_agent.core.protocols import JSON, SPLITS

_SHOWN_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt that a check graded at one task. `resolved` is None if a machine failed."""

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
        """Returns why the trial makes its task unfit for use, or an empty text if it does not."""
        if self.ok:
            return ""
        if self.resolved is None:
            return f"{self.name}: not measured ({self.verdict})"
        wrong = "does not resolve the task" if self.must_resolve else "resolves the task"
        return f"{self.name} attempt {wrong} ({'; '.join((self.verdict, *self.evidence))})"

    @property
    def cell(self) -> str:
        """Returns the table cell: yes, no, or infra (a failed machine); `!` marks a wrong grade."""
        if self.resolved is None:
            return "infra"
        return ("yes" if self.resolved else "no") + ("" if self.ok else "!")


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """A checked task: its graded attempts, reasons why it is unfit, a size such as "5 tests"."""

    key: str
    split: str
    line: int
    size: str
    trials: tuple[Trial, ...]
    reasons: tuple[str, ...]
    content_hash: str = ""

    @property
    def ok(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Totals:
    """How often trials of one name resolved their task; `clean`: with no misconduct flagged."""

    resolved: int
    clean: int
    unresolved: int
    infrastructure: int

    def __str__(self) -> str:
        text = f"{self.resolved} resolved ({self.clean} clean), {self.unresolved} not"
        return text + (f", {self.infrastructure} not measured" if self.infrastructure else "")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of checking a task file: each task with its trials, notes, and totals."""

    path: str
    domain: str
    evaluator_hash: str
    tasks: tuple[TaskCheck, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    archives: tuple[tuple[str, str], ...] = ()
    """The name and the SHA-256 of each archive."""
    rows_refused: int = 0
    lacks: str = ""
    """Why `evolve` refuses the set; empty if it does not."""

    @property
    def ok(self) -> bool:
        return all(task.ok for task in self.tasks) and not self.lacks

    @property
    def totals(self) -> dict[str, Totals]:
        """Returns how often trials resolved their tasks, by the trial's name, such as gold."""
        totals = {}
        for name in self.columns:
            trials = [trial for task in self.tasks for trial in task.trials if trial.name == name]
            resolved = [trial for trial in trials if trial.resolved]
            totals[name] = Totals(
                len(resolved),
                sum(not trial.flags for trial in resolved),
                sum(trial.resolved is False for trial in trials),
                sum(trial.resolved is None for trial in trials),
            )
        return totals

    def to_json(self) -> dict[str, JSON]:
        """Returns the report as JSON, with each task's trials and whether it is fit."""
        return {
            "schema_version": 1,
            "path": self.path,
            "domain": self.domain,
            "ok": self.ok,
            "lacks": self.lacks,
            "evaluator_hash": self.evaluator_hash,
            "notes": list(self.notes),
            "totals": {name: asdict(total) for name, total in self.totals.items()},
            "tasks": [{**asdict(task), "ok": task.ok} for task in self.tasks],
        }

    def manifest(self) -> dict[str, JSON]:
        """Returns JSON with hashes of the file, its archives and its grader, and the results."""
        splits = Counter(task.split for task in self.tasks)
        return {
            "schema_version": 1,
            "file": Path(self.path).name,
            "sha256": hashlib.sha256(Path(self.path).read_bytes()).hexdigest(),
            "domain": self.domain,
            "archives": dict(sorted(self.archives)),
            "evaluator_hash": self.evaluator_hash,
            "ok": self.ok,
            "splits": {split: splits[split] for split in SPLITS},
            "rows_refused": self.rows_refused,
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


def render(report: CheckReport) -> str:
    """Returns the report as text: a table of trials, the reasons for unfit tasks, and totals."""
    wide = len(report.tasks) > _SHOWN_ROWS
    lines = _table(report, [task for task in report.tasks if not wide or not task.ok])
    lines += [f"{task.key}: {reason}" for task in report.tasks for reason in task.reasons]
    lines += [f"{name}: {total}" for name, total in report.totals.items()]
    lines += [f"note: {note}" for note in report.notes]
    bad = sum(not task.ok for task in report.tasks)
    fit = f"{bad} unfit" if bad else "each fit" if report.lacks else "all fit"
    lines.append(f"{len(report.tasks)} tasks, {fit}")
    lines += [f"evolve refuses the set: it has {report.lacks}"] if report.lacks else []
    return "\n".join(lines)


def _table(report: CheckReport, tasks: list[TaskCheck]) -> list[str]:
    rows = [["task", "split", "size", *report.columns]] if tasks else []
    for task in tasks:
        cells = {trial.name: trial.cell for trial in task.trials}
        marks = [cells.get(name, "-") for name in report.columns]
        rows.append([task.key, task.split, task.size, *marks])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)) for row in rows]
