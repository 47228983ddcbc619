"""HTTP requests to a vLLM server of this project over a Unix socket.

It is a socket and not a port, because vLLM's key guards `/v1` alone, and anybody who
reaches the other routes can pause the engine or change its weights. Only this user
may enter the socket's folder.
Promises: token ids go in and come out, with the log-probabilities that they were drawn by (at
the temperature, and renormalised if `top_p` cuts). Every failure is a `ProviderError`, and none
of them stops a run by itself.
Not covered: how often to ask, and what an error means for the engine (`_replica`).
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from meta_agent.core.errors import ProviderError
from meta_agent.core.ledger.waiting import waiting
from meta_agent.core.protocols import JSON, GenerateRequest
from meta_agent.policies.engines.talks import Asked, server_seed

_COUNTS: Final = {
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "cache": "kv_cache_usage_perc",
    "preempted": "num_preemptions_total",
    "read": "prompt_tokens_total",
    "written": "generation_tokens_total",
}


BASE: Final = "policy"
"""The model name that engines give to weights without an adapter."""


class Served(NamedTuple):
    """One version of a policy as vLLM servers serve it: a model's folder, and maybe an adapter."""

    name: str
    weights: Path  # the model's folder
    adapter: Path | None = None  # the folder of the adapter on these weights
    rank: int = 0  # of the adapter
    model: str = BASE  # the name in requests to engines; every adapter gets a new one


class Drawn(NamedTuple):
    """The token ids of one sampled reply, with their log-probabilities."""

    ids: list[int]
    logprobs: list[float | None]  # None for a token whose log-probability is missing


class Load(NamedTuple):
    """An engine's calls now, its cache use, and its preemptions and tokens since it started."""

    running: float
    waiting: float
    cache: float  # share of the cache that running calls hold
    preempted: float
    read: float
    written: float


class Routes:
    """The HTTP client of one engine (a vLLM server), over its Unix socket."""

    def __init__(self, at: Path, key: str) -> None:
        self._at, self._key = at, key

    def healthy(self) -> bool:
        """Returns True if the engine answers and is healthy."""
        try:
            self._ask("GET", "/health", None, 5.0)
        except ProviderError:
            return False
        return True

    def draw(
        self,
        model: str,
        prompt: Asked,
        request: GenerateRequest,
        stops: Collection[int],
        timeout_sec: float,
    ) -> Drawn:
        """Samples one reply with the served model named `model`; `stops` are ids that end a reply.

        The seed follows from the request. Raises ProviderError if no valid reply comes in time.
        """
        body = {
            "model": model,
            "prompt": prompt.ids,
            "max_tokens": prompt.budget,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": server_seed(request),
            "stop_token_ids": sorted(stops),
            "logprobs": 0,
            "return_token_ids": True,
        }
        answer = self._ask("POST", "/v1/completions", body, timeout_sec)
        try:
            choice = json.loads(answer)["choices"][0]
            ids = [int(token_id) for token_id in choice["token_ids"]]
            logprobs = choice["logprobs"]["token_logprobs"]
            drawn = Drawn(
                ids, [None if logprob is None else float(logprob) for logprob in logprobs]
            )
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise _failure("malformed", f"the reply has no valid tokens: {error!r}") from error
        if not ids or len(ids) != len(drawn.logprobs):
            raise _failure(
                "malformed", f"the reply has {len(ids)} tokens, but {len(drawn.logprobs)} logprobs"
            )
        return drawn

    def load(self, timeout_sec: float) -> Load:
        """Returns the engine's load from `/metrics`. Raises ProviderError if it does not answer."""
        text = self._ask("GET", "/metrics", None, timeout_sec).decode(errors="replace")
        loads = {name: _counted(text, counter) for name, counter in _COUNTS.items()}
        return Load(**loads)

    def take_weights(self, folder: Path, timeout_sec: float) -> None:
        """Replaces the engine's weights by those in `folder`. Raises ProviderError on failure."""
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        self._ask("POST", "/collective_rpc", call, timeout_sec)
        answer = self._ask("POST", "/reset_prefix_cache", None, timeout_sec)
        if b"true" not in answer:
            raise _failure("server", "the cache of the earlier weights was not cleared")

    def take_adapter(self, name: str, folder: Path, timeout_sec: float) -> None:
        """Makes the engine load the adapter in `folder` as `name`. Raises ProviderError on failure.

        No earlier adapter may have had the name, since vLLM caches prefixes by name.
        """
        adapter = {"lora_name": name, "lora_path": str(folder)}
        self._ask("POST", "/v1/load_lora_adapter", adapter, timeout_sec)

    def drop_adapter(self, name: str, timeout_sec: float) -> None:
        """Makes the engine unload the adapter `name`. Raises ProviderError on failure."""
        self._ask("POST", "/v1/unload_lora_adapter", {"lora_name": name}, timeout_sec)

    def _ask(self, method: str, path: str, value: JSON, timeout_sec: float) -> bytes:
        body = None if value is None else json.dumps(value).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            with (
                waiting(
                    "engine",
                    f"an answer of the engine at {self._at} to {path}",
                    limit_sec=timeout_sec,
                    advice="An engine that has calls and moves nothing is replaced. See its log.",
                    command="meta-agent log --follow",
                ),
                closing(_Connection(self._at, timeout_sec)) as connection,
            ):
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                data = reply.read()
        except TimeoutError as error:
            raise _failure("timeout", f"{path} gave no answer in {timeout_sec:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise _failure("connection", f"{path}: {error!r}") from error
        if reply.status != 200:
            text = data[:300].decode(errors="replace")
            raise _failure("server", f"{path} answered {reply.status}: {text}")
        return data


class _Connection(http.client.HTTPConnection):
    def __init__(self, at: Path, timeout_sec: float) -> None:
        super().__init__("engine", timeout=timeout_sec)
        self._at = at

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._at))


def _counted(text: str, counter: str) -> float:
    """Returns the sum of a counter over the engine's processes; 0 if the counter is missing."""
    lines = re.findall(rf"^vllm:{counter}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, lines))


def _failure(kind: str, what: str) -> ProviderError:
    return ProviderError(
        f"the engine failed: {what}",
        kind=kind,
        billed="no",
        hint="lost attempts are repeated; if it happens again, read the engine's log",
    )
