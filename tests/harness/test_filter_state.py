"""A filter that remembers: its state is data, and goes on from where it was saved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_agent.core.errors import CandidateError
from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import Sandbox
from meta_agent.sandboxes import open_sandbox

from ..rollouts.laboratory import tree
from .test_session import GROUPS, checked


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    held = open_sandbox("process", run="test")
    yield held
    held.close()


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
    again = HarnessSession(sandbox, tree(filter=STATEFUL))  # a training that goes on
    assert again.filter_state(saved) == saved
    assert again.keep(GROUPS) == after
    assert HarnessSession(sandbox, tree()).filter_state() is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("{1: object()}", "must be plain JSON"),
        ("{'x': float('nan')}", "must be plain JSON"),
        ("'x' * 99999", "the limit is 65536"),
        ("None", "characters as JSON"),
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
