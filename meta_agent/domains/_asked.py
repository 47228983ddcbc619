"""What a run asks of a domain: everything that a door may need, in one value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Asked:
    """`name` is what stands before the colon of `--domain`, `detail` what stands behind it."""

    name: str
    tasks: Path | None = None
    detail: str = ""
    sandbox: str = "process"
    run: str = "tasks"
    grade: Path | None = None
    threshold: float | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    """The interpreter that has what a grader or a package of environments needs."""
    images: Path | None = None
    judge: str | None = None
    """The model that grades, where the grader's file leaves it to one."""
