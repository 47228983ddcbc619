"""Whose fault a failure is: the machines', which get one more try, or the harness's, a result.

Not covered: single rollouts that infrastructure spoiled. They are rows, and the gate counts them.
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
"""Ends of a sandbox that the code in it can bring about."""
_MESSAGE_CHARS: Final = 2000


def fairly(work: Callable[[], T]) -> T:
    """Does `work`, once more where infrastructure failed; the first failure is logged.

    A sandbox that comes to the same kind of end twice was ended by the code in it: that is a
    `CandidateError`. Two unlike ends are the machines', and condemn nobody.
    """
    try:
        return work()
    except (SandboxError, TrainingError) as error:
        first = error
        _log.warning("done once more, for infrastructure failed: %s", error)
    try:
        return work()
    except SandboxError as error:
        before = getattr(first, "kind", None)
        if error.kind not in _BY_GUEST or error.kind != before:
            raise
        reason = f"sandbox_{error.kind}"
        raise CandidateError(f"its sandbox failed twice: {error}", reason=reason) from error


def or_refusal(work: Callable[[], JSON]) -> JSON:
    """The outcome of `work`, or `{"refused": {message, reason}}` where the harness failed."""
    try:
        return fairly(work)
    except CandidateError as error:
        return {"refused": {"message": str(error)[:_MESSAGE_CHARS], "reason": error.reason}}
