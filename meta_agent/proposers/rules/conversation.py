"""Rules for a scaffold that does not pass on words unchanged to the policy, or from it.

Each rule answers one kind of disagreement that the conversation audit finds beyond what a clean
harness shows. It removes whatever stands between the words and where they go (`_wiring`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from meta_agent.proposers.rules import _wiring
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, Rule, clamp, rule
from meta_agent.proposers.rules._source import PythonFile, Surgery

_NOISE: Final = 0.02
_CERTAIN: Final = 0.5  # a clean scaffold shows nothing of the kind


def _passing(
    name: str, operation: Callable[[Surgery], None], metrics: str, *, change: str, because: str
) -> Rule:
    """Makes a rule that answers the largest excess of these metrics by an edit of the scaffold.

    Metrics of the conversation come first; others count if none of those is in excess.
    """
    names = metrics.split()
    audit = [name for name in names if name.startswith("conversation.")]

    def diagnose(case: Case) -> Diagnosis | None:
        metric = max(audit, key=lambda name: _excess(case, name))
        if _excess(case, metric) <= _NOISE:
            metric = max(names, key=lambda name: _excess(case, name))
        excess = _excess(case, metric)
        edits = _edits(case, operation) if excess > _NOISE else {}
        if not edits:
            return None
        quoted = case.evidence.quoted.get(metric.rpartition(".")[2], ())
        return Diagnosis(
            strength=clamp(_CERTAIN + excess),
            change=change,
            effect="the policy acts on what is there, and more is solved",
            because=f"{excess:.1%} more than in a clean harness {because}",
            metric=metric,
            delta=excess if metric.endswith(_FALLING) else -excess,
            edits=edits,
            evidence=(*case.lines(*(m for m in names if case.find(m))), *quoted),
            risk="a longer context, and malformed calls that reach the environment",
        )

    return rule(name, "scaffold")(diagnose)


_FALLING: Final = ("_place", "_coverage")  # of these metrics, less is worse


def _excess(case: Case, metric: str) -> float:
    return case.short(metric, 0.0) if metric.endswith(_FALLING) else case.over(metric)


def _edits(case: Case, operation: Callable[[Surgery], None]) -> dict[str, str]:
    edits: dict[str, str] = {}
    for file in case.python("scaffold"):
        surgery = Surgery(_opened(file) if operation is _wiring.show_task else file)
        operation(surgery)
        if surgery.text != file.text:
            edits[file.path] = surgery.text
    return edits


def _opened(file: PythonFile) -> PythonFile:
    """Returns the file with switches on and limits raised that hide parts of the task."""
    opened = file
    for constant in file.constants():
        value: Any = constant.value
        if constant.name.isupper() and _guards_task(file, constant.name):
            if value is False:
                opened = opened.with_constant(constant.name, True)
            elif type(value) is int and value >= 0:
                opened = opened.with_constant(constant.name, max(2 * value, value + 3))
    return opened


def _guards_task(file: PythonFile, name: str) -> bool:
    """Returns True if a constant stands in one expression with data of the task."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.IfExp | ast.Subscript):
            inner = list(ast.walk(node))
            names = {n.id for n in inner if isinstance(n, ast.Name)}
            if name in names and any(getattr(n, "attr", "") == "view" for n in inner):
                return True
    return False


keep_conversation = _passing(
    "keep-conversation",
    _wiring.keep_conversation,
    "conversation.forgotten conversation.reply_changed behaviour.inexact_share"
    " signal.train.inexact_ratio.last",
    change="every call shows all messages, the policy's own replies as it wrote them",
    because="of what went before is not shown, or not as it was",
)
show_results = _passing(
    "show-results",
    _wiring.show_results,
    "conversation.result_altered conversation.result_dropped conversation.result_stale"
    " conversation.result_cut",
    change="the next message is what the tool answered, as it is",
    because="of the answers do not reach the policy as they were given",
)
act_as_written = _passing(
    "act-as-written",
    _wiring.act_as_written,
    "conversation.argument_changed conversation.argument_moved conversation.argument_place"
    " conversation.argument_coverage conversation.reply_silent conversation.reply_lost"
    " behaviour.tool_failure_rate",
    change="replies go to the tools as they were written, with nothing done to them",
    because="of what was written is not what was asked, or asks for nothing",
)
go_on = _passing(
    "go-on",
    _wiring.go_on,
    "conversation.ended_early",
    change="an attempt continues until the environment says that it is over",
    because="of attempts are ended by the scaffold, before any limit",
)
show_task = _passing(
    "show-task",
    _wiring.show_task,
    "conversation.task_unseen",
    change="the first message holds all that the task gives, as it is",
    because="of what the task gives is never shown",
)
