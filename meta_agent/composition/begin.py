"""`meta-agent init --domain mine`: writes an example grader and three tasks; replaces no file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from meta_agent.core.errors import ConfigError
from meta_agent.core.protocols import JSON

MINE: Final = "mine"
GRADER: Final = "grader.py"
TASKS: Final = "tasks.jsonl"
_GRADER: Final = '''\
"""Grades one task: `task` is its row of tasks.jsonl, `answer` the text that was submitted."""


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

_WORDS: Final = {
    (GRADER, TASKS): (
        "replace both with your tasks and your grader; give at least a few dozen tasks"
    ),
    (GRADER,): f"your {TASKS} stays as it is; let {GRADER} grade its rows",
    (TASKS,): f"your {GRADER} stays as it is; replace {TASKS} with a few dozen tasks",
}
"""Maps the files that were written to a phrase on what the user does next."""


def begin(folder: Path) -> dict[str, JSON]:
    """Writes an example grader and an example task file, unless the folder has them.

    Returns their paths and the next commands. Raises ConfigError if both exist.
    """
    texts = {GRADER: _GRADER, TASKS: _TASKS}
    missing = [name for name in texts if not (folder / name).exists()]
    arguments = f"{TASKS} --grade {GRADER}"
    if not missing:
        raise ConfigError(
            f"{folder / GRADER} and {TASKS} exist already and are not overwritten",
            hint=f"check them: meta-agent tasks check {arguments}",
        )
    for name in missing:
        (folder / name).write_text(texts[name], encoding="utf-8")
    return {
        "grader": str(folder / GRADER),
        "tasks": str(folder / TASKS),
        "written": missing,
        "write": _WORDS[tuple(missing)],
        "next": [
            f"meta-agent tasks check {arguments}",
            f"meta-agent evolve --tasks {arguments} --policy provider/model "
            "--meta-model provider/model",
        ],
    }
