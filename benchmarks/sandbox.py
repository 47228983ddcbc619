"""How long a command takes through the persistent worker, beside `docker exec` in the same run.

    python benchmarks/sandbox.py [--backend docker|process] [--count 500] [--json]

The kinds are measured in turns, so that whatever else the machine does hits all of them alike.
Target: a median of at most 1 ms for a command through the worker.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from meta_agent.core.protocols import SandboxLimits
from meta_agent.sandboxes import BASE_IMAGE, engine_status, open_sandbox

GUEST = "def echo(args, channel): return args\nOPERATIONS = {'echo': echo}\n"
TARGET_MS = 1.0
ROUNDS = 10
# One `docker exec` is worth about a hundred worker commands of time.
PEER_SHARE = 20


@dataclass(frozen=True, slots=True)
class Row:
    """Latency of one kind of command."""

    what: str
    count: int
    median_ms: float
    p90_ms: float


def timed(act: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each call."""
    spent = []
    for _ in range(count):
        started = time.perf_counter()
        act()
        spent.append((time.perf_counter() - started) * 1e3)
    return spent


def row(what: str, spent: list[float]) -> Row:
    ordered = sorted(spent)
    return Row(what, len(spent), ordered[len(spent) // 2], ordered[int(len(spent) * 0.9)])


def measure(acts: dict[str, tuple[Callable[[], object], int]]) -> list[Row]:
    """All kinds in turns, after one warm-up call each."""
    spent: dict[str, list[float]] = {what: [] for what in acts}
    for act, _ in acts.values():
        act()
    for _ in range(ROUNDS):
        for what, (act, count) in acts.items():
            spent[what] += timed(act, max(1, count // ROUNDS))
    return [row(what, values) for what, values in spent.items()]


def peer(container: str) -> Callable[[], object]:
    """`docker exec` by the command line, as most tools do it."""
    argv = ["docker", "exec", container, "/bin/true"]
    return lambda: subprocess.run(argv, check=True, capture_output=True)


def start_peer() -> str:
    argv = ["docker", "run", "-d", "--rm", "--network", "none", BASE_IMAGE, "sleep", "600"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def run(backend: str, count: int) -> list[Row]:
    limits = SandboxLimits(cpus=2.0, deadline_sec=600)
    with open_sandbox(backend, run="benchmark", limits=limits) as box:
        box.install("guest", GUEST)
        acts: dict[str, tuple[Callable[[], object], int]] = {
            f"{backend}: exec /bin/true": (lambda: box.exec(["/bin/true"]), count),
            f"{backend}: guest request": (lambda: box.request("echo", {}, timeout_sec=9), count),
        }
        if not engine_status().ready:
            return measure(acts)
        container = start_peer()
        try:
            acts["docker exec /bin/true"] = (peer(container), max(ROUNDS, count // PEER_SHARE))
            return measure(acts)
        finally:
            subprocess.run(["docker", "kill", container], check=True, capture_output=True)


def show(rows: list[Row]) -> None:
    print(f"{'':34}{'n':>6}{'median':>12}{'p90':>12}{'x docker exec':>16}")
    peers = [entry.median_ms for entry in rows if entry.what.startswith("docker exec")]
    for entry in rows:
        ratio = f"{peers[0] / entry.median_ms:.0f}" if peers else "-"
        times = f"{entry.median_ms:>9.3f} ms{entry.p90_ms:>9.3f} ms"
        print(f"{entry.what:34}{entry.count:>6}{times}{ratio:>16}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["docker", "process"], action="append")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    backends = options.backend or (["docker"] if engine_status().ready else []) + ["process"]
    rows = [entry for backend in backends for entry in run(backend, options.count)]
    if options.json:
        print(json.dumps([asdict(entry) for entry in rows]))
    else:
        show(rows)
    return 0 if all(e.median_ms <= TARGET_MS for e in rows if ": " in e.what) else 1


if __name__ == "__main__":
    sys.exit(main())
