"""`full` without one of its parts does everything else as `full` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from meta_agent.core.loop.loop import first_version, search
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.verbs._briefing import brief_for
from meta_agent.core.loop.verbs._host import Host
from meta_agent.core.proposals import TriedIdea
from meta_agent.core.protocols import VerdictKind
from meta_agent.proposers import Proposal, RulesAgent
from meta_agent.strategies._ablations import NoBundles, NoLeavingOut, NoMemory
from meta_agent.strategies.full import Full
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, Marks, having, in_it, outcomes, prepare, solving

REWARD, DATA = Idea("reward", "reward"), Idea("data", "data")


def score(found: Marks) -> float:
    return 0.4 + 0.3 * ("reward" in found) - 0.2 * ("data" in found)


@pytest.mark.parametrize(
    ("strategy", "cells", "members"),
    [
        (Full, ["all", "without g0/c0", "without g0/c1"], {"reward"}),
        (NoBundles, ["only g0/c0", "only g0/c1"], {"reward"}),
        (NoLeavingOut, ["all"], {"reward", "data"}),
    ],
)
def test_each_trains_its_own_sets_of_ideas(
    strategy: type[Full], cells: list[str], members: set[str], bench: Bench
) -> None:
    prepare(bench, generations=1)
    having(bench, REWARD, DATA)
    solving(bench, score)
    found = search(bench.run, first_version(bench.run), mixes=strategy.mixes)
    assert outcomes(bench, "bundle")[0]["cells"] == cells
    assert in_it(bench, found) == members
    dropped = [told["kind"] for told in outcomes(bench, "verdict")]
    assert len(dropped) == 2 - len(members)


def test_without_memory_a_proposer_does_not_know_what_was_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Sequence[Any]] = []

    def rules(
        _evidence: Any, _tree: Any, tried: Sequence[Any], *_: Any, **__: Any
    ) -> list[Proposal]:
        heard.append(tried)
        return []

    tried = [TriedIdea("reward", "c", VerdictKind.REJECT)]
    monkeypatch.setattr("meta_agent.core.loop.verbs._briefing.tried", lambda *_: tried)
    for strategy, expected in ((Full(), tried), (NoMemory(), ())):
        bench.run.extensions.proposer = RulesAgent(rules)
        monkeypatch.setattr(
            "meta_agent.strategies.full.search_and_prove", lambda run, *_: run.extensions.proposer
        )
        proposer: Any = strategy.carry_out(bench.run, Version("v0", bench.repo.head()))
        proposer.propose(_brief(bench))
        assert heard[-1] == expected
        assert proposer.author == "rules"


def _brief(bench: Bench) -> Any:

    collected = bench.collected()
    return brief_for(bench.run, collected, bench.reading, 0, Host(bench.run, collected, 0), None)
