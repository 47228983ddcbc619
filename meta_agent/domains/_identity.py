"""Bases of domains that read a task file, and hashes of what they measure.

`evaluator_hash` changes with the rows, the code that grades, the ceilings and the sampling.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import JSON, Domain, Split, Task
from meta_agent.domains.formats.rows import TaskFile


class FileTasks:
    """A base class of domains that lists a split's tasks from `rows`, as read from a task file."""

    rows: Mapping[str, Any]
    capabilities: Any  # a property of each domain: `Capabilities`

    def task(self, key: str) -> Task:
        """Returns the part of the task `key` that an agent may see. Each domain defines this."""
        raise NotImplementedError

    def tasks(self, split: Split) -> Sequence[Task]:
        """Returns the tasks of one split, in the order of the file."""
        return [self.task(key) for key, row in self.rows.items() if row.split == split]


class ReadTasks(FileTasks):
    """A base class of domains that keep the rows and notes of a `TaskFile`."""

    open_at_once: int | None = 8
    regrade_at_most: int | None = None

    def _take(self, tasks: TaskFile[Any]) -> None:
        """Stores the rows that were read, and what their reader says about the file."""
        self.path: Path = tasks.path
        self.rows: Mapping[str, Any] = {row.key: row for row in tasks.rows}
        self.refused, self.notes = tasks.refused, tasks.notes
        self.splits_stated = tasks.splits_stated

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            open_at_once=self.open_at_once,
            regrade_at_most=self.regrade_at_most,
            rows=self.rows,
            notes=self.notes,
            splits_stated=self.splits_stated,
            path=self.path,
            close=self.close,
        )

    def close(self) -> None:
        """Ends the processes and sandboxes of the domain. Each domain defines this."""
        raise NotImplementedError


def row_hash(row: Any) -> str:
    """Returns the SHA-256 hash of a task's row, without its line number in the file."""
    content = dataclasses.asdict(row)
    del content["line"]
    return _hashed(content)


def evaluator_hash(domain: Domain, rows: Sequence[str], **parts: JSON) -> str:
    """Returns a SHA-256 hash of what a domain measures with: limits, sampling, rows and `parts`."""
    ceilings, sampling = dataclasses.asdict(domain.ceilings), dataclasses.asdict(domain.sampling)
    return _hashed({"rows": rows, "ceilings": ceilings, "sampling": sampling, **parts})


def code_hash(**names: Sequence[str]) -> str:
    """Returns one SHA-256 of source files in packages of `domains`, such as `math=["*"]` (all)."""
    digest = hashlib.sha256()
    for package, files in names.items():
        folder = resources.files("meta_agent.domains").joinpath(*package.split("__"))
        every = sorted(file.name for file in folder.iterdir() if file.name.endswith(".py"))
        for name in every if "*" in files else files:
            digest.update(name.encode() + b"\0" + folder.joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
