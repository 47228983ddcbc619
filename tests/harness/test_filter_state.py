"""A filter that remembers: its state is data, and goes on from where it was saved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import Sandbox
from meta_agent.sandboxes import open_sandbox

from ..rollouts._laboratory import tree
from ._samples import GROUPS, checked


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    held = open_sandbox("process", run="test")
    yield held
    held.close()


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rewards.md"
STATEFUL = """
STATE = {}
def keep(groups, state):
    for group in groups:
        spread = max(group["rewards"]) - min(group["rewards"])
        state[group["task_key"]] = 0.5 * state.get(group["task_key"], 1.0) + 0.5 * spread
    return [state[group["task_key"]] for group in groups], state
"""


def test_a_filter_remembers_and_goes_on_from_what_was_saved(sandbox: Sandbox) -> None:
    held = HarnessSession(sandbox, tree(filter=STATEFUL))
    assert held.filter_state() == {}
    assert held.keep(GROUPS) == [1.0, 0.5]
    saved = held.filter_state()
    after = held.keep(GROUPS)
    assert saved == {"a": 1.0, "b": 0.5} and after == [1.0, 0.25]
    held.start_filter()  # another training in the same sandbox
    assert held.filter_state() == {}
    again = HarnessSession(sandbox, tree(filter=STATEFUL))  # a training that goes on
    again.start_filter(saved)
    assert again.keep(GROUPS) == after
    assert HarnessSession(sandbox, tree()).filter_state() is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("{1: object()}", "object"),
        ("{'x': float('nan')}", "nan"),
        ("'x' * 99999", "100001 .*65536"),
        ("None", r"lab/filter\.py"),
    ],
)
def test_a_state_that_cannot_be_saved_is_a_candidate_error(
    sandbox: Sandbox, state: str, words: str
) -> None:
    text = f"STATE = {{}}\ndef keep(groups, state): return [1.0 for _ in groups], {state}\n"
    held = HarnessSession(sandbox, tree(filter=text))
    with pytest.raises(CandidateError, match=words) as caught:
        held.keep(GROUPS)
    assert caught.value.reason == "harness_keep_failed"
    assert not checked(sandbox, filter=text)["lab/filter.py"].ok
    assert checked(sandbox, filter=STATEFUL)["lab/filter.py"].ok


def test_the_filters_of_the_page_keep_what_varies(sandbox: Sandbox) -> None:
    """One drops a task that has not varied for long, one the groups with little of the variance."""
    *_, remembers, by_signal = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert checked(sandbox, filter=remembers)["lab/filter.py"].ok
    held = HarnessSession(sandbox, tree(filter=remembers))
    weights = [held.keep(GROUPS) for _ in range(12)]
    assert (weights[0], weights[-1]) == ([1.0, 1.0], [1.0, 0.0])
    assert checked(sandbox, filter=by_signal)["lab/filter.py"].ok
    rewards = ([0.0, 1.0], [0.4, 0.6], [0.0, 0.9], [0.5, 0.5])
    groups = [{"task_key": "a", "rewards": row, "outcomes": [True, True]} for row in rewards]
    assert HarnessSession(sandbox, tree(filter=by_signal)).keep(groups) == [1.0, 0.0, 1.0, 0.0]


def test_a_first_state_that_cannot_be_saved_is_refused_before_anything_runs(
    sandbox: Sandbox,
) -> None:
    text = "STATE = {'seen': set()}\ndef keep(groups, state): return [], state\n"
    with pytest.raises(CandidateError, match=r"lab/filter\.py.*seen"):
        HarnessSession(sandbox, tree(filter=text))
