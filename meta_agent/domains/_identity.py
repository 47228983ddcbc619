"""The hashes by which a task file's domain says what it measures with.

`evaluator_hash` changes with the rows, the code that grades, the ceilings and the sampling.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from meta_agent.core.protocols import JSON, Domain, Split, Task


class FileTasks:
    """The tasks of a domain whose `rows` know their split. `task` returns one of them."""

    rows: Mapping[str, Any]

    def task(self, key: str) -> Task:
        """Returns one task as the agent may see it."""
        raise NotImplementedError

    def tasks(self, split: Split) -> Sequence[Task]:
        """Returns the tasks of one split, in the order of the file."""
        return [self.task(key) for key, row in self.rows.items() if row.split == split]


def row_hash(row: Any) -> str:
    """Returns the hash of a row, wherever in its file it stands."""
    content = dataclasses.asdict(row)
    del content["line"]
    return _hashed(content)


def evaluator_hash(domain: Domain, rows: Sequence[str], **parts: JSON) -> str:
    """Returns the identity of a domain. `rows` holds a hash for each task, with its split."""
    ceilings, sampling = dataclasses.asdict(domain.ceilings), dataclasses.asdict(domain.sampling)
    return _hashed({"rows": rows, "ceilings": ceilings, "sampling": sampling, **parts})


def code_hash(**names: Sequence[str]) -> str:
    """Returns the hash of source files below `meta_agent.domains`; "*" is all of a package."""
    digest = hashlib.sha256()
    for package, files in names.items():
        folder = resources.files("meta_agent.domains").joinpath(*package.split("__"))
        every = sorted(file.name for file in folder.iterdir() if file.name.endswith(".py"))
        for name in every if "*" in files else files:
            digest.update(name.encode() + b"\0" + folder.joinpath(name).read_bytes() + b"\0")
    return digest.hexdigest()


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
