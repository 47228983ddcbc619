"""The base of domains that read a task file, and hashes of what they measure.

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
from meta_agent.core.protocols import JSON, Ceilings, Sampling, Split, Task
from meta_agent.domains.formats.rows import TaskFile


class ReadTasks:
    """The base of domains whose tasks are the rows of a file, or the folders of a folder.

    A domain gives `view`, `open` and `regrade`; the tasks, their hashes and the capabilities follow
    from the rows.
    """

    name: str
    ceilings: Ceilings
    sampling = Sampling(temperature=0.7)
    evaluator_hash: str
    path: Path
    rows: Mapping[str, Any]
    notes: Sequence[str] = ()
    refused: Mapping[int, str]
    splits_stated: bool
    open_at_once: int | None = 8
    regrade_at_most: int | None = None

    def _take(self, tasks: TaskFile[Any]) -> None:
        """Stores the rows that were read, and what their reader says about the file."""
        self.path, self.rows = tasks.path, {row.key: row for row in tasks.rows}
        self.refused, self.notes = tasks.refused, tasks.notes
        self.splits_stated = tasks.splits_stated

    def view(self, row: Any) -> dict[str, JSON]:
        """Returns what an agent sees of a row."""
        raise NotImplementedError

    def content_hash(self, row: Any) -> str:
        """Returns the hash of all that a row says."""
        return row_hash(row)

    def task(self, key: str) -> Task:
        """Returns the part of the task `key` that an agent may see. Raises KeyError if unknown."""
        row = self.rows[key]
        return Task(self.name, key, row.split, self.content_hash(row), self.view(row))

    def tasks(self, split: Split) -> Sequence[Task]:
        """Returns the tasks of one split, in the order of the file."""
        return [self.task(key) for key, row in self.rows.items() if row.split == split]

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
        """Ends the processes and sandboxes of the domain, if it holds any."""

    def hash_with(self, **parts: JSON) -> str:
        """Returns the hash of the rows and of `parts`, with which this domain measures."""
        rows = [self.content_hash(row) + row.split for row in self.rows.values()]
        return evaluator_hash(self, rows, **parts)


def row_hash(row: Any) -> str:
    """Returns the SHA-256 hash of a task's row, without its line number in the file."""
    content = dataclasses.asdict(row)
    del content["line"]
    return _hashed(content)


def evaluator_hash(domain: ReadTasks, rows: Sequence[str], **parts: JSON) -> str:
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
