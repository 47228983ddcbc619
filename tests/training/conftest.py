"""One warm policy child and one random nano policy for the whole room: a child takes seconds."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_agent.core.harness import HarnessSession
from meta_agent.core.protocols import HarnessTree
from meta_agent.domains.nano.planted.seeds import seed_files
from meta_agent.policies.training import PolicyChild, write_checkpoint
from meta_agent.sandboxes import open_sandbox

HAS_TRAIN = importlib.util.find_spec("trl") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("train") and not HAS_TRAIN:
            item.add_marker(pytest.mark.skip(reason="needs the train extra (torch, trl)"))


@pytest.fixture(scope="session")
def nano_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised nano policy, sealed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # third-party imports
        from meta_agent.policies.engines.nano_files import write_nano
        from tests.models import _nano

        model = _nano.model(scale=4.0)
    path = tmp_path_factory.mktemp("policies") / "base"
    write_checkpoint(path, lambda folder: write_nano(model, folder), kind="nano", steps=0, seed=0)
    return path


@pytest.fixture(scope="session")
def shared_child() -> Iterator[PolicyChild]:
    with PolicyChild(threads=1) as child:
        yield child


@pytest.fixture
def child(shared_child: PolicyChild, nano_policy: Path) -> PolicyChild:
    """The shared child, with the random nano policy loaded afresh."""
    shared_child.load(nano_policy)
    return shared_child


# A random policy solves nothing; the length of what it says varies.
WORDY = b"""
WEIGHTS = {"wordy": 1.0}

def reward(rollout):
    said = (m["content"] for m in rollout["messages"] if m["role"] == "assistant")
    return {"wordy": float(sum(map(len, said)))}
"""


@pytest.fixture(scope="session")
def session() -> Iterator[HarnessSession]:
    """A competent harness of nano-swe that pays for words."""
    files, _ = seed_files("swe", variant="competent")
    tree = HarnessTree("c0ffee", "7ree", {**files, "swe/reward.py": WORDY})
    sandbox = open_sandbox("process", run="test")
    try:
        yield HarnessSession(sandbox, tree)
    finally:
        sandbox.close()
