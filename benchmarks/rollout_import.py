"""How fast rollouts of other tools are read, and with how much memory.

    python benchmarks/rollout_import.py --rows 20000

Writes a file of synthetic rows per format (dialogues of about 8 KB with tool calls), reads it into
a store and as `report --rollouts` does, each in a process of its own, and prints rollouts per
second and the peak of resident memory. A second size shows that memory does not grow with the file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from meta_agent.core.protocols import Rollout
from meta_agent.core.rollouts import RolloutStore, to_line
from meta_agent.readers.foreign import read_foreign
from meta_agent.readers.formats import read_rollouts

TEXT = "The function reads the file and returns a list of its lines, one by one. " * 6


def rollouts(count: int) -> Iterator[Rollout]:
    for n in range(count):
        call = {"name": "bash", "arguments": json.dumps({"command": f"sed -n {n}p a.py"})}
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"task {n // 8}: {TEXT}"}]
        for turn in range(6):
            calls = [{"id": f"c{turn}", "type": "function", "function": call}]
            messages.append({"role": "assistant", "content": TEXT, "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": TEXT})
        messages.append({"role": "assistant", "content": f"answer {n}"})
        yield Rollout(
            run="b", version="v", domain="swe", split="search", task_key=f"t{n // 8}",
            task_hash="h", group_id=f"t{n // 8}", sample_idx=n % 8, seed=0, harness_commit="c",
            policy="p", evaluator_hash="e", messages=messages, rewards={"reward": float(n % 3)},
            outcome=n % 3 == 2, turns=7,
        )  # fmt: skip


def dialogue(rollout: Rollout) -> bytes:
    rewards, task = rollout.rewards, rollout.task_key
    return json.dumps({"messages": rollout.messages, "task_id": task, "rewards": rewards}).encode()


WRITERS: dict[str, Callable[[Rollout], bytes]] = {
    "openai-messages": dialogue,
    "meta-agent": to_line,
}


def measure(what: str, path: Path) -> dict[str, float]:
    started = time.perf_counter()
    reading = read_rollouts(path)
    if what == "report":
        count = read_foreign(reading).n
    else:
        with tempfile.TemporaryDirectory() as folder:
            RolloutStore(Path(folder)).write("imported", reading)
        count = reading.tally.rollouts
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rollouts": count, "seconds": seconds, "peak_mb": peak}


def in_a_process(what: str, path: Path) -> dict[str, float]:
    argv = [sys.executable, __file__, "--measure", what, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FILE"))
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]))))
        return
    print(f"{'format':18} {'rows':>7} {'MB':>7} {'what':7} {'rollouts/s':>10} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, line_of in WRITERS.items():
            for rows in (options.rows // 4, options.rows):
                path = Path(folder) / f"{name}.jsonl"
                path.write_bytes(b"".join(line_of(row).rstrip() + b"\n" for row in rollouts(rows)))
                size = path.stat().st_size / 1e6
                for what in ("import", "report"):
                    found = in_a_process(what, path)
                    speed = found["rollouts"] / found["seconds"]
                    row = f"{name:18} {rows:7} {size:7.1f} {what:7} {speed:10.0f}"
                    print(f"{row} {found['peak_mb']:8.0f}", flush=True)


if __name__ == "__main__":
    main()
