"""When a call is asked again, how long it waits, and when it stops. No test here waits."""

import random
from collections.abc import Callable, Sequence

import pytest

from meta_agent.core.chat import ChatReply, Usage
from meta_agent.core.errors import BudgetError, ProviderError
from meta_agent.llm_clients.asking._retry import RETRYABLE, Breaker, Retrying, RetryPolicy

REPLY = ChatReply("hello", "stop", Usage(1, 1), "m")


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def failing(kind: str, retry_after_sec: float | None = None) -> ProviderError:
    return ProviderError(f"it is {kind}", kind=kind, retry_after_sec=retry_after_sec, billed="no")


def script(*steps: Exception | ChatReply) -> Callable[[int], ChatReply]:
    """An attempt that does these in turn, the last one for ever."""

    def attempt(number: int) -> ChatReply:
        step = steps[min(number, len(steps)) - 1]
        if isinstance(step, Exception):
            raise step
        return step

    return attempt


def retrying(clock: Time, breaker: Breaker | None = None, **limits: float) -> Retrying:
    policy = RetryPolicy(**limits)  # type: ignore[arg-type]
    return Retrying(policy, breaker or Breaker(clock=clock), clock=clock, sleep=clock.sleep)


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Between which bounds waits were drawn; each draw is the longest wait that it may be."""
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return high

    monkeypatch.setattr(random, "uniform", uniform)
    return bounds


def test_attempts_are_counted_from_one() -> None:
    clock, seen = Time(), list[int]()

    def attempt(number: int) -> ChatReply:
        seen.append(number)
        return script(failing("server"), failing("stream"), REPLY)(number)

    assert retrying(clock).call(attempt) is REPLY
    assert seen == [1, 2, 3]


def test_bounds_of_waits_double_up_to_a_limit() -> None:
    clock = Time()
    with pytest.raises(ProviderError):
        retrying(clock, attempts=6, first_wait_sec=2, max_wait_sec=10).call(
            script(failing("server"))
        )
    assert clock.slept == [2, 4, 8, 10, 10]


def test_jitter_is_full(drawn: list[tuple[float, float]]) -> None:
    with pytest.raises(ProviderError):
        retrying(Time(), attempts=3).call(script(failing("server")))
    assert drawn == [(0.0, 1.0), (0.0, 2.0)]


def test_retry_after_is_waited_out_and_spread_a_little() -> None:
    clock = Time()
    retrying(clock, first_wait_sec=1).call(script(failing("rate_limited", 30), REPLY))
    assert clock.slept == [31.0]


def test_callers_that_were_told_one_wait_come_back_at_different_times() -> None:
    clock = Time()
    with pytest.raises(ProviderError):
        retrying(clock, rate_limited_attempts=5).call(script(failing("rate_limited", 34)))
    # The draws of 1, 2, 4 and 8 s are bounded by a fifth of the wait.
    assert clock.slept == pytest.approx([35, 36, 38, 34 + 6.8])


def test_a_rate_limit_is_waited_out_longer_than_a_fault() -> None:
    """Six tries end within a minute; a limit on calls at once lasts as long as those calls."""
    clock = Time()
    with pytest.raises(ProviderError, match="after 20 attempts"):
        retrying(clock).call(script(failing("rate_limited")))
    assert clock.now > 1000 + 600


def test_a_retry_after_of_nothing_still_waits_longer_and_longer() -> None:
    clock = Time()
    again = failing("rate_limited", 0.0)
    retrying(clock, first_wait_sec=1).call(script(again, again, again, REPLY))
    assert clock.slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("asked", [121, 3600])  # within the deadline, and beyond it
def test_a_retry_after_beyond_the_cap_ends_the_call_at_once(asked: int) -> None:
    clock = Time()
    with pytest.raises(
        ProviderError, match=f"asks to wait {asked} s; the limit is 120 s"
    ) as caught:
        retrying(clock).call(script(failing("rate_limited", asked), REPLY))
    assert caught.value.kind == "rate_limited" and caught.value.hint and not clock.slept


def test_a_deadline_holds_over_all_attempts_and_waits() -> None:
    clock = Time()

    def attempt(number: int) -> ChatReply:
        clock.now += 40
        raise failing("overloaded")

    with pytest.raises(ProviderError, match="deadline of 100 s") as caught:
        retrying(clock, attempts=50, first_wait_sec=5, deadline_sec=100).call(attempt)
    assert caught.value.kind == "deadline" and clock.now <= 1000 + 100 + 40


def test_the_last_error_says_how_often_was_tried() -> None:
    with pytest.raises(ProviderError, match=r"it is server \(gave up after 4 attempts\)") as caught:
        retrying(Time(), attempts=4).call(script(failing("server")))
    assert (caught.value.kind, caught.value.billed) == ("server", "no")


def test_malformed_replies_have_a_limit_of_their_own() -> None:
    clock = Time()
    with pytest.raises(ProviderError, match="after 2 attempts"):
        retrying(clock, attempts=9, malformed_attempts=2).call(script(failing("malformed")))
    assert len(clock.slept) == 1


@pytest.mark.parametrize("kind", ["auth", "not_found", "context", "refused", "unknown"])
def test_what_another_try_cannot_help_is_not_tried(kind: str) -> None:
    clock, error = Time(), failing(kind)
    assert kind not in RETRYABLE
    with pytest.raises(ProviderError, match=f"^it is {kind}$"):
        retrying(clock).call(script(error, REPLY))
    assert not clock.slept


@pytest.mark.parametrize("error", [BudgetError("the cap is reached"), KeyboardInterrupt()])
def test_other_errors_pass_through(error: BaseException) -> None:
    def attempt(number: int) -> ChatReply:
        raise error

    clock = Time()
    with pytest.raises(type(error)):
        retrying(clock).call(attempt)
    assert not clock.slept


# --- the breaker ---------------------------------------------------------------------------------


def broken(clock: Time, kinds: Sequence[str] = ("server",) * 8, each_sec: float = 15.0) -> Breaker:
    breaker = Breaker(clock=clock)
    for kind in kinds:
        breaker.failed(failing(kind))
        clock.now += each_sec
    return breaker


def is_open(breaker: Breaker) -> bool:
    try:
        breaker.require_closed()
    except ProviderError as error:
        assert (error.kind, error.billed) == ("breaker", "no")
        return True
    return False


def test_failures_that_last_open_it() -> None:
    assert is_open(broken(Time()))
    assert not is_open(broken(Time(), ["server"] * 7))
    assert not is_open(broken(Time(), ["server"] * 50, each_sec=0.1)), "a blip of five seconds"


@pytest.mark.parametrize("kind", ["rate_limited", "auth", "malformed", "context"])
def test_any_answer_starts_the_row_anew(kind: str) -> None:
    assert not is_open(broken(Time(), [*["server"] * 7, kind, "server"]))


def test_after_a_rest_one_caller_tries_and_the_others_do_not_wait() -> None:
    clock = Time()
    breaker = broken(clock)
    clock.now += 30
    assert not is_open(breaker)
    assert is_open(breaker)
    breaker.answered()
    assert not is_open(breaker)


def test_a_storm_ends_in_calls_that_fail_at_once() -> None:
    clock, times = Time(), list[float]()
    breaker = Breaker(clock=clock)

    def attempt(number: int) -> ChatReply:
        times.append(clock.now)
        raise failing("overloaded")

    for _ in range(40):
        with pytest.raises(ProviderError):
            retrying(clock, breaker, attempts=4, first_wait_sec=10).call(attempt)
    assert len(times) < 20, "most calls asked nobody"
    clock.now += 30
    retrying(clock, breaker).call(script(REPLY))
    assert not is_open(breaker)


def test_a_call_that_is_not_made_says_what_was_wrong_with_the_last_ones() -> None:
    with pytest.raises(ProviderError, match=r"8 times in a row \(connection: ") as caught:
        retrying(Time(), broken(Time(), ["connection"] * 8)).call(script(REPLY))
    assert caught.value.halts and "doctor --live" in str(caught.value.hint)
