"""Graded HumanEval solutions per second and core: our grader against the official way.

    python benchmarks/humaneval.py ../shared/data/HumanEval.jsonl.gz --backend process

Grades the 164 canonical solutions one after the other (one core's worth of work at a time) with a
fresh sandbox for each, with sandboxes that several candidates share, and with the official
executor's way of judging (`_humaneval.py`: one forked process, candidate and tests together in it).
Processor time is summed over all processes, those of a sandbox being read just before it ends, so
the figure holds on a busy machine too. (In Docker only this side's share is seen: use the clock.)
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import _humaneval

from meta_agent.core.protocols import Sandbox
from meta_agent.core.sandbox.inside.processes import descendants
from meta_agent.domains.code import CodeDomain, code_runner

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")


class Metered:
    """A sandbox whose processor time is added to a sum when it is closed."""

    def __init__(self, sandbox: Any, spent: list[float]) -> None:
        self._sandbox, self._spent = sandbox, spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def close(self) -> None:
        child = getattr(self._sandbox._stream, "_child", None)
        if child is not None:
            self._spent.append(sum(map(processor_sec, [child.pid, *descendants(child.pid)])))
        self._sandbox.close()


def processor_sec(pid: int) -> float:
    """What a process and those of its children that it has reaped have used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_SEC


def timed(name: str, count: int, work: Callable[[list[float]], int]) -> None:
    boxes: list[float] = []
    own = resource.getrusage(resource.RUSAGE_SELF), os.times()
    started = time.perf_counter()
    passed = work(boxes)
    wall = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime - own[0].ru_utime - own[0].ru_stime
    after = os.times()
    spent += sum(boxes) or sum(after[2:4]) - sum(own[1][2:4])
    rates = f"{count / wall:8.1f}/s by the clock, {count / spent:8.1f} per second of processor"
    print(f"{name:34} {passed:4}/{count} passed, {rates}", flush=True)


def ours(path: Path, backend: str, shared: int, limit: int) -> Callable[[list[float]], int]:
    def work(spent: list[float]) -> int:
        runner = code_runner(backend, candidates_per_sandbox=shared)
        plain = runner.factory
        runner.factory = lambda memory_mb: cast("Sandbox", Metered(plain(memory_mb), spent))
        domain = CodeDomain(path, runner)
        try:
            rows = list(domain.rows.values())[:limit]
            return sum(domain.runner.run(row, row.gold[0]).success for row in rows)
        finally:
            domain.close()

    return work


def official(path: Path, limit: int) -> Callable[[list[float]], int]:
    problems = _humaneval.problems(path)[:limit]
    return lambda _: sum(_humaneval.official(one, one["canonical_solution"]) for one in problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--backend", choices=("process", "docker"), default="process")
    parser.add_argument("--limit", type=int, default=164)
    options = parser.parse_args()
    for shared in (1, 20):
        name = f"{options.backend}, {shared} candidates a sandbox"
        timed(name, options.limit, ours(options.file, options.backend, shared, options.limit))
    timed("official executor's way", options.limit, official(options.file, options.limit))


if __name__ == "__main__":
    main()
