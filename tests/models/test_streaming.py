"""Deadlines of a stream, and the thread that reads it."""

import threading
from collections.abc import Iterator

import pytest

from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._streaming import Line, Timeouts

AT_ONCE = Timeouts(connect_sec=0.0, first_sec=0.05, total_sec=30.0)
# Events that are there come within this on a busy machine, too.
LATER = Timeouts(connect_sec=0.0, first_sec=30.0, between_sec=0.5, total_sec=60.0)


class Stream:
    """Yields numbers up to `stop`, then waits until it is closed."""

    def __init__(self, stop: int) -> None:
        self.closed = threading.Event()
        self._stop = stop

    def __iter__(self) -> Iterator[int]:
        yield from range(self._stop)
        self.closed.wait(30)

    def close(self) -> None:
        self.closed.set()


def typed(error: BaseException, began: bool) -> ProviderError:
    return ProviderError(f"{error} {began}", kind="stream" if began else "connection")


def test_events_come_in_order_until_the_end() -> None:
    assert list(Line(lambda: [1, 2, 3], Timeouts(), typed).listen()) == [1, 2, 3]


@pytest.mark.parametrize(("events", "patience"), [(0, AT_ONCE), (2, LATER)])
def test_silence_at_the_start_or_later_is_a_timeout(events: int, patience: Timeouts) -> None:
    stream, heard = Stream(events), list[int]()
    with pytest.raises(ProviderError, match="said nothing") as caught:
        for event in Line(lambda: stream, patience, typed).listen():
            heard.append(event)
    assert caught.value.kind == "timeout" and heard == list(range(events))
    stream.close()


def test_an_error_of_the_sdk_is_named_and_not_chained() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("lost")

    with pytest.raises(ProviderError, match="lost True") as caught:
        list(Line(broken, Timeouts(), typed).listen())
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_an_error_that_cannot_be_named_is_still_told() -> None:
    def unnamed(error: BaseException, began: bool) -> ProviderError:
        raise KeyError("sk-secret")

    def broken() -> Iterator[int]:
        yield from ()
        raise RuntimeError("sk-secret")

    with pytest.raises(ProviderError, match="RuntimeError, then KeyError") as caught:
        list(Line(broken, Timeouts(), unnamed).listen())
    assert "sk-secret" not in str(caught.value)


def test_who_stops_listening_ends_the_reading() -> None:
    closed = threading.Event()

    class Endless:
        def __iter__(self) -> Iterator[int]:
            yield from iter(lambda: 1, 2)

        def close(self) -> None:
            closed.set()

    listening = Line(Endless, Timeouts(), typed).listen()
    assert next(listening) == 1
    listening.close()
    assert closed.wait(30)
