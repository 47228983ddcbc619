"""The one retry policy of every model call: when to ask again, how long to wait, when to stop.

Promises: SDKs and litellm never retry by themselves, so the number of requests is the one counted
here. Waits are drawn with full jitter (anything between zero and an exponential bound), so callers
that failed together do not come back together. A `Retry-After` is honoured up to a cap; beyond it
the call gives up at once, because asking earlier prolongs a ban and a run that stands still for an
hour without a word is worse than one that stops and can be resumed. No attempt begins after a total
deadline. A breaker, shared by all callers of one account, stops a storm: while it is
open callers wait for its probe, and once probes have failed `patience` times they fail at once.

Does not cover: money and the record of attempts. The caller passes `attempt(n)`, which reserves,
asks and settles; so each attempt is paid on its own. Time and sleep are injected.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import tenacity

from meta_agent.core.chat import ChatReply
from meta_agent.core.errors import ProviderError

Clock = Callable[[], float]
Sleep = Callable[[float], None]

# Asking again may help. `malformed` is the model's own slip as often as a proxy's; it costs tokens,
# so it has a smaller limit of its own.
RETRYABLE: Final = frozenset(
    {"rate_limited", "overloaded", "server", "connection", "timeout", "stream", "malformed"}
)
# What says that the server itself is ill. A rate limit does not: it is a healthy server's answer.
ILLNESS: Final = frozenset({"overloaded", "server", "connection", "timeout", "stream"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of one call. The defaults outlast a rate limit that is counted by the minute."""

    attempts: int = 6
    malformed_attempts: int = 3
    first_wait_sec: float = 1.0
    max_wait_sec: float = 60.0
    retry_after_cap_sec: float = 120.0
    deadline_sec: float = 1800.0


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """`failures` in a row within `window_sec` open it; after `cool_sec` one caller may probe."""

    failures: int = 8
    window_sec: float = 120.0
    cool_sec: float = 30.0
    patience: int = 3  # openings without a success between them, after which callers do not wait


class Breaker:
    """Shared by every caller of one (provider, base URL, key); any thread may use it.

    The lock guards all fields. Nobody sleeps or asks while holding it.
    """

    def __init__(
        self, policy: BreakerPolicy | None = None, *, clock: Clock = time.monotonic
    ) -> None:
        self._policy = policy or BreakerPolicy()
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: list[float] = []
        self._open_until: float | None = None
        self._probing = False
        self._openings = 0
        self._last = ""

    def admit(self) -> float:
        """0.0: go ahead. Else: seconds to wait before asking here again."""
        with self._lock:
            if self._open_until is None:
                return 0.0
            left = self._open_until - self._clock()
            if left > 0:
                return left
            if self._probing:
                return min(1.0, self._policy.cool_sec)
            self._probing = True
            return 0.0

    @property
    def hopeless(self) -> bool:
        """Probes have failed so often that a caller should not wait for the next one."""
        with self._lock:
            return self._openings >= self._policy.patience

    @property
    def last(self) -> str:
        """What the latest illness said of itself."""
        with self._lock:
            return self._last

    def succeeded(self) -> None:
        """A whole reply came: all is forgotten."""
        with self._lock:
            self._close()

    def failed(self, kind: str, told: str = "") -> None:
        """Counts an illness; anything else only ends a probe, as the server did answer."""
        with self._lock:
            if kind in ILLNESS:
                self._last = f"{kind}: {told}"[:300]
                self._count()
            elif self._probing:
                self._close()

    def released(self) -> None:
        """The attempt ended without asking the server (no budget, say): no news of its health."""
        with self._lock:
            self._probing = False

    def _close(self) -> None:
        self._failures.clear()
        self._open_until = None
        self._probing = False
        self._openings = 0

    def _count(self) -> None:
        now = self._clock()
        recent = [at for at in self._failures if now - at <= self._policy.window_sec]
        self._failures = [*recent, now]
        if self._probing or (
            self._open_until is None and len(self._failures) >= self._policy.failures
        ):
            self._openings += 1
            self._open_until = now + self._policy.cool_sec
            self._probing = False
            self._failures.clear()


class Retrying:
    """Applies a policy to one call at a time; holds no state of its own between calls."""

    def __init__(
        self,
        policy: RetryPolicy,
        breaker: Breaker,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._policy = policy
        self._breaker = breaker
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform

    def call(self, attempt: Callable[[int], ChatReply]) -> ChatReply:
        """The first whole reply of `attempt(1)`, `attempt(2)` ...; else the last ProviderError.

        An error that is no ProviderError (a crossed budget, an interrupt) is never retried.
        """
        ends_at = self._clock() + self._policy.deadline_sec
        tries = tenacity.Retrying(
            sleep=self._sleep,
            wait=self._wait_sec,
            stop=lambda state: self._is_over(state, ends_at),
            retry=tenacity.retry_if_exception(_may_help),
            reraise=True,
        )
        number = 0
        try:
            for one in tries:
                with one:
                    number = one.retry_state.attempt_number
                    return self._ask(attempt, number, ends_at)
        except ProviderError as error:
            raise self._last_word(error, number) from error
        raise AssertionError("unreachable: tenacity re-raises the last error")

    def _ask(self, attempt: Callable[[int], ChatReply], number: int, ends_at: float) -> ChatReply:
        self._pass_breaker(ends_at)
        try:
            reply = attempt(number)
        except ProviderError as error:
            self._breaker.failed(error.kind, str(error))
            raise
        except BaseException:
            self._breaker.released()
            raise
        self._breaker.succeeded()
        return reply

    def _pass_breaker(self, ends_at: float) -> None:
        while wait_sec := self._breaker.admit():
            if self._breaker.hopeless or self._clock() + wait_sec > ends_at:
                raise ProviderError(
                    f"the model server failed too often in a row ({self._breaker.last}); next try "
                    f"in {wait_sec:.0f} s",
                    kind="breaker",
                    retry_after_sec=wait_sec,
                    billed="no",
                    hint="see whether it is up (meta-agent doctor --live, the provider's status "
                    "page), then run the same command again",
                )
            self._sleep(wait_sec)

    def _wait_sec(self, state: tenacity.RetryCallState) -> float:
        asked = _error_of(state).retry_after_sec
        bound = self._policy.first_wait_sec * 2 ** (state.attempt_number - 1)
        jitter = self._uniform(0.0, min(bound, self._policy.max_wait_sec))
        # Above what the server asked for, never below it. "0" asks for nothing.
        return asked + min(jitter, self._policy.first_wait_sec) if asked else jitter

    def _is_over(self, state: tenacity.RetryCallState, ends_at: float) -> bool:
        error = _error_of(state)
        policy = self._policy
        limit = policy.malformed_attempts if error.kind == "malformed" else policy.attempts
        too_long = (error.retry_after_sec or 0.0) > policy.retry_after_cap_sec
        late = self._clock() + state.upcoming_sleep > ends_at
        return state.attempt_number >= limit or too_long or late

    def _last_word(self, error: ProviderError, number: int) -> ProviderError:
        if error.kind not in RETRYABLE:
            return error
        policy, asked = self._policy, error.retry_after_sec or 0.0
        if asked > policy.retry_after_cap_sec:
            text = f"{error} (the server asks to wait {asked:.0f} s; the limit is "
            text += f"{policy.retry_after_cap_sec:.0f} s)"
            return _again(error, text, hint=f"run the same command again in {asked:.0f} s")
        limit = policy.malformed_attempts if error.kind == "malformed" else policy.attempts
        if number < limit:
            text = f"{error} (gave up after {number} attempts: the deadline of "
            text += f"{policy.deadline_sec:.0f} s leaves no time for another)"
            return _again(error, text, kind="deadline")
        return _again(error, f"{error} (gave up after {number} attempts)")


def _may_help(error: BaseException) -> bool:
    return isinstance(error, ProviderError) and error.kind in RETRYABLE


def _error_of(state: tenacity.RetryCallState) -> ProviderError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, ProviderError), "only ProviderErrors are retried"
    return error


def _again(
    error: ProviderError, text: str, *, kind: str | None = None, hint: str | None = None
) -> ProviderError:
    return ProviderError(
        text,
        kind=kind or error.kind,
        retry_after_sec=error.retry_after_sec,
        billed=error.billed,
        hint=error.hint or hint or "run the same command again to resume",
    )
