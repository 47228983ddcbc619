"""Every strategy that branches trains a policy in a tiny run; all but one of them nightly.

The runs are made in this process, one after the other, by the same policy children: a child imports
for 8 s of processor time. What each strategy finds, and that it goes on after a stop, is in
`tests/steps/test_branching.py`. That a warm child trains as a fresh one does is in
`tests/training/test_policy.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_agent.composition import served
from meta_agent.composition.evolve import evolve
from meta_agent.core.config import RunConfig
from meta_agent.policies.opening import ChildPolicies
from meta_agent.reports import open_display

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(900)]

WAYS = ("frontier", "islands", "pareto", "tree", "specialists", "bilevel")


class LentChildren(ChildPolicies):
    """Policy children that outlive a run, for the next one."""

    def close(self) -> None:
        """Ends none of them: `super().close()` does."""


@pytest.fixture(scope="module")
def children() -> Iterator[LentChildren]:
    lent = LentChildren(threads=1)
    yield lent
    ChildPolicies.close(lent)


@pytest.mark.parametrize(
    "name", ["archive", *(pytest.param(name, marks=pytest.mark.nightly) for name in WAYS)]
)
def test_each_finishes_a_tiny_run_with_a_trained_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: LentChildren, name: str
) -> None:
    def lent(threads: int, settings: Any, devices: Any) -> LentChildren:
        assert (threads, settings, list(devices)) == (1, children._settings, [])
        return children

    monkeypatch.setattr(served, "ChildPolicies", lent)
    # A training of one step is 16 attempts here, and 64 to measure it; two fifths are for the
    # search.
    config = RunConfig(
        workspace=tmp_path / "w",
        domain="swe",
        profile="tiny",
        train_steps=1,
        candidates=1,
        generations=2,
        budget=960,
        sandbox="process",
        strategy=name,
        jobs=1,
    )
    state = evolve(config, open_display())
    assert state.exit_reason == "done" and state.cells, "something was tried"
    assert state.handover and state.handover["standing"] in ("proven", "unproven", "start")
