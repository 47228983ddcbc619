"""Guest module `agent_endpoint`: a model server on the sandbox's own loopback. Stdlib only.

An agent uses its usual SDK and needs no change. Its requests end here and are put into a queue;
`agent_command` takes them from there and relays them to the host. There is no network and no key.
Promises: connections, headers, bodies and waiting requests are bounded, so a hostile agent can only
starve itself. Every answer is complete before its first byte is sent. Does not cover: telling
agents apart. One sandbox holds one attempt, and every request here counts for that attempt.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

# Its source is installed first, under this name; there is no package of ours inside a sandbox.
dialects: Any = sys.modules["agent_dialects"]
Json = Any

MAX_BODY_BYTES = 16 << 20
MAX_CONNECTIONS = 32
MAX_WAITING = 64
IDLE_SEC = 60.0
BODY_SEC = 60.0
# Of the statuses that no SDK retries, the one that agents do not try to mend either.
OVER_STATUS = 403
OVER = "attempt_over"
OVER_TEXT = "this attempt is over: a limit on its turns, tokens or time was reached"


class Refusal(Exception):  # noqa: N818 - an answer, not a mistake
    """Raised to answer an agent's request with an HTTP error: status, code and text."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Ask:
    """An agent's model request. Its thread blocks in `wait` until an answer or a refusal comes."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self._answer: Json = None
        self._refusal: Refusal | None = None
        self._done = threading.Event()

    def answer(self, value: Json) -> None:
        """Hands the host's reply to the thread that blocks in `wait`."""
        self._answer = value
        self._done.set()

    def refuse(self, refusal: Refusal) -> None:
        """Makes `wait` raise this refusal in the thread that blocks there."""
        self._refusal = refusal
        self._done.set()

    def wait(self) -> Json:
        """Blocks until the request is answered; returns the reply or raises Refusal."""
        self._done.wait()
        if self._refusal is not None:
            raise self._refusal
        return self._answer


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one HTTP connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "meta-agent", ""
    timeout = IDLE_SEC
    server: Endpoint

    def do_POST(self) -> None:
        """Answers a model call or a request to count tokens; a refusal becomes an HTTP error."""
        path = self.path.partition("?")[0].rstrip("/")
        path = path if path.startswith("/v1/") else f"/v1{path}"
        dialect = self.server.dialects.get(path.removesuffix("/count_tokens"))
        try:
            body = self._body()
            if dialect is None:
                raise Refusal(404, "not_found", f"{path} is not relayed; {KNOWN}")
            if path.endswith("/count_tokens"):
                self._send_json(200, {"input_tokens": len(json.dumps(body)) // 4 + 1})
            else:
                self._chat(dialect, body)
        except Refusal as refusal:
            error = (dialect or dialects.OpenAi()).error(refusal.status, refusal.code, str(refusal))
            self._send_json(refusal.status, error)

    def do_GET(self) -> None:
        """Answers `/models` with the only model, `policy`, and any other path with status 404."""
        if self.path.partition("?")[0].rstrip("/").endswith("/models"):
            model = {"id": "policy", "object": "model", "created": 0, "owned_by": "meta-agent"}
            self._send_json(200, {"object": "list", "data": [model], "has_more": False})
        else:
            error = dialects.OpenAi().error(
                404, "not_found", f"{self.path[:80]} is not here; {KNOWN}"
            )
            self._send_json(404, error)

    def _chat(self, dialect: Any, body: Json) -> None:
        try:
            request = dialect.read(body)
        except dialects.BadRequest as problem:
            raise Refusal(400, "invalid_request", str(problem)) from problem
        except (AttributeError, TypeError, RecursionError) as problem:
            raise Refusal(
                400, "invalid_request", "a field of the request has the wrong type"
            ) from problem
        answer = self.server.ask(request)
        reply = dialects.Reply(self.server.number(), request.model, answer)
        if request.stream:
            self._send_events(dialect, reply, request.wants_usage)
        else:
            self._send_json(200, dialect.reply(reply))

    def _body(self) -> Json:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise Refusal(411, "length_required", "send the body with a Content-Length")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or len(length) > 12 or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refusal(
                413, "too_large", f"send at most {MAX_BODY_BYTES} bytes, with their length"
            )
        try:
            body = json.loads(self._read(int(length)))
        except (ValueError, RecursionError) as problem:
            raise Refusal(400, "invalid_request", f"not JSON: {str(problem)[:200]}") from problem
        if not isinstance(body, dict):
            raise Refusal(400, "invalid_request", "the body must be a JSON object")
        return body

    def _read(self, length: int) -> bytes:
        parts: list[bytes] = []
        give_up = time.monotonic() + BODY_SEC
        while length:
            part = self.rfile.read1(min(length, 1 << 16))
            if not part or time.monotonic() > give_up:
                self.close_connection = True
                raise Refusal(
                    400, "invalid_request", "the body did not arrive in time; send it again"
                )
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _send_json(self, status: int, value: Json) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send_events(self, dialect: Any, reply: Any, wants_usage: bool) -> None:
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
            for name, data in dialect.events(reply, wants_usage)
        ]
        if isinstance(dialect, dialects.OpenAi):
            lines.append("data: [DONE]\n\n")
        self._send(200, "text/event-stream", "".join(lines).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the agent went away: it pays with its turn
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Logs nothing, where the base class would write a line for each request."""


class Endpoint(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A model server on 127.0.0.1 that puts agents' requests into `waiting`, until `stop`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, waiting: queue.Queue[Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.waiting = waiting
        self.dialects = {path: dialect() for path, dialect in dialects.DIALECTS.items()}
        self.port = int(self.server_address[1])
        self._seats = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._count = 0
        self._counting = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}).start()

    def ask(self, request: Any) -> Json:
        """Queues a request and waits for the answer. Raises Refusal if refused or too many wait."""
        ask = Ask(request)
        if self.waiting.qsize() >= MAX_WAITING:
            raise Refusal(429, "busy", "too many requests wait already; repeat this one later")
        self.waiting.put(ask)
        return ask.wait()

    def number(self) -> int:
        """Returns the next number, counted from 1, for a reply's id."""
        with self._counting:
            self._count += 1
            return self._count

    def stop(self) -> None:
        """Stops listening. Open connections stay until this process ends."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread, or closes it if MAX_CONNECTIONS are open already."""
        if not self._seats.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection in its thread, then frees its place among MAX_CONNECTIONS."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a connection's errors, such as a client that leaves in the middle."""


KNOWN = f"POST {' or '.join(dialects.DIALECTS)}"
OPERATIONS: dict[str, Any] = {}
