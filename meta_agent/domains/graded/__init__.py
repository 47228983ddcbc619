"""Rows of anybody's, graded by a function of theirs in a process that can be killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.domains._options import DomainOptions, lasting
from meta_agent.domains.graded._domain import GradedDomain, load_rows
from meta_agent.domains.graded._workers import GraderError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GradedDomain", "GraderError", "load_rows", "open_domain", "sandboxes"]

_LIMITS = SandboxLimits(memory_mb=1024, pids=128, scratch_mb=256, deadline_sec=1800.0)


def open_domain(options: DomainOptions) -> GradedDomain:
    """Opens tasks with a user's grader (`--grade`); without a task file, the grader's own tasks."""
    if options.grade is None:
        raise ConfigError(
            "--domain graded needs a grader", hint="--grade FILE.py, with grade(task, answer)"
        )
    if not options.grade.is_file():
        raise ConfigError(
            f"there is no grader {options.grade}", hint="meta-agent init --domain mine writes one"
        )
    return GradedDomain(
        {"path": str(options.grade)},
        load_rows(options.tasks, options.mapping),
        threshold=options.threshold,
        factory=sandboxes(options),
        python=options.python,
        judge=options.judge,
    )


def sandboxes(options: DomainOptions) -> Callable[[], Sandbox]:
    """Returns a function that starts a sandbox for an attempt whose task comes with files."""

    def factory() -> Sandbox:
        from meta_agent.sandboxes import open_sandbox

        limits = lasting(_LIMITS, options.seconds)
        return open_sandbox(options.sandbox, run=options.run, limits=limits)

    return factory
