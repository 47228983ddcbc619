"""A hostile worker on the other end: every malformed frame is a typed protocol error."""

from __future__ import annotations

import contextlib
import json
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_agent.core.errors import GuestError, SandboxError
from meta_agent.core.sandbox import link as _link
from meta_agent.core.sandbox.link import FRAME_LIMIT_BYTES, Link
from meta_agent.core.sandbox.worker_sandbox import WorkerSandbox
from meta_agent.sandboxes._containers import Demultiplexer

HELLO = {"id": 1, "ok": {"work_dir": "/", "isolation": []}}


class Script:
    """A stream that plays back bytes, whatever is sent."""

    def __init__(self, data: bytes, chunk: int = 7) -> None:
        self._data, self._chunk, self.killed = data, chunk, False

    def send(self, data: memoryview, timeout_sec: float) -> int:
        return len(data)

    def receive(self, timeout_sec: float) -> bytes:
        chunk, self._data = self._data[: self._chunk], self._data[self._chunk :]
        return chunk

    def kill(self) -> None:
        self.killed = True

    def release(self) -> None:
        pass

    def post_mortem(self) -> SandboxError:
        return SandboxError("the script is over", kind="died")


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def hostile(body: bytes, chunk: int = 7) -> tuple[WorkerSandbox, Script]:
    stream = Script(framed(json.dumps(HELLO).encode()) + body, chunk)
    return WorkerSandbox("script", stream, b"program"), stream


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<I", FRAME_LIMIT_BYTES + 1),
        framed(b""),
        framed(b"not json"),
        framed(b"\xff\xfe"),
        framed(b"[1, 2]"),
        framed(b"[" * 100_000),
        framed(b'{"id": 2, "ok": ' + b"9" * 5000 + b"}"),
        framed(b'{"id": 99, "ok": 1}'),
        framed(b'{"ok": 1}'),
        framed(b'{"id": 2}'),
        framed(b'{"id": 2, "err": "text"}'),
        framed(b'{"id": 2, "calls": {"cid": 1}}'),
        framed(b'{"id": 2, "calls": [{"cid": "one", "kind": "model"}]}'),
        framed(b'{"id": 2, "calls": [{"cid": 1}]}'),
        framed(b'{"id": 2, "calls": [7]}'),
        framed(b'{"id": 2, "calls": [{"cid": true, "kind": "model"}]}'),
        framed(b'{"id": 2, "calls": [{"cid": -1, "kind": "model"}]}'),
        framed(b'{"id": 2, "calls": [{"cid": 1, "kind": ["model"]}]}'),
        framed(b'{"id": 2, "calls": [' + b'{"cid":1,"kind":"m"},' * 20_000 + b"0]}"),
        framed(b'{"id": 2, "ok": NaN}'),
        framed(b'{"id": 2, "ok": -Infinity}'),
        framed(b'{"id": 2, "ok": 1e999}'),
        framed(b'{"id": 2, "ok": ' + b"9" * 400 + b"}"),
        framed(b'{"id": 2, "ok": "\\ud800"}'),
        framed(b'{"id": 2, "ok": {"\\udfff": 1}}'),
        framed(b'{"id": 2, "ok": "\xed\xa0\x80"}'),
        framed('{"id": 2, "ok": 1}'.encode("utf-16")),
        framed(b'{"id": 2, "ok": ' + b"[" * 500 + b"]" * 500 + b"}"),
        framed(b'{"id": 2, "ok": [' + b"[]," * 500_000 + b"0]}"),
        framed(b'{"id": 2, "ok": [' + b'"",' * 500_000 + b"0]}"),
        framed(b'{"id": 2, "ok": [' + b"{}," * 500_000 + b"0]}"),
        framed(b'{"id": 2, "ok": "' + b"x" * (9 << 20) + b'"}'),
        framed(b'{"id": 2, "calls": []}' + b" " * (1 << 20)) * 20,
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_malformed_frame_ends_the_sandbox(body: bytes) -> None:
    sandbox, stream = hostile(body, chunk=1 << 16)
    with pytest.raises(SandboxError) as caught:
        sandbox.request("op", {}, timeout_sec=5)
    assert caught.value.kind == "protocol"
    assert stream.killed


HONEST_EXEC: dict[str, object] = {
    "exit_code": 0, "stdout": "eA==", "stderr": "", "timed_out": False, "truncated": False,
    "duration_sec": 0.5, "oom": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "ok",
    [
        "{}",
        "[]",
        '{"exit_code": "x"}',
        '{"exit_code": 0, "stdout": 5}',
        *(
            json.dumps({**HONEST_EXEC, **part})
            for part in (
                {"exit_code": 256},
                {"exit_code": -1},
                {"exit_code": True},
                {"exit_code": 10**30},
                {"duration_sec": -1},
                {"duration_sec": 1e300},
                {"timed_out": 1},
                {"oom": None},
                {"stdout": "\u00e9"},
                {"stdout": "A" * (2 << 20)},
            )
        ),
    ],
    ids=lambda ok: ok[:60],
)
def test_a_malformed_exec_result_is_a_protocol_error(ok: str) -> None:
    sandbox, _ = hostile(framed(b'{"id": 2, "ok": ' + ok.encode() + b"}"), chunk=1 << 16)
    with pytest.raises(SandboxError) as caught:
        sandbox.exec(["true"])
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("ok", ['{"other": ""}', '{"a": "eHg="}', '{"a": "!"}', "[]", '{"a": 1}'])
def test_files_nobody_asked_for_are_a_protocol_error(ok: str) -> None:
    sandbox, _ = hostile(framed(b'{"id": 2, "ok": ' + ok.encode() + b"}"))
    with pytest.raises(SandboxError) as caught:
        sandbox.read(["a"], limit_bytes=1)
    assert caught.value.kind == "protocol"


def test_an_end_in_the_middle_of_a_frame_is_a_death() -> None:
    sandbox, _ = hostile(framed(b'{"id": 2, "ok": 1}')[:-1])
    with pytest.raises(SandboxError) as caught:
        sandbox.request("op", {}, timeout_sec=5)
    assert caught.value.kind == "died"


@pytest.mark.parametrize("facts", [{}, {"work_dir": 1, "isolation": []}, {"work_dir": "/"}, []])
def test_a_malformed_greeting_is_no_start(facts: object) -> None:
    with pytest.raises(SandboxError) as caught:
        WorkerSandbox("script", Script(framed(json.dumps({"id": 1, "ok": facts}).encode())), b"p")
    assert caught.value.kind == "start"


def test_a_flood_of_frames_does_not_outlast_the_deadline() -> None:
    class Flood(Script):
        frames = 0

        def receive(self, timeout_sec: float) -> bytes:
            if self._data:
                return super().receive(timeout_sec)
            self.frames += 1
            return framed(b'{"id": 2, "calls": [{"cid": 1, "kind": "model"}]}') * 50

    stream = Flood(framed(json.dumps(HELLO).encode()), 1 << 16)
    sandbox = WorkerSandbox("script", stream, b"program")
    with pytest.raises(SandboxError) as caught:
        sandbox.request("op", {}, timeout_sec=0.2, serve=lambda calls, answer: None)
    assert caught.value.kind == "timeout"
    assert stream.killed and stream.frames


def test_text_full_of_commas_is_no_bomb() -> None:
    text = 'a, "b", [c], {d}\\' * 100_000
    sandbox, _ = hostile(framed(json.dumps({"id": 2, "ok": text}).encode()), chunk=1 << 16)
    assert sandbox.request("op", {}, timeout_sec=30) == text


def test_a_worker_that_says_nothing_did_not_start() -> None:
    with pytest.raises(SandboxError) as caught:
        WorkerSandbox("script", Script(b""), b"program")
    assert caught.value.kind == "start"


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_raise_anything_but_our_own_errors(data: bytes, chunk: int) -> None:
    stream = Script(framed(json.dumps(HELLO).encode()) + data, chunk)
    sandbox = WorkerSandbox("script", stream, b"program")
    with contextlib.suppress(SandboxError, GuestError):
        sandbox.request("op", {}, timeout_sec=5)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=50))),
       st.integers(1, 20))  # fmt: skip
def test_the_engines_stream_is_split_at_any_chunking(
    parts: list[tuple[int, bytes]], chunk: int
) -> None:
    raw = b"".join(struct.pack(">B3xI", kind, len(data)) + data for kind, data in parts)
    splitter = Demultiplexer()
    out = b"".join(splitter.feed(raw[i : i + chunk]) for i in range(0, len(raw), chunk))
    assert out == b"".join(data for kind, data in parts if kind == 1)
    assert splitter.stderr == b"".join(data for kind, data in parts if kind == 2)


@given(st.lists(st.dictionaries(st.text(), st.integers()), max_size=5), st.integers(1, 30))
def test_frames_arrive_whole_at_any_chunking(frames: list[dict[str, int]], chunk: int) -> None:
    link = Link(Script(b"".join(framed(json.dumps(f).encode()) for f in frames), chunk))
    assert [link.receive(time.monotonic() + 5) for _ in frames] == frames


class QuietClock:
    """Time on a machine where nothing else runs, so that a test can say what share was used."""

    def __init__(self) -> None:
        self.slept = 0.0

    thread_time = staticmethod(time.thread_time)

    def monotonic(self) -> float:
        return time.thread_time() + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_a_flood_of_frames_leaves_half_of_the_interpreter_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_link, "time", clock := QuietClock())
    calls = ",".join(['{"cid":1,"kind":"model"}'] * 2000)
    link = Link(Script(framed(b'{"id":2,"calls":[%s]}' % calls.encode()) * 40, chunk=1 << 20))
    started = clock.monotonic()
    for _ in range(40):
        link.receive(started + 60)
    assert clock.slept > 0.4 * (clock.monotonic() - started) > 0
