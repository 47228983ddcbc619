"""Renders a check's report as a table for people."""

from __future__ import annotations

from meta_agent.domains.checking._report import CheckReport, TaskCheck, Totals, Trial

_SHOWN_ROWS = 200
_SHOWN_PAIRS = 5


def render(report: CheckReport) -> str:
    """The table, what is wrong, and the sums."""
    wide = len(report.tasks) > _SHOWN_ROWS
    rows = [task for task in report.tasks if not wide or not task.ok]
    lines = _table(report, rows)
    lines += [f"{task.key}: {reason}" for task in report.tasks for reason in task.reasons]
    lines += [f"{name}: {_sum(total)}" for name, total in report.totals.items()]
    lines += [f"note: {note}" for note in report.notes]
    lines += _near(report)
    bad = sum(not task.ok for task in report.tasks)
    fit = f"{bad} unfit" if bad else "each fit" if report.lacks else "all fit"
    lines.append(f"{len(report.tasks)} tasks, {fit}")
    refused = [f"evolve refuses the set: it has {report.lacks}"] if report.lacks else []
    return "\n".join([*lines, *refused])


def _table(report: CheckReport, rows: list[TaskCheck]) -> list[str]:
    if not rows:
        return []
    width = max(len("task"), *(len(task.key) for task in rows))
    sizes = max(len("size"), *(len(task.size) for task in rows))
    head = ["task".ljust(width), "split  ", "size".ljust(sizes), *report.columns]
    return ["  ".join(head), *("  ".join(_cells(task, width, sizes, report)) for task in rows)]


def _cells(task: TaskCheck, width: int, sizes: int, report: CheckReport) -> list[str]:
    trials = {trial.name: trial for trial in task.trials}
    cells = [task.key.ljust(width), task.split.ljust(7), task.size.ljust(sizes)]
    return cells + [_cell(trials.get(name)).ljust(len(name)) for name in report.columns]


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return "-"
    if trial.resolved is None:
        return "infra"
    word = "yes" if trial.resolved else "no"
    return word if trial.ok else f"{word}!"


def _sum(total: Totals) -> str:
    text = f"{total.resolved} resolved ({total.clean} clean), {total.unresolved} not"
    return text + (f", {total.infrastructure} not measured" if total.infrastructure else "")


def _near(report: CheckReport) -> list[str]:
    pairs = [f"{first} and {second} ({share:.0%})" for first, second, share in report.near]
    if not pairs:
        return []
    rest = f", and {len(pairs) - _SHOWN_PAIRS} more" if len(pairs) > _SHOWN_PAIRS else ""
    listed = "; ".join(pairs[:_SHOWN_PAIRS])
    return [f"note: texts of different splits that are nearly the same: {listed}{rest}"]
