"""The hashes by which a task file's domain says what it measures with.

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
from meta_agent.domains._references import reference_of
from meta_agent.domains.formats.rows import TaskFile


class FileTasks:
    """A base class of domains that lists a split's tasks from `rows`, as read from a task file."""

    rows: Mapping[str, Any]
    capabilities: Any  # a property of each domain: `Capabilities`

    def reference(self, task_key: str) -> str | None:
        """Returns the reference solution of a task, or None if its row has none."""
        return reference_of(self.capabilities, self.rows[task_key])

    def task(self, key: str) -> Task:
        """Returns the task with the key `key`, holding only what the agent may see."""
        raise NotImplementedError

    def tasks(self, split: Split) -> Sequence[Task]:
        """Returns the tasks of one split, in the order of the file."""
        return [self.task(key) for key, row in self.rows.items() if row.split == split]


class ReadTasks(FileTasks):
    """A base class of domains whose task file a reader of `formats` has read."""

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
        """Frees what the domain holds, such as a worker process."""
        raise NotImplementedError


def row_hash(row: Any) -> str:
    """Returns the SHA-256 hash of a task's row, without its line number in the file."""
    content = dataclasses.asdict(row)
    del content["line"]
    return _hashed(content)


def evaluator_hash(domain: Domain, rows: Sequence[str], **parts: JSON) -> str:
    """Returns a SHA-256 hash of a domain's limits, sampling, task hashes (`rows`) and `parts`."""
    ceilings, sampling = dataclasses.asdict(domain.ceilings), dataclasses.asdict(domain.sampling)
    return _hashed({"rows": rows, "ceilings": ceilings, "sampling": sampling, **parts})


def code_hash(**names: Sequence[str]) -> str:
    """Returns the SHA-256 of source files of `meta_agent.domains`, by package; "*" means all."""
    digest = hashlib.sha256()
    for package, files in names.items():
        folder = resources.files("meta_agent.domains").joinpath(*package.split("__"))
        every = sorted(file.name for file in folder.iterdir() if file.name.endswith(".py"))
        for name in every if "*" in files else files:
            digest.update(name.encode() + b"\0" + folder.joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
