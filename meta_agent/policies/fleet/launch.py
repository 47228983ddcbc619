"""Starts the engines of a fleet: vLLM servers that a training samples from, each on a socket.

Promises: log-probabilities are those that tokens were drawn by; no sampling setting comes from the
model's folder. The socket lies in a folder that only this user may enter, since vLLM leaves some
routes without a key. Nothing listens on a network.
Not covered: several machines.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_agent.policies.fleet._routes import BASE, Routes
from meta_agent.policies.served import vllm_server
from meta_agent.policies.served._server_process import ServerProcess

_CPU_SEQUENCES = 64
_CPU_TOKENS = 8192
_LIVE_ADAPTERS = 2
"""How many adapters an engine runs at once: the newest version's, and that of the one before."""


@dataclass(frozen=True, slots=True)
class VllmLaunch:
    """The settings of a fleet's engines (vLLM servers). A call of this object starts one engine."""

    logs: Path
    context_tokens: int
    count: int = 1
    """The number of engines, which share the processors if there is no GPU."""
    precision: str = "float32"
    devices: Sequence[str] = ()
    """Each engine's CUDA_VISIBLE_DEVICES. If empty, all see the same GPUs."""
    gpus_each: int = 1
    memory_share: float | None = None
    """The share of a GPU's memory that an engine takes; None: vLLM's default."""

    def __call__(self, number: int, weights: Path, rank: int) -> VllmEngine:
        argv = vllm_server.serving(vllm_server.require_vllm(), weights, BASE, self.context_tokens)
        argv += ["--dtype", self.precision, "--logprobs-mode", "processed_logprobs"]
        argv += ["--generation-config", "vllm", "--disable-uvicorn-access-log"]
        if rank:
            most = ["--max-loras", str(_LIVE_ADAPTERS), "--max-cpu-loras", str(2 * _LIVE_ADAPTERS)]
            argv += ["--enable-lora", "--max-lora-rank", str(rank), *most]
        variables = {"CUDA_VISIBLE_DEVICES": self.devices[number]} if self.devices else {}
        if vllm_server.has_gpu():
            argv += ["--tensor-parallel-size", str(self.gpus_each)]
        else:
            tokens = max(self.context_tokens, _CPU_TOKENS)
            argv += vllm_server.cpu_options(tokens, _CPU_SEQUENCES)
            variables |= processors(self.count, os.cpu_count() or 1)
        if self.memory_share is not None:
            argv += ["--gpu-memory-utilization", f"{self.memory_share:.2f}"]
        return VllmEngine(argv, variables, self.logs / f"engine-{number}.log")


def processors(engines: int, cores: int) -> dict[str, str]:
    """Returns `{"OMP_NUM_THREADS": ...}`, each engine's share of the CPU cores.

    Returns {} for a single engine, or if the user set the variable.
    """
    if engines == 1 or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, cores // engines))}


class VllmEngine:
    """A running vLLM server on a Unix socket. Raises ProviderError if the server does not start."""

    def __init__(self, argv: Sequence[str], variables: dict[str, str], log: Path) -> None:
        key = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="meta-agent-engine-"))  # of mode 0700
        at = self._folder / "socket"
        self.routes = Routes(at, key)
        open_routes = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
        environment = {**vllm_server.settings(key), **open_routes, **variables}
        try:
            self._process: ServerProcess = vllm_server.start(
                [*argv, "--uds", str(at)], environment, log, healthy=self.routes.healthy
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def ended(self) -> str | None:
        """Returns a text on how the server ended, with the end of its log; None while it runs."""
        code = self._process.exit_code
        return None if code is None else f"exit code {code}: {self._process.last_words()[-500:]}"

    @property
    def pid(self) -> int:
        """Returns the id of the guard process, which ends the server if this process dies."""
        return self._process.pid

    def close(self) -> None:
        """Ends the server and removes its socket."""
        self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)
