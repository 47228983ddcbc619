"""Real attacks that each sandbox backend is put through.

Each attack is paired with a positive control: the same means, used where they must work. A sandbox
that is merely broken fails its controls and so cannot pass. A backend that cannot make a promise
leaves it out of its `fences` attribute; those checks are reported as "not promised", never as
passed. A backend without that attribute is taken to promise everything.

Does not cover: flaws of the kernel or the container runtime; timing channels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from meta_agent.core.protocols import Sandbox, SandboxLimits
from meta_agent.sandboxes._names import FENCES
from tests.sandbox.attacks import _files, _network, _privilege, _process, _resources, _worker
from tests.sandbox.attacks._check import LIMITS, Check

Factory = Callable[[SandboxLimits], Sandbox]
Status = Literal["passed", "failed", "not promised"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check."""

    name: str
    promise: str
    status: Status
    detail: str = ""


GROUPS: dict[str, list[Check]] = {
    "privilege": _privilege.CHECKS,
    "resources": _resources.CHECKS,
    "process": _process.CHECKS,
    "network": _network.CHECKS,
    "files": _files.CHECKS,
    "worker": _worker.CHECKS,
}


def checks() -> list[Check]:
    """All checks, in the order in which they run."""
    return [check for group in GROUPS.values() for check in group]


def group_of(check: Check) -> str:
    return next(name for name, group in GROUPS.items() if check in group)


EMPTY = '[ "$PWD" != / ] && find . -mindepth 1 -delete'


class Rooms:
    """Runs checks of one backend: attacks of a group that leave no trace share a sandbox.

    Between two of them its folder is emptied. One that failed is followed by a fresh sandbox.
    """

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._shared: dict[str, Sandbox] = {}

    def run(self, check: Check) -> CheckResult:
        if check.alone or check.neighbour:
            return run_check(check, self._factory)
        result = _judged(check, self._room(group := group_of(check)))
        emptied = self._room(group).exec(["sh", "-c", EMPTY])
        if result.status == "failed" or emptied.exit_code:
            self._shared.pop(group).close()
        return result

    def _room(self, group: str) -> Sandbox:
        if group not in self._shared:
            for check in GROUPS[group]:
                if check.before and not check.neighbour:
                    check.before()
            self._shared[group] = self._factory(LIMITS)
        return self._shared[group]

    def close(self) -> None:
        for sandbox in self._shared.values():
            sandbox.close()


def run_check(check: Check, factory: Factory) -> CheckResult:
    """Runs one check in a fresh sandbox."""
    with ExitStack() as opened:
        if check.before:
            check.before()
        sandbox = factory(LIMITS)
        opened.callback(sandbox.close)
        other = factory(LIMITS) if check.neighbour else None
        if other:
            opened.callback(other.close)
        return _judged(check, sandbox, other)


def _judged(check: Check, sandbox: Sandbox, other: Sandbox | None = None) -> CheckResult:
    """What a check raises is a failure with that text, never an error of the suite."""
    if check.promise and check.promise not in getattr(sandbox, "fences", FENCES):
        return CheckResult(check.name, check.promise, "not promised")
    parts = [("control", check.control, sandbox), ("attack", check.attack, sandbox)]
    if check.neighbour and other:
        parts.insert(0, ("neighbour", check.neighbour, other))
    for part, examine, where in parts:
        try:
            detail = examine(where)
        except Exception as error:
            detail = repr(error)
        if detail:
            return CheckResult(check.name, check.promise, "failed", f"{part}: {detail}")
    return CheckResult(check.name, check.promise, "passed")
