"""Repository tasks by the door that every domain has."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.swe import RealSwe, load_tasks_domain


def open_domain(options: Asked) -> RealSwe:
    """A task file of any known set."""
    assert options.tasks is not None, "a door that needs a file is not opened without"
    return load_tasks_domain(
        options.tasks, sandbox=options.sandbox, run=options.run, images=options.images
    )
