"""Rows as other tools write them, from `golden/`, and rollouts of ours to write in their formats.

Each file of `golden/` holds a format. A line of it is a case: files as a tool leaves them, and the
rollouts and counts that reading them gives.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from meta_agent.core.protocols import Rollout, TokenRecord
from meta_agent.readers.foreign import ForeignReport, read_foreign
from meta_agent.readers.formats import absent, attempt_messages, read_rollouts
from meta_agent.reports.foreign_sections import WARNINGS, foreign_page
from meta_agent.reports.terminal.paint import painted_page

GOLDEN = Path(__file__).with_name("golden")
# Nothing that a file of rollouts says: hashes and places.
_OURS = {"run", "split", "task_hash", "evaluator_hash", "harness_commit", "seed", "outcome_detail"}
_DEFAULTS = {
    f.name: f.default if f.default_factory is MISSING else f.default_factory()
    for f in fields(Rollout)
}


def golden(name: str) -> list[dict[str, Any]]:
    """The cases of a format, the plainest first."""
    text = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def first(name: str) -> Any:
    """The first row, or document, of a format's first case."""
    content = next(iter(golden(name)[0]["files"].values()))
    return content[0] if isinstance(content, list) else content


def place(folder: Path, files: dict[str, Any]) -> Path:
    """Writes files into a folder: rows a line each, texts as they are, all else as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".jsonl"):
            write_jsonl(path, *content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return folder


def write_jsonl(path: Path, *rows: Any) -> Path:
    text = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def read(folder: Path, *rows: Any) -> list[Rollout]:
    """The rollouts of rows in one file."""
    return list(read_rollouts(write_jsonl(folder / "rows.jsonl", *rows)))


def report(folder: Path, *rows: Any) -> ForeignReport:
    """The report on rows in one file."""
    return read_foreign(read_rollouts(write_jsonl(folder / "rows.jsonl", *rows)))


def outcome(folder: Path) -> dict[str, Any]:
    """What reading a folder gives, as the cases hold it: only what is not the default."""
    reading = read_rollouts(folder)
    rollouts = [_record(rollout) for rollout in reading]
    tally = reading.tally
    counts = {"skipped": tally.skipped_rows, "joined": tally.joined}
    counts["caveats"] = tally.caveats.total()
    found = {name: count for name, count in counts.items() if count}
    found |= {"left_out": dict(tally.left_out)} if tally.left_out else {}
    return {"format": tally.format, "rollouts": rollouts, **found}


def _record(rollout: Rollout) -> dict[str, Any]:
    record = {
        name: value
        for name, value in asdict(rollout).items()
        if name not in _OURS and value != _DEFAULTS[name]
    }
    given = len(rollout.messages) - len(attempt_messages(rollout))
    return {**record, "given_messages": given, "absent": sorted(absent(rollout))}


def ours(task: int = 0, number: int = 0, **changes: Any) -> Rollout:
    record: dict[str, Any] = {
        "run": "r", "version": "v", "domain": "swe", "split": "search", "task_key": f"s/{task}",
        "task_hash": "h", "group_id": f"g{task}", "sample_idx": number, "seed": 7,
        "harness_commit": "c", "policy": "p", "evaluator_hash": "e", "messages": DIALOGUE,
        "rewards": {"reward": 0.25 * number}, "advantage": 0.5, "outcome": bool(number % 2),
        "stop_reason": "length", "turns": 2, "cost": {"usd": 0.1, "tokens": 12.0},
        "verifier_inputs": {"patch": "diff"}, "flags": ["leak:log"] if number == 3 else [],
        "tokens": TokenRecord([1], [2, 3], [1, 1], [-0.5, -0.25]),
    }  # fmt: skip
    return Rollout(**{**record, **changes})


def shown(report: ForeignReport) -> str:
    """What a wide terminal shows of a report."""
    screen = StringIO()
    page = foreign_page(report, [], "--rollouts FILE")
    Console(file=screen, width=300).print(painted_page(page, unfold=[WARNINGS]))
    return screen.getvalue()


DIALOGUE: list[dict[str, Any]] = first("openai-messages")["messages"] if GOLDEN.is_dir() else []
