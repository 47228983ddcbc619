"""Repository tasks by the door that every domain has."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.swe import RealSwe, load_tasks_domain


def open_domain(asked: Asked) -> RealSwe:
    """A task file of any known set."""
    assert asked.tasks is not None, "a door that needs a file is not opened without"
    return load_tasks_domain(asked.tasks, sandbox=asked.sandbox, run=asked.run, images=asked.images)
