"""The results of a check as values: trials, tasks and the whole file, and the manifest."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from meta_agent.core.protocols import JSON, SPLITS


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at one task. `resolved` is None if infrastructure failed."""

    name: str  # "gold", "empty", or a cheat
    must_resolve: bool
    resolved: bool | None
    verdict: str
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    noun: str = "patch"  # what was handed in

    @property
    def ok(self) -> bool:
        return self.resolved is self.must_resolve

    @property
    def reason(self) -> str:
        """What is wrong, in words; empty if nothing is."""
        if self.ok:
            return ""
        if self.resolved is None:
            return f"{self.name}: not measured ({self.verdict})"
        wrong = "does not resolve the task" if self.must_resolve else "resolves the task"
        why = "; ".join((self.verdict, *self.evidence))
        return f"{self.name} {self.noun} {wrong} ({why})"


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """One task's row of the report. `size` says how many tests decide it, or the like."""

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
    """Counts of trials. A machine's failure is neither a pass nor a failure of a task.

    `clean` counts resolved attempts without flagged conduct.
    """

    resolved: int
    clean: int
    unresolved: int
    infrastructure: int

    @classmethod
    def of(cls, trials: list[Trial]) -> Totals:
        resolved = [trial for trial in trials if trial.resolved]
        return cls(
            len(resolved),
            sum(not trial.flags for trial in resolved),
            sum(trial.resolved is False for trial in trials),
            sum(trial.resolved is None for trial in trials),
        )


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The whole file."""

    path: str
    domain: str
    evaluator_hash: str
    tasks: tuple[TaskCheck, ...]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    near: tuple[
        tuple[str, str, float], ...
    ] = ()  # keys of alike tasks of different splits, and the share
    archives: tuple[tuple[str, str], ...] = ()  # name and sha256
    rows_refused: int = 0
    totals: dict[str, Totals] = field(default_factory=dict)  # by name of trial
    lacks: str = ""  # why `evolve` refuses the set; empty if it does not

    @property
    def ok(self) -> bool:
        return all(task.ok for task in self.tasks) and not self.lacks

    def to_json(self) -> dict[str, JSON]:
        """Plain JSON, with the verdict of each row spelled out."""
        return {
            "schema_version": 1,
            "path": self.path,
            "domain": self.domain,
            "ok": self.ok,
            "lacks": self.lacks,
            "evaluator_hash": self.evaluator_hash,
            "notes": list(self.notes),
            "totals": {name: asdict(total) for name, total in self.totals.items()},
            "near_overlap": [list(pair) for pair in self.near],
            "tasks": [{**asdict(task), "ok": task.ok} for task in self.tasks],
        }

    def manifest(self) -> dict[str, JSON]:
        """Hashes of what was checked, and the results."""
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
            "near_overlap": [list(pair) for pair in self.near],
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


def totals(tasks: list[TaskCheck], columns: tuple[str, ...]) -> dict[str, Totals]:
    """The counts of each trial, by its name."""
    return {
        name: Totals.of([trial for task in tasks for trial in task.trials if trial.name == name])
        for name in columns
    }
