"""The one retry policy of every model call: when to ask again, how long to wait, when to stop.

Tenacity repeats; SDKs and litellm never retry by themselves, because each attempt needs a
reservation of its own, and because they retry no stream that breaks and no malformed reply.

Promises: waits are drawn with full jitter (anything between zero and an exponential bound), so
callers that failed together do not come back together. A wait that the server names, in a header
or in words, is honoured up to a cap. Beyond it the call gives up at once: asking earlier prolongs a
ban, and the run can be resumed. No attempt begins after a total deadline. A breaker, which all
callers of an account share, stops calls to a server that only fails.

Does not cover: money and the record of attempts. The caller passes `attempt(n)`, which reserves,
asks and settles. Time and sleep are injected.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import tenacity

from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._failures import reworded

_SPREAD: Final = 0.2  # of a wait that the server named

T = TypeVar("T")

# Asking again may help. `malformed` is the model's own slip as often as a proxy's; it costs tokens,
# so it has a smaller limit of its own.
RETRYABLE: Final = frozenset(
    {"rate_limited", "overloaded", "server", "connection", "timeout", "stream", "malformed"}
)
# The server itself is ill. A rate limit is a healthy server's answer.
ILLNESS: Final = frozenset({"overloaded", "server", "connection", "timeout", "stream"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits for the retries of a model call: numbers of attempts, waits and a total time."""

    attempts: int = 6
    malformed_attempts: int = 3
    rate_limited_attempts: int = 20
    """A window of a minute, or a limit on calls at once, passes in its own time; asking is free."""
    first_wait_sec: float = 1.0
    max_wait_sec: float = 60.0
    retry_after_cap_sec: float = 120.0
    deadline_sec: float = 1800.0


class Breaker:
    """A circuit breaker: it stops calls to a model server that only fails.

    All callers of one account share it, in any thread. It opens after eight failures in a row over
    at least 90 seconds. Then one call in 30 seconds may try the server, and others fail at once.
    """

    FAILURES: Final = 8
    LASTING_SEC: Final = 90.0
    REST_SEC: Final = 30.0

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the fields below
        self._failures = 0
        self._first_at = self._last_at = 0.0
        self._last_error = ""

    def require_closed(self) -> None:
        """Raises ProviderError of kind `breaker` while calls to the server are stopped."""
        with self._lock:
            now = self._clock()
            if self._failures < self.FAILURES or now - self._first_at < self.LASTING_SEC:
                return
            wait_sec = self._last_at + self.REST_SEC - now
            if wait_sec <= 0:
                self._last_at = now
                return
        raise ProviderError(
            f"the model server failed {self._failures} times in a row ({self._last_error}); next "
            f"try in {wait_sec:.0f} s",
            kind="breaker",
            retry_after_sec=wait_sec,
            billed="no",
            hint="see whether it is up (meta-agent doctor --live, the provider's status page), "
            "then run the same command again",
        )

    def answered(self) -> None:
        """Sets the count of failures to zero, since the server gave an answer."""
        with self._lock:
            self._failures = 0

    def failed(self, error: ProviderError) -> None:
        """Counts a failed call if the error shows a failing server; sets the count to 0 if not."""
        if error.kind not in ILLNESS:
            return self.answered()
        with self._lock:
            self._last_at = self._clock()
            self._first_at = self._first_at if self._failures else self._last_at
            self._failures += 1
            self._last_error = f"{error.kind}: {error}"[:300]


@dataclass(frozen=True, slots=True)
class Retrying:
    """Repeats failed model calls by a retry policy and a circuit breaker. Threads may share it."""

    policy: RetryPolicy
    breaker: Breaker
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    sleep: Callable[[float], None] = field(default=time.sleep, kw_only=True)

    def call(self, attempt: Callable[[int], T]) -> T:
        """Calls `attempt(1)`, `attempt(2)` and so on, and returns the first result.

        Raises the last ProviderError. Any other error is raised at once, without a retry.
        """
        numbers, ends_at = itertools.count(1), self.clock() + self.policy.deadline_sec

        def once() -> T:
            self.breaker.require_closed()
            try:
                reply = attempt(next(numbers))
            except ProviderError as error:
                self.breaker.failed(error)
                raise
            self.breaker.answered()
            return reply

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(ProviderError),
            wait=lambda state: self._wait_sec(state, ends_at),
            sleep=self.sleep,
        )(once)

    def _wait_sec(self, state: tenacity.RetryCallState, ends_at: float) -> float:
        """Returns the wait before the next attempt. Raises the last error if there is none."""
        outcome = state.outcome
        error = cast("ProviderError", outcome.exception() if outcome else None)  # see `retry` above
        policy, number, asked_sec = self.policy, state.attempt_number, error.retry_after_sec or 0.0
        if error.kind not in RETRYABLE:
            raise error
        resume = "run the same command again to resume"
        if asked_sec > policy.retry_after_cap_sec:
            text = f"the server asks to wait {asked_sec:.0f} s; the limit is "
            text += f"{policy.retry_after_cap_sec:.0f} s"
            hint = f"run the same command again in {asked_sec:.0f} s"
            raise reworded(error, f"{error} ({text})", hint=hint) from error
        limits = {
            "malformed": policy.malformed_attempts,
            "rate_limited": policy.rate_limited_attempts,
        }
        limit = limits.get(error.kind, policy.attempts)
        if number >= limit:
            text = f"{error} (gave up after {number} attempts)"
            raise reworded(error, text, hint=resume) from error
        jitter = tenacity.wait_random_exponential(policy.first_wait_sec, policy.max_wait_sec)
        wait_sec = jitter(state)
        if asked_sec:  # longer than the server asked for, and not all callers at one moment
            wait_sec = asked_sec + min(wait_sec, max(policy.first_wait_sec, _SPREAD * asked_sec))
        if self.clock() + wait_sec > ends_at:
            text = f"gave up after {number} attempts: the deadline of {policy.deadline_sec:.0f} s"
            late = reworded(error, f"{error} ({text} leaves no time for another)", hint=resume)
            late.kind = "deadline"
            raise late from error
        return wait_sec
