"""Math problems with one right answer, checked exactly or by algebra in a killable worker."""

from meta_agent.core.protocols import SandboxLimits
from meta_agent.domains._options import DomainOptions, sandboxes
from meta_agent.domains.math._answer import literal, words
from meta_agent.domains.math._domain import MathDomain
from meta_agent.domains.math._grade import Gold, grade_text, sort_golds
from meta_agent.domains.math._reply import final_answer
from meta_agent.domains.math._verify import Verifier

__all__ = [
    "Gold",
    "MathDomain",
    "Verifier",
    "final_answer",
    "grade_text",
    "literal",
    "open_domain",
    "sort_golds",
    "words",
]

_LIMITS = SandboxLimits(memory_mb=1024, pids=64, scratch_mb=64, deadline_sec=1800.0)


def open_domain(options: DomainOptions) -> MathDomain:
    """Opens the math problems of `options.tasks`. Raises ConfigError if none can be graded."""
    assert options.tasks is not None, "a domain that needs a file is not opened without one"
    ours = {"prompt": "problem", "gold": "answer"}
    mapping = {theirs: ours.get(name, name) for theirs, name in options.mapping.items()}
    return MathDomain(options.tasks, Verifier(), sandboxes(options, _LIMITS), mapping)
