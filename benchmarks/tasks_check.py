"""How fast `meta-agent tasks check` is: gradings a second, by how many sandboxes at once.

    python benchmarks/tasks_check.py tasks/toolz.jsonl --jobs 1 2

Each grading is a fresh container, the package's tests, and its end. Reports wall clock with the
load of the machine beside it, and refuses to report a check whose answers depend on the width.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from meta_agent.domains.check import CheckReport, check_file


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sandbox", default="docker", choices=["docker", "process"])
    arguments = parser.parse_args()
    rows = [measured(arguments.file, arguments.sandbox, jobs) for jobs in arguments.jobs]
    if len({row.pop("answers") for row in rows}) != 1:
        raise SystemExit("the answers differ between widths: nothing to report")
    print(
        json.dumps({"file": arguments.file.name, "cores": os.cpu_count(), "rows": rows}, indent=2)
    )


def measured(file: Path, sandbox: str, jobs: int) -> dict[str, object]:
    """One check of the whole file."""
    started = time.perf_counter()
    report = check_file(
        file, sandbox=sandbox, jobs=jobs, progress=lambda line: print(line, file=sys.stderr)
    )
    seconds = time.perf_counter() - started
    gradings = sum(len(task.trials) for task in report.tasks)
    return {
        "jobs": jobs,
        "tasks": len(report.tasks),
        "unfit": sum(not task.ok for task in report.tasks),
        "gradings": gradings,
        "seconds": round(seconds, 1),
        "gradings_per_sec": round(gradings / seconds, 2),
        "load_1min": round(os.getloadavg()[0], 1),
        "answers": _answers(report),
    }


def _answers(report: CheckReport) -> str:
    return json.dumps(report.manifest(), sort_keys=True)


if __name__ == "__main__":
    main()
