"""Programming problems by the door that every domain has."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.code import CodeDomain, load_code_domain


def open_domain(options: Asked) -> CodeDomain:
    """A file of problems of any known set."""
    assert options.tasks is not None, "a door that needs a file is not opened without"
    return load_code_domain(
        options.tasks, sandbox=options.sandbox, run=options.run, mapping=options.mapping
    )
