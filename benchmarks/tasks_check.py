"""How fast `meta-agent tasks check` is: tasks a minute, by how many sandboxes at once.

    python benchmarks/tasks_check.py tasks/toolz.jsonl --first 4 --jobs 1 2

Each grading is a fresh container, the package's tests, and its end. Reports wall clock with the
load of the machine beside it, and each width against the first; refuses to report a check whose
answers depend on the width.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from meta_agent.domains import DomainOptions
from meta_agent.domains.check import CheckReport, check_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", type=int, help="tasks of the file to take [default: all]")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sandbox", default="docker", choices=["docker", "process"])
    arguments = parser.parse_args()
    with beginning(arguments.file, arguments.first) as file:
        rows = [measured(file, arguments.sandbox, jobs) for jobs in arguments.jobs]
    if len({row.pop("answers") for row in rows}) != 1:
        raise SystemExit("the answers differ between widths: nothing to report")
    for row in rows:
        row["times_the_first"] = round(
            float(str(rows[0]["seconds"])) / float(str(row["seconds"])), 2
        )
    print(
        json.dumps({"file": arguments.file.name, "cores": os.cpu_count(), "rows": rows}, indent=2)
    )


@contextmanager
def beginning(file: Path, count: int | None) -> Iterator[Path]:
    """The first tasks of a file as a file beside it, where its archives are found."""
    if count is None:
        yield file
        return
    part = file.with_name(f"{file.stem}.first{count}.jsonl")
    with file.open(encoding="utf-8") as lines:
        part.write_text("".join(islice(lines, count)), encoding="utf-8")
    try:
        yield part
    finally:
        part.unlink()


def measured(file: Path, sandbox: str, jobs: int) -> dict[str, object]:
    """One check of the whole file."""
    started = time.perf_counter()
    asked = DomainOptions("swe", file, sandbox=sandbox, run="tasks-check")
    report = check_tasks(asked, jobs=jobs, progress=lambda line: print(line, file=sys.stderr))
    seconds = time.perf_counter() - started
    gradings = sum(len(task.trials) for task in report.tasks)
    return {
        "jobs": jobs,
        "tasks": len(report.tasks),
        "unfit": sum(not task.ok for task in report.tasks),
        "gradings": gradings,
        "seconds": round(seconds, 1),
        "sec_per_task": round(seconds / len(report.tasks), 1),
        "tasks_per_min": round(60 * len(report.tasks) / seconds, 2),
        "gradings_per_sec": round(gradings / seconds, 2),
        "load_1min": round(os.getloadavg()[0], 1),
        "answers": _answers(report),
    }


def _answers(report: CheckReport) -> str:
    return json.dumps(report.manifest(), sort_keys=True)


if __name__ == "__main__":
    main()
