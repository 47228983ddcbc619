"""A workspace with a recorded run, hostile texts among its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_agent.core.workspace import Workspace, init_workspace

from ._sample import write_sample

RUN = "r1"


def workspace(root: Path, *, recorded: bool = True, **how: Any) -> Workspace:
    """A workspace whose run `how` was recorded by `write_sample`; without one, an empty one."""
    place = init_workspace(root, domain="swe", create_repo=lambda path: path.mkdir())
    if recorded:
        write_sample(place.ledger_file, **how)
    return place
