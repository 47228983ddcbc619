"""All errors that this project raises on purpose, and the exit status of each.

A bad *rollout* is data, not a crash: its record holds a `RolloutFailure`, whose `kind` is `infra`,
`policy` or `verifier`. The exceptions here stop a step of the run:

* `ConfigError`     the user's input is wrong; nothing was started            (exit 2)
* `PreflightError`  the machine lacks something the run needs                 (exit 3)
* `BudgetError`     a cap on money, tokens or time would be crossed           (exit 4)
* `SandboxError`    the sandbox or its engine failed: infrastructure          (exit 5)
* `TrainingError`   the training child failed: infrastructure                 (exit 5)
* `ProviderError`   a model server failed after the retry policy gave up      (exit 5)
* `IntegrityError`  recorded state contradicts itself, so the run stops       (exit 5)
* `Parked`          the run waits for a person's decision; it resumes after it  (exit 6)
* `Aborted`         a person ended the run; that is final                       (exit 7)
* `CandidateError`  a candidate is unacceptable; the loop records it and goes on
* `Interrupted`     somebody asked to stop; finished steps are recorded        (exit 130)

Every message names the value and the limit. `hint` is the next command to type.
"""

from __future__ import annotations

import errno
from typing import Final, Literal


class MetaAgentError(Exception):
    """Base of every error that this program raises for a cause that it knows."""

    exit_code = 101

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(MetaAgentError):
    """Raised if the user's flags, files or settings are wrong."""

    exit_code = 2


class PreflightError(MetaAgentError):
    """Raised if this machine lacks something that the run needs."""

    exit_code = 3


NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_GONE: Final = (errno.EIO, errno.ESTALE, errno.ENOTCONN)
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def of_disk(error: OSError) -> MetaAgentError | None:
    """Returns this project's error for a full, missing or forbidden disk; None for other errors."""
    place = f"{error.filename}: " if error.filename else ""
    if error.errno in NO_ROOM:
        hint = "free some space, then run the same command again: it resumes"
        return InfrastructureError(f"{place}{error.strerror}", hint=hint)
    if error.errno in _GONE:
        hint = "check that the disk is still mounted, then run the same command again: it resumes"
        return InfrastructureError(f"{place}{error.strerror}", hint=hint)
    if error.errno in _NOT_ALLOWED:
        return ConfigError(f"{place}{error.strerror}", hint="check the permissions: ls -ld")
    return None


class BudgetError(MetaAgentError):
    """Raised if a cap on money, tokens or time would be crossed."""

    exit_code = 4


class InfrastructureError(MetaAgentError):
    """Raised if a machine or service failed. It is never scored as a candidate's result."""

    exit_code = 5


class SandboxError(InfrastructureError):
    """Raised if a sandbox failed or broke its protocol. `kind` is a short code such as `oom`."""

    def __init__(self, message: str, *, kind: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


CANDIDATE_KILLS = frozenset({"oom", "died", "timeout", "protocol"})
"""Kinds of `SandboxError` that code inside a sandbox can cause."""

SANDBOX_ERROR_KINDS = (
    "engine",  # no Docker engine, or it refused
    "image",  # the image is missing, or lacks what a task needs
    "start",  # the sandbox did not come up
    "timeout",  # a request outlived its deadline; the sandbox was killed
    "oom",  # the kernel killed it for memory
    "died",  # the worker went away for another reason
    "protocol",  # the worker sent something that is not a frame
)


class TrainingError(InfrastructureError):
    """Raised if the child process that trains the policy died or refused a command."""


class ProviderError(InfrastructureError):
    """Raised if a model server failed, or its reply is not complete.

    `kind` is a short code, such as `timeout`. `retry_after_sec` is the delay that the server asked
    for. `billed` is `no` if the server generated nothing; else `unknown`, and the money reserved
    for the call stays reserved.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "unknown",
        retry_after_sec: float | None = None,
        billed: Literal["no", "unknown"] = "unknown",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.retry_after_sec = retry_after_sec
        self.billed = billed

    @property
    def halts(self) -> bool:
        """Returns whether every later call would fail too, so that the run has to stop."""
        return self.kind in ("auth", "not_found", "breaker")


PROVIDER_ERROR_KINDS = (
    "rate_limited",  # 429
    "overloaded",  # 529, 503
    "server",  # another 5xx
    "connection",  # no connection, or it was reset before the reply began
    "timeout",  # no first byte, or a stream that went silent
    "stream",  # the stream ended before the reply was whole, or carried an error event
    "malformed",  # not the protocol: HTML, no choices, no usage, arguments that are not JSON ...
    "auth",  # the key is missing, wrong or revoked
    "not_found",  # no such model
    "context",  # the request is too long for the model
    "refused",  # the server rejects the request as it is
    "breaker",  # too many failures in a row: no more requests are sent
    "deadline",  # the retry policy's total deadline has passed
    "unknown",
)


class IntegrityError(InfrastructureError):
    """Raised if recorded state (ledger, files, git history) contradicts itself."""


class CandidateError(MetaAgentError):
    """Raised to refuse a candidate. `reason` is a code such as `path_outside_allowlist`."""

    exit_code = 1

    def __init__(self, message: str, *, reason: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class Interrupted(MetaAgentError):  # noqa: N818 - a request, not a mistake
    """Raised if Ctrl-C or SIGTERM stopped the run. The same command resumes it."""

    exit_code = 130

    def __init__(
        self,
        message: str = "stopped as asked; every finished step is recorded",
        *,
        hint: str | None = "run the same command again to resume",
    ) -> None:
        super().__init__(message, hint=hint)


class Parked(MetaAgentError):  # noqa: N818 - a pause, not a mistake
    """Raised if the run waits for a person. `meta-agent approve` takes the names in `subjects`."""

    exit_code = 6

    def __init__(self, message: str, *, subjects: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.subjects = subjects


class Aborted(MetaAgentError):  # noqa: N818 - a decision, not a mistake
    """Raised if a person decided that the run ends. It cannot be resumed."""

    exit_code = 7


class GuestError(MetaAgentError):
    """Raised if code inside a sandbox raised an exception; holds its type and traceback."""

    def __init__(self, kind: str, message: str, traceback: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.guest_traceback = traceback
