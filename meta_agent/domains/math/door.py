"""Math problems by the door that every domain has."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.math import MathDomain, load_math_domain


def open_domain(asked: Asked) -> MathDomain:
    """A file of problems; `--map` may name the problem and its answer as any other row's."""
    assert asked.tasks is not None, "a door that needs a file is not opened without"
    ours = {"prompt": "problem", "gold": "answer"}
    mapping = {theirs: ours.get(name, name) for theirs, name in asked.mapping.items()}
    return load_math_domain(asked.tasks, sandbox=asked.sandbox, run=asked.run, mapping=mapping)
