"""Labels of tasks, which define the groups in which an average gain could hide harm.

Labels come from what the agent sees (`Task.view`) and, for tasks of a file, from the row's own
columns. They never come from answers or outcomes, so slices are fixed before anything is measured.

Not covered: labels that only a grader could know, and groups that somebody chooses afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from meta_agent.core.capabilities import Capabilities
from meta_agent.core.protocols import JSON, Domain, Split, Task

NAMES: Final = ("repo", "subject", "level", "difficulty", "kind", "type")
"""The columns of common data sets that classify their tasks."""
GROUPS: Final = ("repo", "repository", "file", "template")
"""The columns that name a task's origin. Tasks of one origin are won and lost together."""
_MAX_CHARS: Final = 60
_NANO_ISSUES: Final = {
    **dict.fromkeys("01234", "position"),
    **dict.fromkeys("now", "kind"),
    **dict.fromkeys("lh", "symptom"),
}


def slices(task: Task, columns: Mapping[str, JSON] | None = None) -> dict[str, str]:
    """Returns a task's labels, such as its level, by name; `columns` come from the task's row."""
    if reader := _BUILT_IN.get(task.key.partition("/")[0]):
        return reader(task.view)
    columns_and_view = {**(columns or {}), **task.view}
    return {name: label for name in NAMES if (label := _label(columns_and_view.get(name)))}


def listed(domain: Domain, tasks: Iterable[Task]) -> list[dict[str, JSON]]:
    """Returns tasks as a curriculum receives them: key, view, and labels such as a difficulty."""
    rows = Capabilities.of(domain).rows
    return [
        {"key": t.key, "view": dict(t.view), "labels": slices(t, _columns(rows.get(t.key)))}
        for t in tasks
    ]


def slices_of(domain: Domain, split: Split) -> dict[str, dict[str, str]]:
    """Returns the labels (such as the repository) of every task of a split, by task key."""
    rows = Capabilities.of(domain).rows
    return {task.key: slices(task, _columns(rows.get(task.key))) for task in domain.tasks(split)}


def clusters_of(domain: Domain, split: Split) -> dict[str, str]:
    """Returns each task's group (such as its repository) by key; {} if fewer than two exist."""
    rows = Capabilities.of(domain).rows
    tasks = domain.tasks(split)
    for name in GROUPS:
        groups = {task.key: _group(task, rows.get(task.key), name) for task in tasks}
        labels = {key: label for key, label in groups.items() if label}
        if len(set(labels.values())) > 1:
            return labels
    return {}


def _group(task: Task, row: Any, name: str) -> str:
    columns_and_view = {**(getattr(row, "extra", None) or {}), **task.view}
    return _label(getattr(row, name, None)) or _label(columns_and_view.get(name))


def _columns(row: Any) -> Mapping[str, JSON]:
    """Returns a row's own fields, and the further columns of its file."""
    fields = {name: value for name in NAMES if (value := getattr(row, name, None)) is not None}
    return {**(getattr(row, "extra", None) or {}), **fields}


def _label(value: JSON) -> str:
    """Returns a short text or a whole number as a label, and "" for any other value."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = " ".join(str(value).split())
    return text if 0 < len(text) <= _MAX_CHARS else ""


def _nano_swe(view: Mapping[str, JSON]) -> dict[str, str]:
    """Returns how much of the fix an issue gives away (see `nano.swe_tasks`)."""
    issue = str(view["issue"])
    return {"issue": _NANO_ISSUES[issue[0]] if issue[1:] == "?" else "exact"}


def _nano_math(view: Mapping[str, JSON]) -> dict[str, str]:
    return {"steps": str(len(str(view["sum"])) // 2)}


_BUILT_IN: Final[Mapping[str, Callable[[Mapping[str, JSON]], dict[str, str]]]] = {
    "nano-swe": _nano_swe,
    "nano-math": _nano_math,
}
