"""Tries a harness's command before money is spent: does it start, ask its model, and end?

The policy is canned: it replies that there is nothing to do, and after a few such replies the
attempt is over. A good agent ends then or before; its answer to the task does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from meta_agent.core.errors import SandboxError
from meta_agent.core.harness._errand import Errand, run_errand
from meta_agent.core.harness._values import CheckResult
from meta_agent.core.harness.contract import HarnessContract
from meta_agent.core.protocols import Call, HarnessTree, Sandbox
from meta_agent.core.rollouts.away import AgentEnd

TRIAL_LIMITS_SEC: Final = 90.0, 450.0
"""A trial that runs out of time is made again: a busy machine may need minutes for a start."""
TRIAL_CALLS: Final = 3
SAID: Final = "There is nothing to do here: the task is already solved."
TASK: Final = {"prompt": "This is a trial. Say that there is nothing to do, and end."}
FILES: Final = {"README.md": b"An empty project.\n"}
_USED: Final = {"prompt_tokens": 100, "completion_tokens": 10}
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class CannedPolicy:
    """A stand-in for the policy: gives the same reply three times and then ends the attempt."""

    def __init__(self) -> None:
        self.calls = 0

    def ask(self, call: Call) -> Any:
        """Returns the fixed reply to a model call, or None once the attempt is over."""
        if call["kind"] != "model" or self.calls >= TRIAL_CALLS:
            return None
        self.calls += 1
        return [SAID, "stop", [], _USED]


def try_command(
    open_agent: Callable[[], Sandbox], tree: HarnessTree, contract: HarnessContract
) -> list[CheckResult]:
    """Runs a harness's command on a trial task, with fixed replies in place of a policy's.

    The results say whether the command starts, calls its model and ends. If `open_agent` cannot
    open a sandbox of its image, the only result says so.
    """
    for limit_sec in TRIAL_LIMITS_SEC:
        try:
            sandbox = open_agent()
        except SandboxError as error:
            detail = f"{error}; {error.hint}" if error.hint else str(error)
            return [CheckResult(f"image {contract.image}", False, detail)]
        policy = CannedPolicy()
        errand = Errand("trial", TASK, FILES, limit_sec, TRIAL_CALLS, 1 << 20)
        try:
            end = run_errand(sandbox, tree, contract, errand, policy.ask)
        finally:
            sandbox.close()
        if not end.late:
            break
    return _rows(contract, end, policy.calls, limit_sec)


def _rows(
    contract: HarnessContract, end: AgentEnd, calls: int, limit_sec: float
) -> list[CheckResult]:
    started = CheckResult("command starts", end.exit_code != _NOT_FOUND, _mend(end))
    if not started.ok:
        return [started]
    reached = f"it ended without asking its model: {end.summary}"[:1500] if not calls else ""
    late = f"{end.killed}, after {limit_sec:g} s" if end.killed else ""
    return [
        CheckResult("command starts", True),
        CheckResult("command asks its model", calls > 0, reached),
        CheckResult("command ends", not end.killed, late),
    ]


def _mend(end: AgentEnd) -> str:
    output = end.output.strip()[-500:]
    return (
        f"{output}; the first word of `command` must be a program of the image, or a file under "
        "{harness}; build an image with `meta-agent sandbox build`"
        if end.exit_code in (_NOT_FOUND, _NOT_EXECUTABLE)
        else ""
    )
