"""Servers that send too much: each is given up on, and neither memory nor a thread stays behind."""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meta_agent.core.chat import ChatRequest, ToolSpec
from meta_agent.core.errors import ProviderError
from meta_agent.llm_clients.providers._connection import RequestTimeouts
from tests.models._providers import open_provider

pytestmark = [
    pytest.mark.filterwarnings("ignore:::litellm[.].*"),
    pytest.mark.filterwarnings("ignore:.*ReadOnly. qualifier"),
]
Write = Callable[[bytes], None]
MB = 1 << 20
MOST = 100 * MB
"""What a bomb offers: the test fails long before memory does."""
STREAM = "text/event-stream"


def head(write: Write, code: int = 200, kind: str = STREAM, more: str = "") -> None:
    write(f"HTTP/1.1 {code} X\r\ncontent-type: {kind}\r\n{more}connection: close\r\n\r\n".encode())


def flood(write: Write, piece: bytes, most: int = MOST) -> None:
    for _ in range(most // len(piece)):
        write(piece)


def openai_event(delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def anthropic_event(name: str, **fields: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def honest(openai: bool) -> bytes:
    if openai:
        stop = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        lines = [f"data: {json.dumps(one)}\n\n".encode() for one in (stop, usage)]
        return openai_event({"content": "fine"}) + b"".join(lines) + b"data: [DONE]\n\n"
    text = {"type": "text", "text": ""}
    return b"".join(
        [
            anthropic_event("message_start", message={"usage": {"input_tokens": 1}}),
            anthropic_event("content_block_start", index=0, content_block=text),
            anthropic_event(
                "content_block_delta", index=0, delta={"type": "text_delta", "text": "fine"}
            ),
            anthropic_event("content_block_stop", index=0),
            anthropic_event(
                "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}
            ),
            anthropic_event("message_stop"),
        ]
    )


def delta(openai: bool, size: int) -> bytes:
    if openai:
        return openai_event({"content": "x" * size})
    said = {"type": "text_delta", "text": "x" * size}
    return anthropic_event("content_block_delta", index=0, delta=said)


def opening(openai: bool) -> bytes:
    text = {"type": "text", "text": ""}
    return b"" if openai else anthropic_event("content_block_start", index=0, content_block=text)


def big_deltas(write: Write, openai: bool) -> None:
    head(write)
    write(opening(openai))
    flood(write, delta(openai, MB // 2))


def one_big_delta(write: Write, openai: bool) -> None:
    head(write)
    write(opening(openai) + delta(openai, 40 * MB))
    write(honest(openai))


def many_lines_of_one_event(write: Write, openai: bool) -> None:
    head(write)
    flood(write, b"data: [\n" * 8192)


def a_line_without_end(write: Write, openai: bool) -> None:
    head(write)
    write(b"data: ")
    flood(write, b"x" * MB)


def one_giant_call(write: Write, openai: bool) -> None:
    head(write)
    part = "x" * (MB // 4)
    if openai:
        call = {"index": 0, "id": "a", "function": {"name": "view", "arguments": part}}
        flood(write, openai_event({"tool_calls": [call]}))
        return
    block = {"type": "tool_use", "id": "a", "name": "view", "input": {}}
    write(anthropic_event("content_block_start", index=0, content_block=block))
    said = {"type": "input_json_delta", "partial_json": part}
    flood(write, anthropic_event("content_block_delta", index=0, delta=said))


def many_calls(write: Write, openai: bool) -> None:
    head(write)
    events = []
    for number in range(1000):
        if openai:
            call = {"index": number, "id": str(number), "function": {"name": "view"}}
            events.append(openai_event({"tool_calls": [call]}))
        else:
            block = {"type": "tool_use", "id": str(number), "name": "view", "input": {}}
            events.append(anthropic_event("content_block_start", index=number, content_block=block))
    write(b"".join(events))


def packed(start: bytes, size_mb: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    pieces = [packer.compress(start), *(packer.compress(b"x" * MB) for _ in range(size_mb))]
    return b"".join([*pieces, packer.flush()])


def gzip_bomb(write: Write, openai: bool) -> None:
    head(write, more="content-encoding: gzip\r\n")
    write(packed(delta(openai, 8)[:-12], 100))


def endless_error(write: Write, openai: bool) -> None:
    head(write, 500, "text/html")
    flood(write, b"<p>sorry</p>" * 10_000)


def packed_error(write: Write, openai: bool) -> None:
    head(write, 500, "text/html", more="content-encoding: gzip\r\n")
    write(packed(b"", 100))


def nested(write: Write, openai: bool) -> None:
    head(write)
    write(b"event: message_start\ndata: " + b"[" * 400_000 + b"]" * 400_000 + b"\n\n")


def nested_error(write: Write, openai: bool) -> None:
    head(write, 500, "application/json")
    write(b'{"error":' + b"[" * 50_000 + b"]" * 50_000 + b"}")


def packed_twice(write: Write, openai: bool) -> None:
    head(write, more="content-encoding: gzip, gzip\r\n")
    write(gzip.compress(packed(b"data: ", 100)))


def headers_without_end(write: Write, openai: bool) -> None:
    write(b"HTTP/1.1 200 X\r\n")
    flood(write, b"x: y\r\n" * 100_000)


BOMBS = {
    one.__name__: (one, kind)
    for one, kind in {
        big_deltas: "malformed",
        one_big_delta: "malformed",
        many_lines_of_one_event: "malformed",
        a_line_without_end: "malformed",
        one_giant_call: "malformed",
        many_calls: "stream",
        gzip_bomb: "malformed",
        endless_error: "server",
        packed_error: "server",
        nested: "malformed",
        nested_error: "server",
        packed_twice: "malformed",
        headers_without_end: "connection",
    }.items()
}
MODELS = {
    "openai": ("openai/m", True),
    "anthropic": ("anthropic/claude-opus-4-5", False),
    "litellm": ("litellm/deepseek/m", True),
}


@contextmanager
def serving(say: Callable[[Write], None]) -> Iterator[tuple[str, threading.Event]]:
    """A server that says this to whoever asks, and notes when its peer has hung up."""
    gone = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            try:
                say(lambda data: self.connection.sendall(data))
                self.connection.shutdown(socket.SHUT_WR)
                self.rfile.read(1)  # until the other side has closed
            except OSError:
                pass
            gone.set()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", gone
        server.shutdown()


def ask(model: str, url: str, timeouts: RequestTimeouts | None = None) -> str:
    suffix = "" if "anthropic" in model else "/v1"
    provider = open_provider(model, base_url=url + suffix, api_key="sk-x", timeouts=timeouts)
    view = ToolSpec("view", "Shows a file.", {"type": "object", "properties": {}})
    messages = [{"role": "user", "content": "hello"}]
    try:
        return provider.chat(ChatRequest("proposer", model, messages, 64, [view])).content
    finally:
        provider.close()


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.parametrize("name", MODELS)
def test_an_honest_server_is_heard(name: str) -> None:
    model, openai = MODELS[name]
    with serving(lambda write: (head(write), write(honest(openai)))[0]) as (url, _):
        assert ask(model, url) == "fine"


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", MODELS)
def test_a_bomb_is_given_up_on(name: str, bomb: str) -> None:
    model, openai = MODELS[name]
    say, kind = BOMBS[bomb]
    reset_peak()
    idle = peak_mb()
    with serving(lambda write: say(write, openai)) as (url, gone):
        with pytest.raises(ProviderError) as caught:
            ask(model, url)
        assert gone.wait(60)
    if name != "litellm":  # which has words of its own for what it cannot read
        assert caught.value.kind == kind
    assert len(str(caught.value)) < 1000
    assert peak_mb() - idle < 256


def dripping_error(write: Write) -> None:
    head(write, 500, "text/html")
    while True:
        write(b"x")
        time.sleep(0.05)


def dripping_events(write: Write) -> None:
    head(write)
    while True:
        write(b": still here\n\n" + openai_event({"content": "x"}))
        time.sleep(0.01)


@pytest.mark.parametrize("drip", [dripping_error, dripping_events])
@pytest.mark.parametrize("name", MODELS)
def test_who_drips_is_over_time_and_hung_up_on(name: str, drip: Callable[[Write], None]) -> None:
    patience = RequestTimeouts(connect_sec=1.0, silent_sec=2.0, total_sec=1.0)
    with serving(drip) as (url, gone):
        with pytest.raises(ProviderError):
            ask(MODELS[name][0], url, patience)
        assert gone.wait(60)
