"""Threaded HTTP/1.1 on 127.0.0.1: hears a request, asks the brain, speaks or fails as told."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from tests.loopback import _anthropic, _openai, _responses
from tests.loopback._speech import Brain, Call, Fault, Say

_SPEECHES = {"messages": _anthropic, "responses": _responses}
FIRST_QUESTION = "Reply with one word: ready."
"""What a run asks its policy's server before the first attempt."""
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger: close() sends RST


class Url(str):
    """A server's base URL; `calls` is what it was asked so far."""

    __slots__ = ("calls",)
    calls: list[Call]


def openai_server(
    brain: Brain, *, key: str | None = None, serial: bool = True
) -> contextlib.AbstractContextManager[Url]:
    """Serves chat completions. With `key`, any other key gets a 401."""
    return _serving(brain, "/v1", key, serial)


def anthropic_server(
    brain: Brain, *, key: str | None = None, serial: bool = True
) -> contextlib.AbstractContextManager[Url]:
    """Serves messages. With `key`, any other key gets a 401."""
    return _serving(brain, "", key, serial)


@contextlib.contextmanager
def refused_url() -> Iterator[str]:
    """An address whose port nobody listens on (and nobody else may take meanwhile)."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextlib.contextmanager
def unreachable_url() -> Iterator[str]:
    """An address where connecting hangs: the queue of the listening socket is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def _serving(brain: Brain, prefix: str, key: str | None, serial: bool) -> Iterator[Url]:
    server = _Server(brain, key, serial)
    url = Url(f"http://127.0.0.1:{server.server_address[1]}{prefix}")
    url.calls = server.calls
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.stop()
        thread.join()
    if server.brain_errors:
        raise server.brain_errors[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, brain: Brain, key: str | None, serial: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = key
        self.calls: list[Call] = []
        self.brain_errors: list[BaseException] = []
        self.closing = threading.Event()
        self._brain = brain
        self._turn = threading.Lock() if serial else contextlib.nullcontext()
        self._lock = threading.Lock()  # guards `calls`, `brain_errors`, `_open` and `_resetting`
        self._open: set[socket.socket] = set()
        self._resetting: set[socket.socket] = set()

    def ask(self, speech: ModuleType, path: str, headers: dict[str, str], raw: Any) -> Any:
        """The call and the brain's answer to it."""
        with self._turn:
            with self._lock:
                call = speech.parse(len(self.calls), path, headers, raw)
                self.calls.append(call)
            try:
                return call, self._brain(call)
            except Exception as error:
                if call.last == FIRST_QUESTION:  # a policy's brain need not know it
                    return call, Say("ready")
                self.brain_errors.append(error)
                return call, Fault.status(500, f"the brain raised {error!r}")

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def reset(self, connection: socket.socket) -> None:
        """Lets its end be a reset (RST) where it would be an orderly one (FIN)."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        with self._lock:
            self._resetting.add(connection)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
            resetting = request in self._resetting
            self._resetting.discard(request)
        if resetting:
            self.close_request(request)  # without the shutdown, which would send a FIN first
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def stop(self) -> None:
        """Ends every connection, idle or stalled, so that no thread is left waiting."""
        self.closing.set()
        self.shutdown()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "loopback", "object": "model"}]}
        self._send_json(200, models if self.path.endswith("/models") else {"ok": True})

    def do_POST(self) -> None:
        raw = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        speech = _SPEECHES.get(path.rpartition("/")[2], _openai)
        if not path.endswith(("/messages", "/chat/completions", "/responses")):
            self._send_json(404, speech.error_body(Fault.status(404, f"no such path {path}")))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        call, answer = self.server.ask(speech, path, headers, raw)
        if self.server.key is not None and call.key != self.server.key:
            answer = Fault.status(401, f"incorrect API key provided: {call.key}")
        if isinstance(answer, Say):
            self._say(speech, call, answer)
        else:
            self._fail(speech, call, answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: tests read `calls`."""

    def _say(self, speech: ModuleType, call: Call, say: Say) -> None:
        if not call.raw.get("stream"):
            self._send_json(200, speech.whole(call, say))
            return
        self._begin_stream()
        for event in speech.events(call, say):
            self._send_chunk(event)
        self._send_chunk("")

    def _fail(self, speech: ModuleType, call: Call, fault: Fault) -> None:
        if fault.kind == "status":
            self._send_status(speech, call, fault)
        elif fault.kind == "reset":
            self._reset()
        elif fault.kind == "silent":
            self._hang()
        else:
            self._break_stream(speech, call, fault)

    def _send_status(self, speech: ModuleType, call: Call, fault: Fault) -> None:
        if fault.body == "empty":
            self._send_empty(speech, call)
        elif fault.body:
            self._send(fault.code, fault.content_type, fault.body.encode(), fault.headers)
        else:
            body = json.dumps(speech.error_body(fault)).encode()
            self._send(fault.code, "application/json", body, fault.headers)

    def _send_empty(self, speech: ModuleType, call: Call) -> None:
        if speech is _anthropic:
            self._say(speech, call, Say(stop="end_turn"))
        elif call.raw.get("stream"):
            self._begin_stream()
            self._send_chunk(f"data: {json.dumps(speech.empty(call))}\n\n")
            self._send_chunk("data: [DONE]\n\n")
            self._send_chunk("")
        else:
            self._send_json(200, speech.empty(call))

    def _break_stream(self, speech: ModuleType, call: Call, fault: Fault) -> None:
        self._begin_stream()
        for _, event in zip(range(fault.pieces), speech.events(call, fault.say), strict=False):
            self._send_chunk(event)
        if fault.kind == "abort":
            self._reset()
        elif fault.kind == "stall":
            self._hang()
        elif fault.kind == "cut":
            self.close_connection = True
        else:
            self._send_chunk(speech.error_event(fault) if fault.kind == "error_event" else "")
            if fault.kind == "error_event":
                self._send_chunk("")

    def _send_json(self, code: int, body: Any) -> None:
        self._send(code, "application/json", json.dumps(body).encode())

    def _send(self, code: int, content_type: str, body: bytes, headers: Any = None) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "content-type": content_type}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.send_header("request-id", f"req_{len(self.server.calls)}")
        self.end_headers()
        self.wfile.write(body)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", f"req_{len(self.server.calls)}")
        self.end_headers()

    def _send_chunk(self, text: str) -> None:
        """One chunk; an empty one ends the stream."""
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _reset(self) -> None:
        self.server.reset(self.connection)
        self.close_connection = True

    def _hang(self) -> None:
        self.server.closing.wait()
        self.close_connection = True
