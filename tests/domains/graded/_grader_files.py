"""A folder with tasks and a grader in Python, opened as a domain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meta_agent.domains import DomainOptions, open_domain
from meta_agent.domains.graded import GradedDomain

EXACT = "def grade(task, answer):\n    return answer == task['gold']\n"
ROWS = [{"prompt": f"What is {n} and 1?", "gold": str(n + 1)} for n in range(40)]


def write(folder: Path, grader: str = EXACT, rows: Any = ROWS) -> DomainOptions:
    folder.mkdir(exist_ok=True)
    (folder / "g.py").write_text(grader)
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "t.jsonl").write_text(text)
    return DomainOptions("graded", folder / "t.jsonl", grade=folder / "g.py")


@contextmanager
def opened(asked: DomainOptions) -> Iterator[GradedDomain]:
    domain = open_domain(asked)
    assert isinstance(domain, GradedDomain)
    try:
        yield domain
    finally:
        domain.close()
