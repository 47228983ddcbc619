"""What filters and curricula do when they are asked: real harness code in a real sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree
from meta_agent.domains import load_domain
from meta_agent.domains.nano.sources import sources
from meta_agent.readers.evidence import probe
from meta_agent.readers.evidence.probe import ask_reward
from meta_agent.sandboxes import open_sandbox
from tests.evidence._rollouts import rollout

KEPT = "return [weight(group) for group in groups]"
ORDER = 'return tries, shuffled(task["key"])'
FILTERS = {
    "clean": (KEPT, 0.0, 0.0),
    "all": ("return [1.0 for _ in groups]", 0.0, 1.0),
    "every second": ("return [float(at % 2) for at, _ in enumerate(groups)]", 0.5, 0.5),
    "those that were won": (
        'return [sum(map(float, g["outcomes"])) / len(g["outcomes"]) for g in groups]',
        0.5,
        0.5,
    ),
    "the dead ones": ("return [1.0 - weight(group) for group in groups]", 1.0, 1.0),
}
ORDERS = {
    "clean": (ORDER, 1.0, 0.0, 0.0),
    "short ones": ('return tries, len(task["view"]["sum"])', 1.0, 0.5, 0.0),
    "the same few": ('return -tries, shuffled(task["key"])', 0.1, 0.0, 0.0),
    "what was solved": (
        'return -history.get(task["key"], {}).get("solved", 0), shuffled(task["key"])',
        0.2,
        0.0,
        0.02,
    ),
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return sources("math", "competent")


def asked(files: dict[str, bytes], path: str, old: str, new: str) -> dict[str, float]:
    text = files[path].decode()
    assert old in text
    tree = HarnessTree("c", "t", {**files, path: text.replace(old, new).encode()})
    for session in _session(tree):
        return probe(session, (), load_domain("math").tasks("train"))
    raise AssertionError("no session")


def _session(tree: HarnessTree) -> Iterator[HarnessSession]:
    sandbox = open_sandbox("process", run="probe")
    try:
        yield HarnessSession(sandbox, tree)
    finally:
        sandbox.close()


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_is_known_by_what_it_leaves_out(name: str, files: dict[str, bytes]) -> None:
    new, lost, idle = FILTERS[name]
    found = asked(files, "math/filter.py", KEPT, new)
    assert found["filter.lost"] == pytest.approx(lost, abs=0.15)
    assert found["filter.idle"] == pytest.approx(idle, abs=0.15)


@pytest.mark.parametrize("name", ORDERS)
def test_a_curriculum_is_known_by_what_it_chooses(name: str, files: dict[str, bytes]) -> None:
    new, covered, skew, solved = ORDERS[name]
    found = asked(files, "math/curriculum.py", ORDER, new)
    assert found["curriculum.covered"] == pytest.approx(covered, abs=0.15)
    assert found["curriculum.skew"] >= skew
    assert found["curriculum.solved"] >= solved
    if name == "clean":
        assert found["curriculum.skew"] == found["curriculum.solved"] == 0.0


SOLVED = 'return 1.0 if rollout["outcome"] else 0.0'
KINDS = {"failed", "quit", "busy", "hasty"}
REWARDS = {
    "clean": (SOLVED, set[str]()),
    "nothing for solving": ("return 0.0", {"failed", "busy", "hasty"}),
    "giving up": (
        'return 2.0 * (rollout["stop_reason"] != "submitted")',
        {"failed", "quit", "busy", "hasty"},
    ),
    "every call": ('return rollout["outcome"] + len(rollout["tool_events"])', {"busy"}),
    "haste": ('return float(rollout["outcome"] - rollout["turns"])', {"hasty"}),
}


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_known_by_what_failing_would_earn(name: str, files: dict[str, bytes]) -> None:
    new, kinds = REWARDS[name]
    text = files["math/reward.py"].decode().replace(SOLVED, new)
    tree = HarnessTree("c", "t", {**files, "math/reward.py": text.encode()})
    messages = [{"role": "user", "content": "7+1"}, {"role": "assistant", "content": "7+1=8#8"}]
    seen = [rollout(turns=3, messages=messages) for _ in range(4)]
    for session in _session(tree):
        found = ask_reward(session, seen)
        assert {kind for kind in KINDS if found[f"pay.{kind}"]} == kinds
        assert (found["component.solved.pays_failing"] >= 0) is bool(kinds)
