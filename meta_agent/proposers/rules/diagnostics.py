"""Rules that add a diagnostic, a metric that foretells which attempts are clean, and use it.

A template (`_watch_steps.py`, `_watch_reply.py`) is a diagnostic that counts the attempts with one
mark. The mark is chosen by the attempts that authors may read: the one whose share differs most
between clean and other attempts at the same task. Attempts at other tasks decide on the admission.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Final, NamedTuple

from meta_agent.core.protocols import JSON, Rollout
from meta_agent.core.rollouts.record import to_json
from meta_agent.core.task_splits import is_shown
from meta_agent.proposers.rules import _watch_reply, _watch_steps
from meta_agent.proposers.rules._case import Case
from meta_agent.proposers.rules._rewards import RewardFile, reward_rule
from meta_agent.proposers.rules._rule import Diagnosis, clamp, rule
from meta_agent.proposers.rules._source import PythonFile, literal

_APART: Final = 0.1
"""The difference of shares between clean and other attempts that is worth a diagnostic."""
_RARE: Final = 0.05
"""A mark in fewer attempts than this share, or in all but so few, tells little."""
_GROUPS: Final = 8

Mark = tuple[str, str]


class Template(NamedTuple):
    """A family of diagnostics: the module of one of them, and the marks that it may count."""

    module: ModuleType
    marks: Callable[[dict[str, JSON]], set[Mark]]
    words: str
    """What an attempt with the mark does."""


STEPS: Final = Template(_watch_steps, _watch_steps.step_marks, "one call follows another")
REPLY: Final = Template(_watch_reply, _watch_reply.reply_marks, "the last reply is so")


@rule("watch-steps", "diagnostics")
def watch_steps(case: Case) -> Diagnosis | None:
    """Suggests a diagnostic of two successive tool calls that clean attempts make or avoid."""
    return _watch(case, STEPS)


@rule("watch-reply", "diagnostics")
def watch_reply(case: Case) -> Diagnosis | None:
    """Suggests a diagnostic of a word in the last reply that clean attempts use or avoid."""
    return _watch(case, REPLY)


def _watch(case: Case, template: Template) -> Diagnosis | None:
    folder, groups = _folder(case), _groups(case)
    if folder is None or len(groups) < _GROUPS:
        return None
    present = "\n".join(text for _, text in case.texts("diagnostics"))
    telling = [row for row in _telling(groups, template.marks) if literal(row[0]) not in present]
    most = max(telling, key=lambda row: (round(abs(row[1]), 6), row[1]), default=(("", ""), 0.0))
    mark, apart = most
    if abs(apart) < _APART:
        return None
    digest = hashlib.sha256(repr(mark).encode()).hexdigest()[:6]
    name, about = f"{template.module.NAME}_{digest}", f"{template.words}: {', '.join(mark)}"
    return Diagnosis(
        strength=clamp(0.1 + abs(apart)),
        change=f"the diagnostic {name} counts attempts where {about}",
        effect="it foretells which attempts are clean",
        because=f"{apart:+.0%} more of the clean attempts than of others at the same task do so",
        metric=f"measured.{name}.share",
        direction="up" if apart > 0 else "down",
        delta=apart / 10,
        edits={f"{folder}{name}.py": _source(template, name, mark, apart)},
        evidence=(f"{len(groups)} groups of attempts hold clean and other ones",),
        risk="clean attempts may show it without owing their success to it",
    )


def _source(template: Template, name: str, mark: Mark, apart: float) -> str:
    """Returns the template's own source with another name, mark and bad side."""
    file = PythonFile(f"{name}.py", inspect.getsource(template.module))
    side = "below" if apart > 0 else "above"
    limits = {"share": {"warn": 0.5, "direction": side}}
    for constant, value in (("NAME", name), ("MARK", mark), ("THRESHOLDS", limits)):
        file = file.with_constant(constant, value)
    return file.text


def _groups(case: Case) -> list[list[Rollout]]:
    """Returns groups of readable attempts at one task that hold clean and other attempts."""
    groups = defaultdict[str, list[Rollout]](list)
    for attempt in case.situation.attempts():
        if attempt.outcome is not None and is_shown(attempt.task_key):
            groups[attempt.group_id].append(attempt)
    return [group for group in groups.values() if len({a.clean for a in group}) == 2]


def _telling(
    groups: Sequence[list[Rollout]], marks_of: Callable[[dict[str, JSON]], set[Mark]]
) -> Iterator[tuple[Mark, float]]:
    """Yields marks, and by how much the share of clean attempts with it exceeds that of others."""
    shares, bearers = defaultdict[Mark, float](float), Counter[Mark]()
    for group in groups:
        clean = sum(attempt.clean for attempt in group)
        for attempt in group:
            weight = 1 / clean if attempt.clean else -1 / (len(group) - clean)
            for mark in marks_of(to_json(attempt)):
                shares[mark] += weight / len(groups)
                bearers[mark] += 1
    attempts = sum(map(len, groups))
    for mark, apart in sorted(shares.items()):
        if _RARE <= bearers[mark] / attempts <= 1 - _RARE:
            yield mark, apart


def _folder(case: Case) -> str | None:
    """Returns the folder for new diagnostics in the contract's patterns, or None."""
    patterns = case.contract.factors.get("diagnostics", ())
    folders = (p.rpartition("/")[0] + "/" for p in patterns if p.endswith(("/**", "/*.py", "/*")))
    return next(folders, None)


# --- ideas that rest on an admitted diagnostic ----------------------------------------------------


@reward_rule("pay-foretold")
def pay_foretold(case: Case, rewards: RewardFile) -> Diagnosis | None:
    """Suggests paying, besides the outcome, for what an admitted diagnostic counts."""
    admitted = [(auc, name) for name, auc in case.evidence.foretells.items() if _template(name)]
    (auc, low, high), metric = max(admitted, default=((0.0, 0.0, 0.0), ""))
    template, name = _template(metric), metric.split(".")[1:2]
    files = [f for f in case.python("diagnostics") if f.path.endswith(f"/{''.join(name)}.py")]
    if template is None or not files:
        return None
    values = {constant.name: constant.value for constant in files[0].constants()}
    mark, side = values["MARK"], values["THRESHOLDS"]["share"]["direction"]
    pay = sum(w for w in rewards.weights.values() if w > 0) / 4
    return Diagnosis(
        strength=clamp(0.1 + auc - 0.5),
        change=f"the reward also {'pays' if side == 'below' else 'fines'} what {metric} counts",
        effect="more attempts are clean",
        because=f"{metric} foretells clean success within tasks, AUC {auc:.2f} "
        f"[{low:.2f}, {high:.2f}], and stands at {case.value(metric):.0%}",
        delta=(auc - 0.5) / 5,
        edits=rewards.with_component(
            name[0], round(pay if side == "below" else -pay, 3), _component(template, name[0], mark)
        ),
        evidence=case.lines(metric),
        risk="attempts do what is paid and solve no more",
    )


def _template(metric: str) -> Template | None:
    return next(
        (t for t in (STEPS, REPLY) if metric.startswith(f"measured.{t.module.NAME}_")), None
    )


def _component(template: Template, name: str, mark: Mark) -> str:
    function = template.marks.__name__
    return (
        f"{inspect.getsource(template.marks)}\n\ndef {name}(rollout):\n"
        f'    """Attempts where {template.words}, as the diagnostic counts them."""\n'
        f"    return 1.0 if {literal(mark)} in {function}(rollout) else 0.0\n"
    )
