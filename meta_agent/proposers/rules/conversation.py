"""Rules on a scaffold that does not pass on what was said: to the policy, or for it.

Each answers one kind of disagreement of the conversation audit, beyond what a clean harness shows,
by taking away what stands between the words and where they go (`_shown`, `_asked`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from meta_agent.proposers.rules import _asked, _shown
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rule import Diagnosis, clamp, line, rule
from meta_agent.proposers.rules._source import PythonFile, renewed
from meta_agent.proposers.rules._surgery import Surgery
from meta_agent.proposers.rules.scaffold import offered_letters

NOISE: Final = 0.02
_CERTAIN: Final = 0.5  # a clean scaffold shows nothing of the kind
Operation = Callable[[Surgery], None]


@rule("keep-conversation", "scaffold")
def keep_conversation(case: Case) -> Diagnosis | None:
    """Calls do not show all that was said before: pass the whole conversation on."""
    names = ("conversation.forgotten", "conversation.reply_changed")
    forgotten = case.over(*names)
    if forgotten < NOISE:
        forgotten = case.over("behaviour.inexact_share", "signal.train.inexact_ratio.last")
    return _finding(
        case, forgotten, [_shown.keep_conversation], "conversation.forgotten",
        subject="show the policy the whole conversation",
        change="every call shows all messages, the policy's own replies as it wrote them",
        because=f"{forgotten:.1%} of what went before is not shown, or not as it was",
        shown=(*names, "behaviour.inexact_share"),
        risks=("a longer context",),
    )  # fmt: skip


@rule("show-results", "scaffold")
def show_results(case: Case) -> Diagnosis | None:
    """The policy does not see what tools answered: show it."""
    kinds = ("result_altered", "result_dropped", "result_stale", "result_cut")
    names = tuple(f"conversation.{kind}" for kind in kinds)
    lost = sum(case.over(name) for name in names)
    worst = max(names, key=case.over)
    return _finding(
        case, lost, [_shown.show_results], worst,
        subject="show what the tools answered",
        change="the next message is what the tool answered, as it is",
        because=f"{lost:.1%} of answers do not reach the policy as they were given",
        shown=names,
        risks=("a longer context",),
    )  # fmt: skip


@rule("act-as-written", "scaffold")
def act_as_written(case: Case) -> Diagnosis | None:
    """The environment is not asked what the policy wrote: pass it on as it is."""
    changed = case.over("conversation.argument_changed", "conversation.argument_moved")
    cut = case.short("conversation.argument_place", 0.0)
    cut = max(cut, case.short("conversation.argument_coverage", 0.0))
    unheard = case.over("conversation.reply_silent", "conversation.reply_lost")
    unheard = max(unheard, case.over("behaviour.tool_failure_rate"))
    made_up = case.over("conversation.call_unwritten")
    unheard = max(unheard, _unused(case))
    early = case.short("conversation.argument_place", 0.0)
    steps: list[Operation] = [_asked.act_as_written]
    steps += [_asked.hear_replies] if unheard > NOISE else []
    steps += [_asked.drop_unwritten] if made_up > NOISE else []
    steps += [_asked.read_the_other_end] if early > NOISE else []
    asked = max(changed, cut, made_up)
    names = (
        "conversation.argument_changed",
        "conversation.argument_moved",
        "conversation.argument_coverage",
        "conversation.argument_place",
        "conversation.reply_silent",
        "conversation.call_unwritten",
    )
    worst = "conversation.reply_silent" if unheard > asked else max(names, key=case.over)
    more = offered_letters(case) if unheard > NOISE else {}
    return _finding(
        case, max(asked, unheard), steps, worst,
        subject="ask the environment what the policy wrote",
        change="replies go to the tools as they were written, with nothing done to them",
        because=f"{max(changed, cut):.1%} of what was asked differs from what was written, "
        f"{unheard:.1%} more replies than usual ask for nothing, "
        f"{made_up:.1%} of calls nobody wrote",
        shown=names,
        risks=("malformed calls reach the environment",),
        first=more,
    )  # fmt: skip


@rule("go-on", "scaffold")
def go_on(case: Case) -> Diagnosis | None:
    """The scaffold ends attempts that the environment has not ended."""
    early = case.over("conversation.ended_early")
    return _finding(
        case, early, [_asked.go_on], "conversation.ended_early",
        subject="end an attempt only when the environment does",
        change="an attempt goes on until the environment says that it is over",
        because=f"{early:.1%} of attempts are ended by the scaffold, before any limit",
        shown=("conversation.ended_early", "behaviour.stop.returned"),
        risks=("longer rollouts cost more per step",),
    )  # fmt: skip


@rule("show-task", "scaffold")
def show_task(case: Case) -> Diagnosis | None:
    """The first message leaves out part of what the task gives."""
    unseen = case.over("conversation.task_unseen")
    return _finding(
        case, unseen, [_shown.show_task], "conversation.task_unseen",
        subject="show the whole task",
        change="the first message holds all that the task gives, as it is",
        because=f"{unseen:.1%} of what the task gives is never shown",
        shown=("conversation.task_unseen",),
        risks=("a longer first message",),
        first=_told_more(case) if unseen > NOISE else {},
    )  # fmt: skip


def _finding(
    case: Case,
    excess: float,
    steps: list[Operation],
    metric: str,
    *,
    subject: str,
    change: str,
    because: str,
    shown: tuple[str, ...],
    risks: tuple[str, ...],
    first: Mapping[str, str] | None = None,
) -> Diagnosis | None:
    """The finding of an excess that is more than noise, where there is anything to take away."""
    if excess <= NOISE:
        return None
    edits = _operated(case, steps, first or {})
    if not edits:
        return None
    low = metric.endswith(("_place", "_coverage"))
    quoted = getattr(case.evidence, "quoted", {}).get(metric.rpartition(".")[2], ())
    return Diagnosis(
        strength=clamp(_CERTAIN + excess),
        subject=subject,
        change=change,
        effect="the policy acts on what is there, and more is solved",
        because=because,
        metric=metric,
        expected_delta=excess if low else -excess,
        edits=edits,
        evidence=(*(line(case, name) for name in shown if case.find(name)), *quoted),
        risks=risks,
    )


def _operated(case: Case, steps: list[Operation], first: Mapping[str, str]) -> dict[str, str]:
    """The scaffold's files after some operations, one after the other."""
    edits = dict(first)
    for file in case.python("scaffold"):
        now = renewed(file, edits.get(file.path))
        for step in steps:
            surgery = Surgery(now)
            step(surgery)
            now = renewed(now, surgery.text)
        if now.text != file.text:
            edits[file.path] = now.text
    return edits


def _unused(case: Case) -> float:
    """The share of calls that a clean harness makes by a tool which is never called here."""
    seen = case.under("behaviour.tool_share.")
    prefix = "behaviour.tool_share."
    usual = {n.removeprefix(prefix): low for n, (low, _) in case.reference.ranges.items()
             if n.startswith(prefix)}  # fmt: skip
    return max((low for tool, low in usual.items() if not seen.get(tool)), default=0.0)


def _told_more(case: Case) -> dict[str, str]:
    """Switches and limits of the file that hold back what the task gives."""
    edits: dict[str, str] = {}
    for file in case.python("scaffold"):
        now = file
        for constant in file.constants():
            value: Any = constant.value
            if not constant.name.isupper() or not _guards_task(file, constant.name):
                continue
            if value is False:
                now = renewed(now, now.with_constant(constant.name, True))
            elif type(value) is int and value >= 0:
                now = renewed(now, now.with_constant(constant.name, max(2 * value, value + 3)))
        if now.text != file.text:
            edits[file.path] = now.text
    return edits


def _guards_task(file: PythonFile, name: str) -> bool:
    """Whether a constant stands in one expression with what the task gives."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.IfExp | ast.Subscript):
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            attributes = {
                inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)
            }
            if name in names and "view" in attributes:
                return True
    return False
