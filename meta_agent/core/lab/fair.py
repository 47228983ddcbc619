"""Decides whose fault a failure is: a machine's, which gets one more try, or the harness's.

A failure of the harness is a result. Not covered: single rollouts that infrastructure spoiled. They
are rows, and the gate counts them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from meta_agent.core.errors import CandidateError, SandboxError, TrainingError
from meta_agent.core.protocols import JSON

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BY_GUEST: Final = ("timeout", "oom", "died", "protocol")
"""Kinds of sandbox failure that the code in the sandbox can cause."""
_MESSAGE_CHARS: Final = 2000


def fairly(work: Callable[[], T]) -> T:
    """Returns the result of `work`, which is called once more if a sandbox or a training fails.

    Raises CandidateError if the sandbox fails twice in the same way, because its code is at fault
    then. Any other second error is raised as it comes.
    """
    try:
        return work()
    except (SandboxError, TrainingError) as error:
        first = error
        _log.warning("done once more, because infrastructure failed: %s", error)
    try:
        return work()
    except SandboxError as error:
        before = getattr(first, "kind", None)
        if error.kind not in _BY_GUEST or error.kind != before:
            raise
        message = f"the harness's sandbox failed twice, so its code is at fault: {error}"
        raise CandidateError(message, reason=f"sandbox_{error.kind}") from error


def or_refusal(work: Callable[[], JSON]) -> JSON:
    """Returns the outcome of `work`; if the harness failed, its message, reason and hint under
    `refused`.
    """
    try:
        return fairly(work)
    except CandidateError as error:
        hint = {} if error.hint is None else {"hint": error.hint}
        return {"refused": {"message": str(error)[:_MESSAGE_CHARS], "reason": error.reason, **hint}}
