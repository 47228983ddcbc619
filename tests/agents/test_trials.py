"""Small edits: which there are, and which of them are proposed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Sequence

import pytest

from meta_agent.core.proposals import TriedIdea
from meta_agent.core.protocols import HarnessTree, VerdictKind
from meta_agent.proposers import Proposal, small_edits
from meta_agent.proposers.rules._mutants import mutants
from meta_agent.proposers.rules._source import PythonFile

AGENT = "a/agent.py"
TOML = b"""[harness]
name = "a"
entry = "a/agent.py:run"
editable = ["a/**"]
[factors]
scaffold = ["a/agent.py"]
"""
SCAFFOLD = '''
"""What is shown."""

NAMES = {"v": "view"}


def line(task):
    """The first line."""
    text = task.view["issue"].lstrip("-* ")
    if len(text) > 9:
        return None
    return f"{text} :" + " ?"


async def run(task, model, tools):
    messages = [{"role": "user", "content": line(task)}]
    for _ in range(3):
        reply = await model.chat(messages, max_tokens=4)
        if not reply.content or "x" in reply.content:
            break
        result = await tools.call("view", at=reply.content[:2])
        messages.append({"role": "tool", "content": result.text})
'''
ATTEMPTS = 4_800
WHOLE = 'text = task.view["issue"]\n'
Solves = Callable[[str, int], bool]


def tree(text: str = SCAFFOLD) -> HarnessTree:
    return HarnessTree("0" * 40, "0" * 40, {"harness.toml": TOML, AGENT: text.encode()})


def luck(task: int, salt: str = "") -> float:
    """A number in [0, 1) that belongs to a task, as the seed of its attempt does."""
    return hashlib.sha256(f"{salt}{task}".encode()).digest()[0] / 256


class Policy:
    """A base policy: solves a task by what the scaffold's text is and by the task's own luck."""

    def __init__(self, solves: Solves) -> None:
        self.solves, self.made = solves, 0

    def __call__(
        self, trees: Sequence[HarnessTree], tasks: int | None, /
    ) -> list[dict[str, bool] | None]:
        return [self._under(one.files[AGENT].decode(), tasks) for one in trees]

    def _under(self, text: str, tasks: int | None) -> dict[str, bool] | None:
        self.made += tasks or 0
        if "lstrip()" in text:
            return None  # cannot be measured
        return {str(task): self.solves(text, task) for task in range(tasks or 512)}


def tried(
    solves: Solves, attempts: int = ATTEMPTS, known: Sequence[TriedIdea] = ()
) -> list[Proposal]:
    return small_edits(tree(), Policy(solves), attempts, known)


# --- the neighbourhood --------------------------------------------------------------------------


def test_each_parses_differs_and_comes_once() -> None:
    found = list(mutants(PythonFile(AGENT, SCAFFOLD)))
    texts = [one.text for one in found]
    assert len(texts) == len(set(texts)) > 40
    assert SCAFFOLD not in texts
    for text in texts:
        ast.parse(text)


OPERATORS = {
    ('task.view["issue"].lstrip("-* ")', 'task.view["issue"]'),
    ('f"{text} :" + " ?"', 'f"{text} :"'),
    ('f"{text} :"', "f'{text}:'"),
    ("len(text) > 9", "len(text) >= 9"),
    ("not reply.content", "reply.content"),
    ('not reply.content or "x" in reply.content', '("x" in reply.content)'),
    ("reply.content[:2]", "reply.content"),
    ('tools.call("view", at=reply.content[:2])', 'tools.call("view")'),
    ('messages.append({"role": "tool", "content": result.text})', ""),
    ('" ?"', '"?"'),
}


def test_every_operator_is_there() -> None:
    found = {(one.before, one.after) for one in mutants(PythonFile(AGENT, SCAFFOLD))}
    assert found >= OPERATORS


# --- which are proposed -------------------------------------------------------------------------


def test_the_edit_that_helps_is_found_among_all() -> None:
    (best,) = tried(lambda text, task: luck(task) < (0.5 if WHOLE in text else 0.3))
    assert WHOLE in best.edits[AGENT]
    assert best.hypothesis.factor == "scaffold"
    assert best.hypothesis.expected_delta == pytest.approx(0.2, abs=0.06)
    assert best.hypothesis.evidence
    # What was tried before is not tried again.
    known = [TriedIdea(best.hypothesis.rule, "0" * 40, VerdictKind.REJECT)]
    again = tried(lambda text, task: luck(task) < (0.5 if WHOLE in text else 0.3), known=known)
    assert best.edits not in [one.edits for one in again]


def test_two_that_help_elsewhere_both_come_and_never_two_of_one_line() -> None:
    def solves(text: str, task: int) -> bool:
        return luck(task) < 0.2 + 0.2 * (WHOLE in text) + 0.25 * (
            ":" in text and '" ?"' not in text
        )

    found = tried(solves)
    assert len(found) == 2
    assert len({one.subject for one in found}) == 2


def test_nothing_comes_of_noise() -> None:
    def solves(text: str, task: int) -> bool:
        return luck(task, salt=text) < 0.4  # every edit another luck, none better

    assert tried(solves) == []
    assert tried(lambda text, task: False) == []
    assert tried(lambda text, task: luck(task) < 0.5) == []


def test_it_stays_within_what_was_lent() -> None:
    policy = Policy(lambda text, task: luck(task, salt=text) < 0.4)
    small_edits(tree(), policy, ATTEMPTS)
    assert 0 < policy.made <= ATTEMPTS
    poor = Policy(lambda text, task: True)
    assert small_edits(tree(), poor, 500) == []
    assert poor.made == 0
