"""The options by which a run opens a domain, for every kind of domain in one value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a domain. `detail` is the part of `--domain` after its colon."""

    name: str
    tasks: Path | None = None
    detail: str = ""
    sandbox: str = "process"
    run: str = "tasks"
    grade: Path | None = None
    threshold: float | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    """The interpreter with the packages that a grader or a package of environments imports."""
    images: Path | None = None
    judge: str | None = None
    """The model that grades, if the grader's file asks for one."""
