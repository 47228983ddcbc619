"""Task rows that a user wrote, graded by the user's own function in a process of its own."""

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import SandboxLimits
from meta_agent.domains._options import DomainOptions, sandboxes
from meta_agent.domains.graded._domain import GradedDomain, load_rows
from meta_agent.domains.graded._workers import GraderError

__all__ = ["ATTEMPT_LIMITS", "GradedDomain", "GraderError", "load_rows", "open_domain"]

ATTEMPT_LIMITS = SandboxLimits(memory_mb=1024, pids=128, scratch_mb=256, deadline_sec=1800.0)


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens tasks, from a file or the grader's `tasks()`. Raises ConfigError without a grader."""
    if options.grade is None:
        raise ConfigError(
            "--domain graded needs a grader", hint="add --grade FILE.py with grade(task, answer)"
        )
    if not options.grade.is_file():
        raise ConfigError(
            f"--grade {options.grade}: there is no such file",
            hint="write a grader: meta-agent init --domain mine",
        )
    return GradedDomain(
        {"path": str(options.grade)},
        load_rows(options.tasks, options.mapping),
        threshold=options.threshold,
        factory=sandboxes(options, ATTEMPT_LIMITS),
        python=options.python,
        judge=options.judge,
    )
