"""Programming problems by the door that every domain has."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.code import CodeDomain, load_code_domain


def open_domain(asked: Asked) -> CodeDomain:
    """A file of problems of any known set."""
    assert asked.tasks is not None, "a door that needs a file is not opened without"
    return load_code_domain(
        asked.tasks, sandbox=asked.sandbox, run=asked.run, mapping=asked.mapping
    )
