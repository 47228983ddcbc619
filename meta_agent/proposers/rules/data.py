"""Rules on which tasks train: all, mixed, and those first that are neither done nor hopeless."""

from __future__ import annotations

import ast

from meta_agent.core.parsing.syntax import parse_python
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.proposers.rules._source import PythonFile, rewritten

_MIXED = '''
def order(tasks, history):
    """All tasks, those least tried first, mixed by a hash so that no step sees one kind only."""

    def place(task):
        tries = history.get(task["key"], {}).get("tries", 0)
        return tries, hashlib.sha256(task["key"].encode()).hexdigest()

    return [task["key"] for task in sorted(tasks, key=place)]
'''
_INFORMATIVE = '''
def order(tasks, history):
    """Tasks that are solved sometimes come first; the untried count as such; mixed by a hash."""

    def place(task):
        seen = history.get(task["key"], {})
        tries, solved = seen.get("tries", 0), seen.get("solved", 0)
        decided = abs(solved / tries - 0.5) > 0.45 if tries >= 4 else False
        return decided, tries, hashlib.sha256(task["key"].encode()).hexdigest()

    return [task["key"] for task in sorted(tasks, key=place)]
'''
_MIXERS = ("hash", "random", "shuffle", "sample(")


@rule("broaden-curriculum", "data")
def broaden_curriculum(case: Case) -> Diagnosis | None:
    """Part of the tasks is left out, or they come in an order that narrows each step."""
    file = _order_file(case)
    if file is None:
        return None
    asked = case.find("signal.curriculum.covered") is not None
    narrow = _narrowness(case) if asked else _as_written(case, file)
    if narrow is None:
        return None
    strength, why = narrow
    return Diagnosis(
        strength=clamp(strength),
        subject="train on all tasks, mixed",
        change="the curriculum gives all tasks, those least tried first, in mixed order",
        effect="what is learned carries over to tasks that were not trained on",
        because=why,
        expected_delta=0.04 if strength > 0.2 else 0.01,
        edits=_replaced(file, _MIXED),
        evidence=(
            f"{file.path}: {why}",
            *(line(case, f"signal.curriculum.{n}") for n in ("covered", "skew", "solved")),
            line(case, "signal.task_repeats"),
            line(case, "clean_success"),
        ),
        risks=("easy tasks take steps from hard ones",),
    )


@rule("informative-tasks-first", "data")
def informative_tasks_first(case: Case) -> Diagnosis | None:
    """Many groups are all right or all wrong: prefer tasks whose outcome is open."""
    file = _order_file(case)
    dead = case.value("signal.train.dead_group_ratio.last", "signal.dead_group_ratio")
    if file is None or dead < 0.25 or "solved" in file.text:
        return None
    return Diagnosis(
        strength=clamp(0.45 * dead),
        subject="train first on tasks whose outcome is open",
        change="tasks that were always or never solved come last",
        effect="more groups of a step carry a gradient",
        because=f"{dead:.1%} of groups are dead",
        metric="signal.train.dead_group_ratio.last",
        expected_delta=-dead / 4,
        edits=_replaced(file, _INFORMATIVE),
        evidence=(
            line(case, "signal.dead_group_ratio"),
            f"{file.path} ignores what was solved",
        ),
        risks=("tasks that were hopeless once are given up",),
    )


def _narrowness(case: Case) -> tuple[float, str] | None:
    """How narrow the curriculum proved when it was asked, or while training."""
    left_out = case.short("signal.curriculum.covered", 0.9)
    skew, solved = case.over("signal.curriculum.skew"), case.over("signal.curriculum.solved")
    repeats = _needless_repeats(case)
    worst = max(left_out, skew, 2 * solved, repeats)
    if worst < 0.1:
        return None
    told = f"{left_out:.0%} of what could be trained on comes too late or never, what is chosen "
    return 0.4 + worst / 2, told + f"lies {skew:.2f} standard deviations beside all tasks"


def _as_written(case: Case, file: PythonFile) -> tuple[float, str] | None:
    """The same where it could not be asked: from the groups that trained, and the source."""
    repeats, mixed = _needless_repeats(case), any(word in file.text for word in _MIXERS)
    tasks = f"{case.situation.train_tasks} tasks" if case.situation.train_tasks else "tasks"
    if repeats > 0.25:
        why = f"{repeats:.0%} of what is trained on repeats a task, of {tasks} that there are"
        return 0.55 + repeats / 4, why
    if _leaves_out(file):
        return 0.55, f"in the curriculum as written part of the {tasks} is left out"
    return None if mixed else (0.12, f"in the curriculum as written the {tasks} are not mixed")


def _order_file(case: Case) -> PythonFile | None:
    return next((f for f in case.python("data") if f.function("order") is not None), None)


def _needless_repeats(case: Case) -> float:
    """Share of groups that train on a task again although there are others; 0 where unknown."""
    repeats, groups = case.value("signal.task_repeats"), case.value("signal.groups")
    if not groups or not case.situation.train_tasks:
        return 0.0
    return max(0.0, repeats - max(0.0, 1 - case.situation.train_tasks / groups))


def _leaves_out(file: PythonFile) -> bool:
    """Whether `order` slices or filters the tasks."""
    node = file.function("order")
    inside = list(ast.walk(node)) if node else []
    slices = any(isinstance(n, ast.Slice) and (n.upper or n.lower) for n in inside)
    filters = any(isinstance(n, ast.comprehension) and n.ifs for n in inside)
    skips = any(isinstance(n, ast.Continue | ast.Break) for n in inside)
    return slices or filters or skips


def _replaced(file: PythonFile, source: str) -> dict[str, str]:
    return {file.path: _with_import(rewritten(file, "order", source).text, "hashlib")}


def _with_import(text: str, module: str) -> str:
    tree = parse_python(text)
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    if any(isinstance(n, ast.Import) and any(a.name == module for a in n.names) for n in imports):
        return text
    lines, documented = text.splitlines(keepends=True), ast.get_docstring(tree) is not None
    at = (tree.body[0].end_lineno or 0) if documented else 0
    after_future = [n.end_lineno or 0 for n in imports if getattr(n, "module", "") == "__future__"]
    at = max([at, *after_future])
    lead = "\n" if at else ""
    return "".join([*lines[:at], f"{lead}import {module}\n", *([] if at else ["\n"]), *lines[at:]])
