"""What bombs from inside a sandbox cost the host, and whether its other sandboxes notice.

    python benchmarks/bombs.py [--backend docker|process] [--json]

Each bomb is written straight to the worker's pipe by guest code. Meanwhile another thread asks a
second sandbox to echo, over and over. Targets: at most 256 MB above idle, every echo within 100 ms.
The first three rows send nothing to speak of, so their longest echoes say what the machine itself,
and a neighbour that only computes, do to such a thread.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from meta_agent.core.errors import MetaAgentError
from meta_agent.core.protocols import Answer, Call, SandboxLimits
from meta_agent.sandboxes import WorkerSandbox, open_sandbox

TARGET_MB, TARGET_MS = 256.0, 100.0
LIMITS = SandboxLimits(memory_mb=1024, deadline_sec=300.0)
PATIENCE_SEC = 3.0
GUEST = """
import json, os, time

def sent(channel, body):
    pipe = channel._pipe
    pipe._write(memoryview(len(body).to_bytes(4, "little") + body))

def bomb(args, channel):
    head = b'{"id":%d,"ok":' % channel._id
    size, unit = args["size"], args["unit"].encode()
    if args["kind"] == "echo":
        return "x" * size
    while args["kind"] == "spin":
        pass
    if args["kind"] == "list":
        sent(channel, head + b"[" + unit * (size // len(unit)) + b"0]}")
    elif args["kind"] == "text":
        sent(channel, head + b'"' + unit * (size // len(unit)) + b'"}')
    elif args["kind"] == "digits":
        sent(channel, head + b"9" * size + b"}")
    elif args["kind"] == "flood":
        calls = b'{"id":%d,"calls":[%s]}' % (channel._id, b",".join([unit] * size))
        while True:
            sent(channel, calls)
    time.sleep(30)

def echo(args, channel):
    return args

OPERATIONS = {"bomb": bomb, "echo": echo}
"""
MB = 1 << 20
CALL = '{"cid":1,"kind":"model"}'
BOMBS = {
    "nothing (a reply of 1 MB)": ("echo", "", MB),
    "nothing, for as long as a flood": ("sleep", "", 0),
    "a loop that sends nothing": ("spin", "", 0),
    "60 MB of empty lists": ("list", "[],", 60 * MB),
    "60 MB of empty objects": ("list", "{},", 60 * MB),
    "60 MB of empty texts": ("list", '"",', 60 * MB),
    "60 MB of numbers": ("list", "1,", 60 * MB),
    "7 MB of empty lists": ("list", "[],", 7 * MB),
    "7 MB of objects": ("list", '{"a":0},', 7 * MB),
    "7 MB of texts": ("list", '"",', 7 * MB),
    "7 MB of opening brackets": ("list", "[", 7 * MB),
    "7 MB in one text": ("text", "x", 7 * MB),
    "7 MB of escapes": ("text", "\\n", 7 * MB),
    "7 MB of long escapes": ("text", "\\u4e00", 7 * MB),
    "7 MB of wide characters": ("text", "\U0001f600", 7 * MB),
    "7 MB of commas in a text": ("text", "a,b[", 7 * MB),
    "7 MB of digits": ("digits", "", 7 * MB),
    "a flood of calls": ("flood", CALL, 10),
    "a flood of large frames of calls": ("flood", CALL, 10_000),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One bomb. `longest_ms` is the worst echo of the other sandbox while it went off."""

    bomb: str
    ended: str
    seconds: float
    above_idle_mb: float
    echoes: int
    median_ms: float
    longest_ms: float


class Neighbour:
    """A sandbox that is asked to echo as long as the block lasts."""

    def __init__(self, sandbox: WorkerSandbox) -> None:
        self._sandbox = sandbox
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.spent_ms: list[float] = []

    def _ask(self) -> None:
        while not self._stop.is_set():
            started = time.perf_counter()
            self._sandbox.request("echo", {"n": 1}, timeout_sec=60)
            self.spent_ms.append((time.perf_counter() - started) * 1e3)
            time.sleep(0.001)

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def status_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def served(calls: list[Call], answer: object) -> None:
    """Takes calls and never answers: who floods does not wait for answers either."""
    answers: list[Answer] = [{"cid": call["cid"], "ok": None} for call in calls]
    del answers


def set_off(backend: str, bomb: str, neighbour: WorkerSandbox) -> Row:
    kind, unit, size = BOMBS[bomb]
    with open_sandbox(backend, run="bombs", limits=LIMITS) as sandbox:
        sandbox.install("guest", GUEST)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        idle, started, ended = status_mb("VmRSS"), time.perf_counter(), "a value"
        with Neighbour(neighbour) as other:
            time.sleep(0.1)
            try:
                arguments = {"kind": kind, "unit": unit, "size": size}
                sandbox.request("bomb", arguments, timeout_sec=PATIENCE_SEC, serve=served)
            except MetaAgentError as error:
                ended = getattr(error, "kind", type(error).__name__)
            seconds = time.perf_counter() - started
            time.sleep(0.05)
        above = max(0.0, status_mb("VmHWM") - idle)
    spent = other.spent_ms
    return Row(bomb, ended, seconds, above, len(spent), median(spent), max(spent))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", choices=("docker", "process"), default="process")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    with open_sandbox(options.backend, run="bombs", limits=LIMITS) as neighbour:
        neighbour.install("guest", GUEST)
        for bomb in BOMBS:
            rows.append(set_off(options.backend, bomb, neighbour))
            if not options.json:
                row = rows[-1]
                print(
                    f"{row.bomb:34} {row.ended:10} {row.seconds:6.2f} s {row.above_idle_mb:6.0f} MB"
                    f" {row.echoes:5} echoes, median {row.median_ms:5.1f} ms,"
                    f" longest {row.longest_ms:6.1f} ms",
                    flush=True,
                )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    held = all(r.above_idle_mb <= TARGET_MB and r.longest_ms <= TARGET_MS for r in rows)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
