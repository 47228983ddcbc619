"""Guest modules: operations, calls in the middle of them, and every way they can go wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.protocols import Answer, Answerer, Call, CallServer
from meta_agent.core.sandbox.link import FRAME_LIMIT_BYTES
from meta_agent.sandboxes import WorkerSandbox, open_sandbox
from tests.sandbox._engines import ENGINES, SMALL, Open, need_backend

GUEST = """
import os, sys, time

def echo(args, channel):
    return args

def attached(args, channel):
    return list(args["attached"]) if "attached" in args else None

def size(args, channel):
    return [len(args["attached"]), "z" * args["back"]]

def ask(args, channel):
    cids = channel.calls([{"kind": "model", "n": n} for n in range(args["n"])])
    answers = {}
    frames = 0
    while len(answers) < args["n"]:
        got = channel.wait()
        frames += 1
        answers.update({answer["cid"]: answer for answer in got})
    return {"frames": frames, "answers": [answers[cid] for cid in cids]}

def ask_big(args, channel):
    for _ in range(args["n"]):
        channel.calls([{"kind": "model", "text": "x" * args["size"]}])
    left = args["n"]
    while left:
        left -= len(channel.wait())
    return "done"

def patient(args, channel):
    channel.calls([{"kind": "model", "cid": 7}])
    return channel.wait(timeout_sec=0.1)

def fail(args, channel):
    print("about to fail", flush=True)
    time.sleep(0.05)
    raise {"KeyError": KeyError, "SystemExit": SystemExit}[args["kind"]]("no luck")

def unfit(args, channel):
    return object()

def sets(args, channel):
    return list({str(n) for n in range(50)})

PUBLIC = (echo, attached, size, ask, ask_big, patient, fail, unfit, sets)
OPERATIONS = {f.__name__: f for f in PUBLIC}
"""


@pytest.fixture
def guest(box: WorkerSandbox) -> WorkerSandbox:
    """One of its own, for tests that end it."""
    box.install("guest", GUEST)
    return box


@pytest.fixture(scope="module", params=["process", ENGINES[0]])
def shared(request: pytest.FixtureRequest) -> Iterator[WorkerSandbox]:
    """One for all tests that leave it as it was."""
    need_backend(request.param)
    with open_sandbox(request.param, run="test", limits=SMALL) as opened:
        opened.install("guest", GUEST)
        yield opened


def double(calls: list[Call]) -> list[Answer]:
    return [{"cid": call["cid"], "ok": 2 * call["n"]} for call in calls]


def all_at_once(calls: list[Call], answer: Answerer) -> None:
    answer(double(calls))


def one_by_one_backwards(calls: list[Call], answer: Answerer) -> None:
    for reply in reversed(double(calls)):
        answer([reply])


def from_threads(calls: list[Call], answer: Answerer) -> None:
    for reply in double(calls):
        threading.Timer(0.01, answer, [[reply]]).start()


def refused(calls: list[Call], answer: Answerer) -> None:
    answer([{"cid": call["cid"], "err": "budget"} for call in calls])


def test_calls_are_answered_in_any_grouping_by_values_and_by_errors(shared: WorkerSandbox) -> None:
    servers: list[CallServer] = [all_at_once, one_by_one_backwards, from_threads]
    for serve in servers:
        result = shared.request("ask", {"n": 20}, timeout_sec=10, serve=serve)
        assert [answer["ok"] for answer in result["answers"]] == [2 * n for n in range(20)]
        assert result["frames"] == (1 if serve is all_at_once else 20)
    result = shared.request("ask", {"n": 1}, timeout_sec=10, serve=refused)
    assert result["answers"][0]["err"] == "budget"
    assert shared.request("ask", {"n": 1}, timeout_sec=10)["answers"][0]["err"], "nobody serves"


def test_large_frames_both_ways_do_not_deadlock(shared: WorkerSandbox) -> None:
    def big(calls: list[Call], answer: Answerer) -> None:
        answer([{"cid": call["cid"], "ok": "y" * (4 << 20)} for call in calls])

    args = {"n": 4, "size": 4 << 20}
    assert shared.request("ask_big", args, timeout_sec=30, serve=big) == "done"


def test_a_deadline_does_not_count_what_the_host_says_it_needed(guest: WorkerSandbox) -> None:
    def slowly(excused_sec: float) -> CallServer:
        def serve(calls: list[Call], answer: Answerer) -> None:
            time.sleep(1.5)
            answer(double(calls), excused_sec=excused_sec)

        return serve

    assert guest.request("ask", {"n": 1}, timeout_sec=1.0, serve=slowly(1.5))["frames"] == 1
    with pytest.raises(SandboxError, match="1 s"):
        guest.request("ask", {"n": 1}, timeout_sec=1.0, serve=slowly(0.0))


def test_late_answers_disturb_nobody(shared: WorkerSandbox) -> None:
    late: list[Callable[[], None]] = []

    def later(calls: list[Call], answer: Answerer) -> None:
        late.append(lambda: answer([{"cid": 7, "ok": "too late"}]))

    assert shared.request("patient", {}, timeout_sec=10, serve=later) == []
    late[0]()
    assert shared.request("ask", {"n": 1}, timeout_sec=10, serve=all_at_once)["frames"] == 1
    assert shared.request("echo", {"still": "here"}, timeout_sec=10) == {"still": "here"}


# --- requests sent ahead, and raw bytes -----------------------------------------------------------


def test_requests_sent_ahead_are_replied_to_in_any_order_of_waiting(shared: WorkerSandbox) -> None:
    waits = [shared.begin("echo", {"n": n}, timeout_sec=10) for n in range(5)]
    assert shared.request("echo", {"n": 9}, timeout_sec=10) == {"n": 9}
    assert [wait()["n"] for wait in reversed(waits)] == [4, 3, 2, 1, 0]
    assert waits[0]() == {"n": 0}


def test_an_error_comes_with_the_wait_and_spoils_no_neighbour(shared: WorkerSandbox) -> None:
    failing = shared.begin("fail", {"kind": "KeyError"}, timeout_sec=10)
    fine = shared.begin("echo", {"n": 1}, timeout_sec=10)
    assert fine() == {"n": 1}
    with pytest.raises(GuestError):
        failing()


def test_a_request_sent_ahead_survives_an_operation_that_waits_for_answers(
    shared: WorkerSandbox,
) -> None:
    asking = shared.begin("ask", {"n": 3}, timeout_sec=10)
    fine = shared.begin("echo", {"n": 1}, timeout_sec=10)
    assert fine() == {"n": 1}
    assert "serves no calls" in asking()["answers"][0]["err"]


def test_a_hanging_request_ends_those_behind_it(guest: WorkerSandbox) -> None:
    guest.install("slow", "import time\nOPERATIONS = {'hang': lambda a, c: time.sleep(60)}")
    guest.begin("hang", {}, timeout_sec=0.3)
    behind = guest.begin("echo", {}, timeout_sec=10)
    for _ in range(2):
        with pytest.raises(SandboxError) as caught:
            behind()
        assert caught.value.kind == "timeout"


def test_attached_bytes_arrive_as_they_are(shared: WorkerSandbox) -> None:
    for parts in ([b"a"], [b"\n"], [b"\n\n{", b"\x00\xff"], [b"", b"x\n"], [bytes(range(256))]):
        wait = shared.begin("attached", {}, timeout_sec=10, attached=parts)
        assert bytes(wait()) == b"".join(parts)
    assert shared.begin("attached", {}, timeout_sec=10)() is None


def test_large_attachments_sent_ahead_do_not_deadlock(shared: WorkerSandbox) -> None:
    size = 4 << 20
    waits = [
        shared.begin("size", {"back": size}, timeout_sec=30, attached=[b"x" * size] * 2)
        for _ in range(4)
    ]
    assert [wait()[0] for wait in waits] == [2 * size] * 4


def test_too_large_an_attachment_is_refused_before_anything_is_sent(shared: WorkerSandbox) -> None:
    with pytest.raises(ValueError):
        shared.begin("size", {}, timeout_sec=10, attached=[b"x" * FRAME_LIMIT_BYTES])
    assert shared.request("echo", {}, timeout_sec=10) == {}


@pytest.mark.parametrize("kind", ["KeyError", "SystemExit"])
def test_guest_errors_are_typed_with_source_lines(shared: WorkerSandbox, kind: str) -> None:
    with pytest.raises(GuestError) as caught:
        shared.request("fail", {"kind": kind}, timeout_sec=10)
    assert caught.value.kind == kind
    assert 'raise {"KeyError"' in caught.value.guest_traceback
    assert "about to fail" in caught.value.guest_traceback
    for op, known in (("unfit", "TypeError"), ("no_such_operation", "LookupError")):
        with pytest.raises(GuestError) as caught:
            shared.request(op, {}, timeout_sec=10)
        assert caught.value.kind == known
    assert shared.request("echo", {}, timeout_sec=10) == {}


def test_a_bad_module_is_refused(shared: WorkerSandbox) -> None:
    for source in (
        "OPERATIONS = {'exec': len}",
        "x = 1",
        "raise RuntimeError('no')",
        "def broken(",
    ):
        with pytest.raises(GuestError):
            shared.install("bad", source)
    assert shared.exec(["echo", "alive"]).stdout == b"alive\n"


def test_order_of_sets_is_the_same_in_both_backends(open_box: Open, backend: str) -> None:
    orders = []
    for _ in range(2):
        box = open_box(backend)
        box.install("guest", GUEST)
        orders.append(box.request("sets", {}, timeout_sec=10))
    assert orders[0] == orders[1]


def test_requests_from_many_threads_take_turns(shared: WorkerSandbox) -> None:
    results: list[int] = []

    def work(n: int) -> None:
        results.append(shared.request("echo", {"n": n}, timeout_sec=10)["n"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20))


def test_closing_from_another_thread_ends_a_request(box: WorkerSandbox) -> None:
    timer = threading.Timer(0.3, box.close)
    timer.start()
    with pytest.raises(SandboxError):
        box.exec(["sleep", "30"])
    timer.join()


def test_closing_while_serving_ends_the_request(guest: WorkerSandbox) -> None:
    with pytest.raises(SandboxError):
        guest.request("ask", {"n": 1}, timeout_sec=10, serve=lambda calls, answer: guest.close())


def test_after_a_timeout_every_call_repeats_the_reason(guest: WorkerSandbox) -> None:
    for _ in range(2):
        with pytest.raises(SandboxError) as caught:
            guest.request("ask", {"n": 1}, timeout_sec=0.3, serve=lambda calls, answer: None)
        assert caught.value.kind == "timeout"


def test_a_sandbox_outlives_the_thread_that_opened_it(open_box: Open, backend: str) -> None:
    boxes: list[WorkerSandbox] = []
    thread = threading.Thread(target=lambda: boxes.append(open_box(backend)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert boxes[0].exec(["echo", "alive"]).stdout == b"alive\n"
