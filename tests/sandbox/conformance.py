"""Real attacks that each sandbox backend is put through.

Each attack is paired with a positive control: the same means, used where they must work. A sandbox
that is merely broken fails its controls and so cannot pass. A backend that cannot make a promise
leaves it out of its `fences` attribute; those checks are reported as "not promised", never as
passed. A backend without that attribute is taken to promise everything.

Does not cover: flaws of the kernel or the container runtime; timing channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.sandboxes._names import FENCES
from tests.sandbox.attacks import files, network, privilege, process, resources, worker
from tests.sandbox.attacks.check import LIMITS, Check

Factory = Callable[[SandboxLimits], Sandbox]
Status = Literal["passed", "failed", "not promised"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check."""

    name: str
    promise: str
    status: Status
    detail: str = ""


def checks() -> list[Check]:
    """All checks, in the order in which they run."""
    return [
        *privilege.CHECKS,
        *resources.CHECKS,
        *process.CHECKS,
        *network.CHECKS,
        *files.CHECKS,
        *worker.CHECKS,
    ]


def run(factory: Factory, only: Iterable[str] = ()) -> list[CheckResult]:
    """Runs every check, or those named, each in a fresh sandbox."""
    names = set(only)
    return [run_check(check, factory) for check in checks() if not names or check.name in names]


def run_check(check: Check, factory: Factory) -> CheckResult:
    """Runs one check. What it raises is a failure with that text, never an error of the suite."""
    with ExitStack() as open_ones:
        if check.before:
            check.before()
        sandbox = factory(LIMITS)
        open_ones.callback(sandbox.close)
        if check.promise and check.promise not in getattr(sandbox, "fences", FENCES):
            return CheckResult(check.name, check.promise, "not promised")
        if check.neighbour:
            other = factory(LIMITS)
            open_ones.callback(other.close)
            check.neighbour(other)
        detail = _examine(check, sandbox)
    return CheckResult(check.name, check.promise, "failed" if detail else "passed", detail)


def _examine(check: Check, sandbox: Sandbox) -> str:
    for part, examine in (("control", check.control), ("attack", check.attack)):
        try:
            detail = examine(sandbox)
        except Exception as error:
            detail = repr(error)
        if detail:
            return f"{part}: {detail}"
    return ""
