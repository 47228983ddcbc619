"""`vllm:PATH`: a vLLM server that is started for a run and stopped with it.

It runs in this environment, or in the one whose interpreter `META_AGENT_VLLM_PYTHON` names, since
vLLM pins its own torch. It listens on a free loopback port with a random key and writes a log. On a
machine without GPU it is vLLM's CPU build, whose cache gets 1 GiB.
Promises: a server is ready when `/health` answers. If it ends or hangs before that, the error holds
the end of its log. None of its processes outlives this one.
Not covered: options beyond these. Start a server by hand for them, and name it by a base URL.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from meta_agent.core.errors import ConfigError, PreflightError, ProviderError
from meta_agent.core.ledger.waiting import waiting
from meta_agent.core.parsing.strict import document
from meta_agent.core.protocols import JSON
from meta_agent.policies.served._server_process import ServerProcess, runs

PREFIX: Final = "vllm:"
PYTHON_VARIABLE: Final = "META_AGENT_VLLM_PYTHON"
CONTEXT_TOKENS: Final = 36_864
"""The longest conversation served, if the model can: a domain's largest context and a reply."""
START_SEC: Final = 900.0
_POLL_SEC: Final = 0.5
_TOOL_PARSERS: Final = {"qwen": "hermes", "mistral": "mistral", "llama": "llama3_json"}
_CPU_SEQUENCES: Final = 16
_NO_LIMIT: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server's URL, the name under which it serves its model, and its API key."""

    base_url: str
    model: str
    api_key: str = field(repr=False)


class VllmServer:
    """A running vLLM server. Raises ProviderError if the server does not become ready."""

    def __init__(
        self,
        path: Path,
        *,
        log: Path,
        start_sec: float = START_SEC,
        context_tokens: int | None = None,
    ) -> None:
        python, config = require_vllm(), config_of(path)
        name, key, port = served_name(path), secrets.token_hex(16), _free_port()
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", name, key)
        url = f"http://127.0.0.1:{port}/health"
        self._process = start(
            _command(python, path, config, name, port, context_tokens or CONTEXT_TOKENS),
            settings(key),
            log,
            healthy=lambda: _healthy(url),
            start_sec=start_sec,
        )

    def close(self) -> None:
        """Stops the server."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Returns the id of the guard process, which ends the server if this process dies."""
        return self._process.pid


def start(
    argv: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    *,
    healthy: Callable[[], bool],
    start_sec: float = START_SEC,
) -> ServerProcess:
    """Starts the model server `argv` and returns it once the function `healthy` returns True.

    `variables` are added to its environment. Raises ProviderError with the end of the server's log
    if it ends or takes longer than `start_sec`.
    """
    process = ServerProcess(argv, variables, log)
    try:
        with waiting(
            "engine",
            f"the start of a vLLM server (process {process.pid}, log {log})",
            limit_sec=start_sec,
            advice="It loads and compiles the model. Its log says how far it is.",
            command=shlex.join(["tail", "-f", str(log)]),
        ):
            _until_healthy(process, healthy, log, start_sec)
    except BaseException:
        process.close()
        raise
    return process


def _until_healthy(
    process: ServerProcess, healthy: Callable[[], bool], log: Path, start_sec: float
) -> None:
    began = time.monotonic()
    while not healthy():
        lasted_sec = time.monotonic() - began
        if process.exit_code is not None or lasted_sec > start_sec:
            raise ProviderError(
                f"vLLM did not start within {lasted_sec:.0f} s: {process.last_words()}",
                kind="server",
                billed="no",
                hint=f"read the log {log}, then run the same command again",
            )
        time.sleep(_POLL_SEC)


def require_vllm() -> str:
    """Returns the path of a Python interpreter with vLLM. Raises PreflightError without one."""
    python = os.environ.get(PYTHON_VARIABLE)
    if python:
        if runs([python, "-c", "import importlib.util as u; assert u.find_spec('vllm')"]):
            return python
        raise PreflightError(
            f"{PYTHON_VARIABLE} is {python}, which is not a Python with vLLM",
            hint=f"{python} -m pip install vllm",
        )
    if find_spec("vllm") is None:
        raise PreflightError(
            "vllm:PATH needs vLLM, which this environment does not have",
            hint="run python -m venv ~/vllm && ~/vllm/bin/pip install vllm, "
            f"then set {PYTHON_VARIABLE}=~/vllm/bin/python",
        )
    return sys.executable


def served_name(path: Path) -> str:
    """Returns a folder's name as a model name on a server, with `-` for unusual characters."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", path.name) or "model"


def _command(
    python: str, path: Path, config: JSON, name: str, port: int, context_tokens: int
) -> list[str]:
    context = min(window_of(config), context_tokens)
    argv = [*serving(python, path, name, context), "--host", "127.0.0.1", "--port", str(port)]
    kind = str(config.get("model_type", ""))
    parser = next((p for word, p in _TOOL_PARSERS.items() if word in kind), None)
    if parser:
        argv += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    return argv if has_gpu() else [*argv, *cpu_options(context, _CPU_SEQUENCES)]


def serving(python: str, path: Path, name: str, context: int) -> list[str]:
    """Returns the command that serves the model at `path` by vLLM, without host and port.

    `name` is the model's name in requests; `context` is the most tokens of a conversation.
    """
    # `vllm serve` is the newer name, but asks for package metadata that not every build has.
    argv = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(path)]
    return [*argv, "--served-model-name", name, "--max-model-len", str(context)]


def cpu_options(context: int, sequences: int) -> list[str]:
    """Returns vLLM's options for a machine without GPU, for `sequences` calls at once.

    Chunked prefill is off: with it, vLLM 0.32 crashes on the CPU at requests with a seed.
    """
    whole = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(context)]
    return ["--max-num-seqs", str(sequences), *whole]


def window_of(config: JSON) -> int:
    """Returns a model's context length in tokens by its `config.json`; 2**30 if none is stated."""
    text = config.get("text_config")
    window = config.get("max_position_embeddings") or (
        text.get("max_position_embeddings") if isinstance(text, dict) else None
    )
    return window if isinstance(window, int) and window > 0 else _NO_LIMIT


def settings(key: str) -> dict[str, str]:
    """Returns the environment variables of a vLLM server whose API key is `key`.

    They hold the key, since anybody on the machine can read a server's command line.
    """
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
    cpu = (
        {} if has_gpu() else {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    )
    chosen = {name: os.environ[name] for name in cpu if name in os.environ}
    return {"VLLM_API_KEY": key, **quiet, **cpu, **chosen}


def config_of(path: Path) -> dict[str, JSON]:
    """Returns a model's parsed `config.json`. Raises ConfigError if it is missing or no JSON."""
    try:
        config = document((path / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{PREFIX}{path} is not a model in Hugging Face format: {error}",
            hint="give a folder with config.json, weights and tokenizer",
        ) from error
    return config if isinstance(config, dict) else {}


def has_gpu() -> bool:
    """Returns True if this machine has an NVIDIA or AMD GPU."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
