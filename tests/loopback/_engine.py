"""An engine on a Unix socket that speaks vLLM's routes: what it does, and how it fails, is told."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

from meta_agent.policies.engines import nano_tokenizer as nano
from meta_agent.policies.fleet import Routes

KEY = "k"


class LoopbackEngine:
    """Says that it runs `room` calls at once. A reply is the name of the weights, as one line."""

    def __init__(self, at: Path, weights: Path, *, room: int = 1000) -> None:
        self.routes = Routes(at, KEY)
        self.weights, self.room = weights, room
        self.adapters: dict[str, Path] = {}
        self.asked: list[tuple[str, str]] = []  # (model, prompt) of each call
        self.under_way_at_updates: list[int] = []
        self.failing: set[str] = set()  # routes that answer 500
        self.silent: set[str] = set()  # routes that never answer
        self.gate = threading.Event()  # calls end only while it is set
        self.gate.set()
        self.under_way = self.peak = self.done = self.looks = 0
        self.ended: str | None = None
        self.changed = threading.Condition()
        self._closing = threading.Event()
        self._server = _Server(str(at), _Handler)
        self._server.engine = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def say(self, model: str, prompt: list[int]) -> list[int]:
        """Waits for its turn; then what is served, and a newline."""
        with self.changed:
            self.asked.append((model, nano.decode(prompt)))
            self.under_way += 1
            self.peak = max(self.peak, self.under_way)
            self.changed.notify_all()
        self.gate.wait()
        with self.changed:
            self.done += 1
            self.under_way -= 1
            self.changed.notify_all()
        return nano.encode(f"{self.adapters.get(model, self.weights).name}\n")

    def wait(self, until: Callable[[], bool]) -> None:
        """Until something is true of it."""
        with self.changed:
            assert self.changed.wait_for(until, 60)

    def die(self) -> None:
        """As a crash: connections are cut."""
        self.ended = "it was killed"
        self._closing.set()
        self.gate.set()
        with self.changed:
            self.changed.notify_all()
        self._server.cut()

    def close(self) -> None:
        if not self._closing.is_set():
            self.die()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        Path(str(self._server.server_address)).unlink(missing_ok=True)

    def metrics(self) -> str:
        with self.changed:
            self.looks += 1
            self.changed.notify_all()
            running = min(self.under_way, self.room)
            told = {
                "num_requests_running": running,
                "num_requests_waiting": self.under_way - running,
                "generation_tokens_total": self.done,
            }
        return "".join(f'vllm:{name}{{engine="0"}} {float(n)}\n' for name, n in told.items())

    def answer(self, path: str, told: Any) -> bytes:
        if path == "/metrics":
            return self.metrics().encode()
        if path == "/v1/completions":
            ids = self.say(told["model"], told["prompt"])[-told["max_tokens"] :]
            logprobs = {"token_logprobs": [-0.5] * len(ids)}
            return json.dumps({"choices": [{"token_ids": ids, "logprobs": logprobs}]}).encode()
        if path == "/collective_rpc":
            self.under_way_at_updates.append(self.under_way)
            self.weights = Path(told["kwargs"]["weights_path"])
        elif path == "/v1/load_lora_adapter":
            self.adapters[told["lora_name"]] = Path(told["lora_path"])
        elif path == "/v1/unload_lora_adapter":
            del self.adapters[told["lora_name"]]
        return b'{"success":true}'

    def hold(self) -> None:
        """Never answers; ends with the engine."""
        self._closing.wait()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 256
    engine: LoopbackEngine

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def address_string(self) -> str:
        return "here"

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        engine = self.server.engine
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path in engine.silent:
            engine.hold()
            return
        known = self.headers["Authorization"] == f"Bearer {KEY}"
        status = 500 if self.path in engine.failing else 200 if known else 401
        body = engine.answer(self.path, json.loads(raw or b"{}")) if status == 200 else b"no"
        if engine.ended:
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""
