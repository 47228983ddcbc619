"""How long the live page takes to open, and what it holds, with many stored attempts.

    python benchmarks/page.py [--attempts 100000] [--chars 1000]

A workspace with that many attempts is made, `meta-agent view` is started as a user starts it, and a
real browser opens it: until the page can be read, until list and map are there from what was read
so far, until all is read. Memory is the server's peak and the page's heap.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from meta_agent.core.protocols import Rollout
from tests.view.chromium import browser
from tests.view.live.sample import measured, mixed, workspace

SHARD = 500
LISTED = "document.querySelector('tr[data-at]') && document.querySelector('svg.heat')"
READ = f"{LISTED} && !document.querySelector('[data-again]')"


def attempts(seed: int, chars: int) -> Iterator[Rollout]:
    for one in mixed(SHARD, seed):
        one.messages = [*one.messages, {"role": "user", "content": "x " * (chars // 2)}]
        yield one


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--attempts", type=int, default=100_000)
    asked.add_argument("--chars", type=int, default=1000)
    told = asked.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        place = workspace(Path(root) / "w")
        shards = range(told.attempts // SHARD)
        measured(place, **{f"e{n:04}": attempts(n, told.chars) for n in shards})
        print(json.dumps(visit(place.root, Path(root)), indent=1))


def visit(root: Path, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "meta_agent", "view", "--workspace", str(root)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        url = server.stdout.readline().strip()
        with browser(folder) as tab:
            began = time.monotonic()
            tab.open(url)
            found = {"readable_sec": time.monotonic() - began}
            tab.until(LISTED)
            found["listed_sec"] = time.monotonic() - began
            tab.until(READ)
            found["all_read_sec"] = time.monotonic() - began
            again = time.monotonic()
            tab.open(url)
            tab.until(LISTED)
            found["opened_again_sec"] = time.monotonic() - again
            found["page_heap_mb"] = tab.heap_mb()
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return {**found, "server_peak_mb": int(peak.split()[1]) / 1024}
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
