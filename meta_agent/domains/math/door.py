"""Opens the domain of math problems from what a user asked for."""

from __future__ import annotations

from meta_agent.domains._asked import Asked
from meta_agent.domains.math import MathDomain, load_math_domain


def open_domain(options: Asked) -> MathDomain:
    """Opens a file of problems; `--map` names the problem and its answer as in any other file."""
    assert options.tasks is not None, "math needs a task file"
    ours = {"prompt": "problem", "gold": "answer"}
    mapping = {theirs: ours.get(name, name) for theirs, name in options.mapping.items()}
    return load_math_domain(
        options.tasks, sandbox=options.sandbox, run=options.run, mapping=mapping
    )
