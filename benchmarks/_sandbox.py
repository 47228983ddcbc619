"""How long a command takes through the persistent worker, beside `docker exec` in the same run.

The kinds are measured in turns, so that whatever else the machine does hits all of them alike.
Target: a median of at most 1 ms for a command through the worker.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable

from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import BASE_IMAGE, engine_status, open_sandbox

GUEST = "def echo(args, channel): return args\nOPERATIONS = {'echo': echo}\n"
ROUNDS = 10
# One `docker exec` is worth about a hundred worker commands of time.
PEER_SHARE = 20


def timed(act: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each call."""
    spent = []
    for _ in range(count):
        started = time.perf_counter()
        act()
        spent.append((time.perf_counter() - started) * 1e3)
    return spent


def row(spent: list[float]) -> dict[str, float]:
    ordered, count = sorted(spent), len(spent)
    return {
        "count": count,
        "median_ms": round(ordered[count // 2], 3),
        "p90_ms": round(ordered[int(count * 0.9)], 3),
    }


def in_turns(acts: dict[str, tuple[Callable[[], object], int]]) -> dict[str, dict[str, float]]:
    """All kinds in turns, after one warm-up call each."""
    spent: dict[str, list[float]] = {what: [] for what in acts}
    for act, _ in acts.values():
        act()
    for _ in range(ROUNDS):
        for what, (act, count) in acts.items():
            spent[what] += timed(act, max(1, count // ROUNDS))
    return {what: row(values) for what, values in spent.items()}


def peer(container: str) -> Callable[[], object]:
    """`docker exec` by the command line, as most tools do it."""
    argv = ["docker", "exec", container, "/bin/true"]
    return lambda: subprocess.run(argv, check=True, capture_output=True)


def start_peer() -> str:
    argv = ["docker", "run", "-d", "--rm", "--network", "none", BASE_IMAGE, "sleep", "600"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def of_backend(backend: str, count: int) -> dict[str, dict[str, float]]:
    limits = SandboxLimits(cpus=2.0, deadline_sec=600)
    with open_sandbox(backend, run="benchmark", limits=limits) as box:
        box.install("guest", GUEST)
        acts: dict[str, tuple[Callable[[], object], int]] = {
            f"{backend}: exec /bin/true": (lambda: box.exec(["/bin/true"]), count),
            f"{backend}: guest request": (lambda: box.request("echo", {}, timeout_sec=9), count),
        }
        if not engine_status().ready:
            return in_turns(acts)
        container = start_peer()
        try:
            acts["docker exec /bin/true"] = (peer(container), max(ROUNDS, count // PEER_SHARE))
            return in_turns(acts)
        finally:
            subprocess.run(["docker", "kill", container], check=True, capture_output=True)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", choices=["docker", "process"], action="append")
    parser.add_argument("--count", type=int, default=500)


def measure(given: argparse.Namespace) -> dict[str, dict[str, float]]:
    backends = given.backend or (["docker"] if engine_status().ready else []) + ["process"]
    return {
        what: figures
        for backend in backends
        for what, figures in of_backend(backend, given.count).items()
    }
