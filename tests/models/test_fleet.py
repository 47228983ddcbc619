"""Engines of our own behind one gateway, spoken to over real sockets: they die, hang and refuse."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Event

import pytest

from meta_agent.core.errors import ProviderError
from meta_agent.core.protocols import GenerateReply
from meta_agent.policies.engines.talks import NanoTalks
from meta_agent.policies.fleet import EngineGateway, Fleet, Patience, Served
from meta_agent.policies.fleet._replica import next_window
from meta_agent.policies.fleet._routes import Load
from tests.loopback._engine import LoopbackEngine
from tests.models import _nano

BASE, NEXT = Served("base", Path("/w/base")), Served("next", Path("/w/next"))
QUICK = Patience(poll_sec=0.01, stall_sec=30.0, call_sec=30.0, update_sec=30.0, tries=3)


def adapter(name: str, rank: int = 8) -> Served:
    return Served(name, BASE.weights, Path("/w") / name, rank)


class Fleets:
    """Starts engines as a fleet asks for them, and keeps all of them."""

    def __init__(self, place: Path) -> None:
        self._place, self._names, self._lock = place, itertools.count(), Condition()
        self.started: list[LoopbackEngine] = []
        self.numbers: list[tuple[int, str, int]] = []
        self.prepare: Callable[[LoopbackEngine], None] = lambda engine: None
        self._open: list[Fleet] = []

    def launch(self, number: int, weights: Path, rank: int) -> LoopbackEngine:
        engine = LoopbackEngine(self._place / f"{next(self._names)}.sock", weights)
        self.prepare(engine)
        with self._lock:
            self.started.append(engine)
            self.numbers.append((number, weights.name, rank))
            self._lock.notify_all()
        return engine

    def wait(self, until: Callable[[], bool]) -> None:
        """Waits until something is true of the engines that were started."""
        with self._lock:
            assert self._lock.wait_for(until, 60)

    def open(self, count: int = 1, *, patience: Patience = QUICK, rank: int = 8) -> Fleet:
        fleet = Fleet(self.launch, count, BASE, rank=rank, patience=patience)
        self._open.append(fleet)
        return fleet

    def of(self, number: int) -> LoopbackEngine:
        """The engine that was started first at a place."""
        return self.started[[at for at, _, _ in self.numbers].index(number)]

    def close(self) -> None:
        for engine in self.started:
            engine.gate.set()
        for fleet in self._open:
            fleet.close()
        for engine in self.started:
            engine.close()


@pytest.fixture
def fleets(tmp_path: Path) -> Iterator[Fleets]:
    made = Fleets(tmp_path)
    yield made
    made.close()


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(128) as pool:
        yield pool


def gateway(fleet: Fleet) -> EngineGateway:
    return EngineGateway(fleet, NanoTalks(256), "nano@1", 256)


def ask(asked: EngineGateway, key: str, *said: str) -> GenerateReply:
    (reply,) = asked.generate([_nano.request(key, *(said or (key,)), max_tokens=64)])
    return reply


def test_a_rollout_stays_on_its_engine_and_all_engines_work(fleets: Fleets) -> None:
    asked = gateway(fleets.open(2))
    talks = {f"task {at}": [f"task {at}"] for at in range(8)}
    for _ in range(3):
        for key, said in talks.items():
            said += [ask(asked, key, *said).content, "go on"]
    rows = asked.finish(list(talks))
    seen = [{prompt.split("\n")[0] for _, prompt in one.asked} for one in fleets.started]
    assert all(
        len(one.asked) == 12 and len(keys) == 4
        for one, keys in zip(fleets.started, seen, strict=True)
    )
    assert not seen[0] & seen[1]
    assert all(row is not None and row.exact and sum(row.mask) == 15 for row in rows)


def test_as_many_calls_are_under_way_as_the_engine_runs_without_a_queue(
    fleets: Fleets, aside: ThreadPoolExecutor
) -> None:
    asked = gateway(fleets.open())
    (engine,) = fleets.started
    engine.room = 24
    engine.gate.clear()
    calls = [aside.submit(ask, asked, f"task {at}") for at in range(100)]
    engine.wait(lambda: engine.peak >= engine.room)
    engine.wait(lambda looks=engine.looks: engine.looks >= looks + 20)
    assert engine.peak <= 2 * engine.room
    engine.gate.set()
    assert all(call.result().failure is None for call in calls)


@pytest.mark.parametrize(
    ("window", "load", "then"),
    [
        (16, Load(15, 0, 0.2, 0, 0, 0), 24),  # busy, no queue: more
        (16, Load(9, 0, 0.2, 0, 0, 0), 16),  # not all are used
        (16, Load(15, 1, 0.2, 0, 0, 0), 16),  # a call that just came is no queue
        (64, Load(16, 48, 0.5, 0, 0, 0), 40),
        (16, Load(16, 0, 0.99, 0, 0, 0), 12),  # the cache is full
        (16, Load(16, 0, 0.5, 3, 0, 0), 12),  # calls were put off and computed again
        (1, Load(0, 0, 0.99, 3, 0, 0), 1),
    ],
)
def test_the_window_follows_queue_and_cache(window: int, load: Load, then: int) -> None:
    assert next_window(window, load, preempted=0) == then


def lost(reply: GenerateReply) -> bool:
    return reply.failure is not None and reply.failure.kind == "infra"


def test_an_engine_that_dies_is_replaced_on_what_is_served_now(
    fleets: Fleets, aside: ThreadPoolExecutor
) -> None:
    fleet = fleets.open()
    asked = gateway(fleet)
    fleet.publish(NEXT)
    (first,) = fleets.started
    first.gate.clear()
    call = aside.submit(ask, asked, "task 0")
    first.wait(lambda: bool(first.asked))
    first.die()
    assert lost(call.result())
    assert ask(asked, "task 1").content == "next"
    assert fleets.numbers == [(0, "base", 8), (0, "next", 8)]
    assert fleet.replaced == 1


def test_an_engine_may_be_killed_again_and_again_where_it_answers_between(fleets: Fleets) -> None:
    fleet = fleets.open()
    asked = gateway(fleet)
    for at in range(QUICK.tries + 1):
        fleets.started[-1].die()
        while lost(ask(asked, f"task {at}")):
            pass
    assert fleet.replaced == QUICK.tries + 1


def test_an_engine_that_moves_nothing_is_replaced_with_its_adapter(
    fleets: Fleets, aside: ThreadPoolExecutor
) -> None:
    fleet = fleets.open(patience=QUICK._replace(stall_sec=0.2))
    asked = gateway(fleet)
    fleet.publish(adapter("v1"))
    fleets.started[0].gate.clear()
    assert lost(aside.submit(ask, asked, "task 0").result())
    assert ask(asked, "task 1").content == "v1"
    assert fleets.numbers == [(0, "base", 8), (0, "base", 8)]


def test_a_call_that_stalls_alone_is_lost_alone(fleets: Fleets) -> None:
    asked = gateway(fleets.open(patience=QUICK._replace(call_sec=0.2)))
    (engine,) = fleets.started
    engine.gate.clear()
    assert lost(ask(asked, "task 0"))
    engine.gate.set()
    assert ask(asked, "task 1").content == "base"
    assert len(fleets.started) == 1


def test_an_engine_that_is_lost_again_and_again_ends_the_run(fleets: Fleets) -> None:
    asked = gateway(fleets.open())

    def doomed(engine: LoopbackEngine) -> None:
        engine.ended = "it was killed"

    fleets.prepare = doomed
    fleets.started[0].die()
    with pytest.raises(ProviderError, match="ended 3 times in a row") as ended:
        while lost(ask(asked, "task")):
            pass
    assert ended.value.halts and len(fleets.started) == 3


def test_an_adapter_has_a_name_of_its_own_and_is_dropped_once_no_rollout_uses_it(
    fleets: Fleets,
) -> None:
    fleet = fleets.open()
    asked = gateway(fleet)
    (engine,) = fleets.started
    fleet.publish(adapter("v1"))
    assert ask(asked, "old").content == "v1"
    fleet.publish(adapter("v2"))
    assert ask(asked, "new").content == "v2"
    assert ask(asked, "old", "old", "v1", "go on").content == "v1"  # it goes on as it began
    asked.finish(["old"])
    fleet.publish(adapter("v3"))
    assert sorted(one.name for one in engine.adapters.values()) == ["v2", "v3"]
    assert len({model for model, _ in engine.asked}) == 2


@pytest.mark.parametrize("fault", ["failing", "silent"])
def test_an_adapter_that_one_engine_does_not_take_is_served_by_none(
    fleets: Fleets, fault: str
) -> None:
    fleet = fleets.open(2, patience=QUICK._replace(update_sec=0.2))
    asked = gateway(fleet)
    first = fleet.publish(adapter("v1"))
    getattr(fleets.of(1), fault).add("/v1/load_lora_adapter")
    assert fleet.publish(adapter("v2")) == first
    assert fleet.unpublished == 1
    assert [ask(asked, f"task {at}").content for at in range(2)] == ["v1", "v1"]
    assert [one.name for one in fleets.of(0).adapters.values()] == ["v1"]


@pytest.mark.parametrize(("fault", "patience_sec"), [("failing", 60.0), ("silent", 1.0)])
def test_an_engine_that_does_not_take_whole_weights_is_replaced(
    fleets: Fleets, fault: str, patience_sec: float
) -> None:
    fleet = fleets.open(2, patience=QUICK._replace(update_sec=patience_sec))
    asked = gateway(fleet)
    getattr(fleets.of(1), fault).add("/collective_rpc")
    assert fleet.publish(NEXT) == NEXT
    assert [ask(asked, f"task {at}").content for at in range(4)] == ["next"] * 4
    fleets.wait(lambda: len(fleets.numbers) > 2)  # a thread starts the engine that takes its place
    assert fleets.numbers[2:] == [(1, "next", 8)]


def test_whole_weights_wait_for_the_calls_under_way(
    fleets: Fleets, aside: ThreadPoolExecutor
) -> None:
    fleet = fleets.open()
    asked = gateway(fleet)
    (engine,) = fleets.started
    engine.gate.clear()
    early = [aside.submit(ask, asked, f"task {at}") for at in range(4)]
    engine.wait(lambda: len(engine.asked) == 4)
    published = aside.submit(fleet.publish, NEXT)
    engine.wait(lambda looks=engine.looks: engine.looks >= looks + 5)
    assert not published.done()
    engine.gate.set()
    assert published.result() == NEXT and engine.under_way_at_updates == [0]
    assert {call.result().content for call in early} == {"base"}
    assert ask(asked, "late").content == "next"


def test_adapters_of_a_larger_rank_start_engines_with_room_for_them(fleets: Fleets) -> None:
    fleet = fleets.open()
    fleet.publish(adapter("v1", rank=16))
    assert ask(gateway(fleet), "task").content == "v1"
    assert fleets.numbers == [(0, "base", 8), (0, "base", 16)]
    assert fleet.replaced == 0


def test_an_engine_that_does_not_come_up_at_first_is_said_at_once(fleets: Fleets) -> None:
    def none(number: int, weights: Path, rank: int) -> LoopbackEngine:
        raise ProviderError("vLLM did not start: no memory", kind="server", billed="no")

    with pytest.raises(ProviderError, match="no memory"):
        Fleet(none, 2, BASE, patience=QUICK)


def test_a_look_that_began_before_an_engine_died_lets_no_second_call_be_lost(
    fleets: Fleets, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = gateway(fleets.open(patience=QUICK._replace(poll_sec=0.3)))
    (engine,) = fleets.started
    load, seen, lost = engine.routes.load, Event(), Event()

    def slow(timeout_sec: float) -> Load:
        told = load(timeout_sec)
        seen.set()
        assert lost.wait(30)
        return told

    monkeypatch.setattr(engine.routes, "load", slow)
    assert seen.wait(30)
    engine.die()
    assert ask(asked, "first").failure is not None
    lost.set()
    time.sleep(0.1)  # for what was seen to arrive
    assert ask(asked, "second").failure is None
