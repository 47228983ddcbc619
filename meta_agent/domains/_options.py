"""The options by which a run opens a domain, for every kind of domain in one value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from meta_agent.core.protocols import Sandbox, SandboxLimits


@dataclass(frozen=True, slots=True)
class DomainOptions:
    """Settings by which a domain is opened, such as its name, task file, sandbox and grader.

    `detail` is the part of `--domain` after its colon. `run` names the run that owns the sandboxes.
    """

    name: str
    tasks: Path | None = None
    detail: str = ""
    sandbox: str = "process"
    run: str = "tasks"
    grade: Path | None = None
    threshold: float | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    """The interpreter with the packages that a grader or a package of environments imports."""
    images: Path | None = None
    judge: str | None = None
    """The model that grades, if the grader's file asks for one."""
    seconds: float = 0.0
    """The time that the user allows an attempt. 0: the domain's own limit."""


def lasting(limits: SandboxLimits, seconds: float) -> SandboxLimits:
    """Returns sandbox limits whose deadline is at least twice the `seconds` of an attempt."""
    return replace(limits, deadline_sec=max(limits.deadline_sec, 2 * seconds))


def sandboxes(options: DomainOptions, limits: SandboxLimits) -> Callable[[], Sandbox]:
    """Returns a function that starts a sandbox with `limits`, long enough for `options.seconds`."""

    def factory() -> Sandbox:
        from meta_agent.sandboxes import open_sandbox

        lasting_limits = lasting(limits, options.seconds)
        return open_sandbox(options.sandbox, run=options.run, limits=lasting_limits)

    return factory
