"""`meta-agent init --domain mine`: writes a grader and three tasks, to begin your own domain.

It writes two files into a folder and never replaces a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON

MINE: Final = "mine"
GRADER: Final = "grader.py"
TASKS: Final = "tasks.jsonl"
_GRADER: Final = '''\
"""Grades one task: `task` is its row of tasks.jsonl, `answer` the text that was handed in."""


def grade(task, answer):  # True or False; or a number, and then THRESHOLD = 0.8 says what is solved
    return answer.strip().lower() == task["gold"].lower()


def tools(task):  # optional: functions that the agent may call; answer.calls has what it called
    def word_count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    return [word_count]
'''
# By their hashes, these three rows fall into splits that `evolve` accepts.
_TASKS: Final = """\
{"prompt": "How many words has: the quick brown fox? Answer with a number.", "gold": "4"}
{"prompt": "What is the capital of France? Answer with one word.", "gold": "Paris"}
{"prompt": "How many words has: to be or not to be? Answer with a number.", "gold": "6"}
"""


def begin(folder: Path) -> dict[str, JSON]:
    """Writes both files. Returns their paths and the next commands.

    Raises ConfigError if one of them exists.
    """
    for name in (GRADER, TASKS):
        if (folder / name).exists():
            raise ConfigError(
                f"{folder / name} exists and is not replaced",
                hint=f"meta-agent tasks check {TASKS} --grade {GRADER}",
            )
    (folder / GRADER).write_text(_GRADER, encoding="utf-8")
    (folder / TASKS).write_text(_TASKS, encoding="utf-8")
    arguments = f"{TASKS} --grade {GRADER}"
    return {
        "grader": str(folder / GRADER),
        "tasks": str(folder / TASKS),
        "write": "replace both with your tasks and your grader; give at least a few dozen tasks",
        "next": [
            f"meta-agent tasks check {arguments}",
            f"meta-agent evolve --tasks {arguments} --policy provider/model "
            "--meta-model provider/model",
        ],
    }
