"""`compare A B --by task`: two result files of any tool, paired by task, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from meta_agent.reports._format import percent, points
from meta_agent.reports.sections import Section, Table, Words, present
from meta_agent.reports.terminal.paint import painted


def table(document: Mapping[str, Any]) -> RenderableType:
    """Returns the document of `compare A B --by task` as a table and sentences for a terminal."""
    rows = [
        (
            Path(file["path"]).name,
            str(file["tasks"]),
            str(file["attempts"]),
            str(file["lost"]),
            "–" if file["score"] is None else percent(file["score"]),
        )
        for file in document["files"]
    ]
    gain = document["difference"]
    interval = f"{points(gain['value'])} [{points(gain['low'])}, {points(gain['high'])}]"
    lines = [
        f"the second against the first: {interval} points on {document['tasks']} common tasks, "
        f"better at {document['better_tasks']}, worse at {document['worse_tasks']}",
        f"the smallest difference that these pairs show with 80 % power: "
        f"{100 * document['smallest_shown']:.1f} points",
        f"{document['only_in_one']} tasks are in one file only; attempts without a score are left "
        "out",
    ]
    heading = ("file", "tasks", "attempts", "lost", "mean score")
    files = Section([Table(heading, rows, numbers=range(1, 5), whole=(0,))])
    return painted(present(files, Section([Words(line) for line in lines])))
