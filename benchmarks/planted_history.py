"""Mines what was planted: does `tasks mine` find again what `tasks synth` measured?

    python benchmarks/planted_history.py tasks/toolz.jsonl repo/       # makes the repository
    meta-agent tasks mine repo/ --out tasks/mined.jsonl
    python benchmarks/planted_history.py tasks/toolz.jsonl repo/ --compare tasks/mined.jsonl

Each task of a planted set becomes two commits: one that brings the fault and loses the deciding
tests, and one that mends both ("fix: ..."). The two commands share the grader and little else, so
agreement on FAIL_TO_PASS is a check of each by the other, on a real package's code and suite.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from patch_history import commit, git

from meta_agent.domains.formats import SweRow, read_swebench
from meta_agent.domains.swe import read_archive
from meta_agent.domains.swe._patch import apply, overlay, parse


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", type=Path)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--compare", type=Path)
    arguments = parser.parse_args()
    if arguments.compare:
        print(json.dumps(compared(arguments.tasks, arguments.compare), indent=2))
    else:
        print(f"{build(arguments.tasks, arguments.repository)} planted fixes")


def build(tasks: Path, folder: Path) -> int:
    """Returns how many fixes the history holds."""
    rows = read_swebench(tasks)
    source = rows[0].source
    assert source is not None and source.archive is not None
    sound = read_archive(tasks.parent / source.archive, source.sha256)
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {}, sound, "start")
    for row in rows:
        assert row.source is not None
        faulty = overlay(sound, apply(sound, parse(row.source.setup_patch)))
        commit(folder, sound, faulty, "refactor: tidy up")
        commit(folder, faulty, sound, f"fix: {row.instance_id}")
    return len(rows)


def compared(tasks: Path, mined: Path) -> dict[str, object]:
    """What was found again, by the fix's subject."""
    planted = {row.instance_id: row for row in read_swebench(tasks)}
    found = dict(_by_subject(mined))
    same = [
        key
        for key, row in found.items()
        if set(row.fail_to_pass) == set(planted[key].fail_to_pass)
        and set(row.pass_to_pass) == set(planted[key].pass_to_pass)
    ]
    return {
        "planted": len(planted),
        "found": len(found),
        "same deciding and other tests": len(same),
        "missed": sorted(planted.keys() - found.keys()),
        "other": sorted(found.keys() - set(same)),
    }


def _by_subject(mined: Path) -> Iterator[tuple[str, SweRow]]:
    for row in read_swebench(mined):
        yield str(row.extra["origin"]["subject"]).removeprefix("fix: "), row


if __name__ == "__main__":
    main()
