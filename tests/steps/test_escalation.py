"""What a search does after two generations in which nothing was better, step by step."""

from __future__ import annotations

import pytest

from meta_agent.core.display import PersonReply
from meta_agent.core.errors import Parked
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.records import Version
from meta_agent.core.loop.verbs.approve import answer
from meta_agent.core.loop.verbs.cells import beside, mixed
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.protocols import Candidate
from meta_agent.reports import reduce
from tests.steps._approval import gates
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, having, in_it, marks, outcomes, prepare, searched, solving

FIRST, SECOND = Idea("first", "reward"), Idea("second", "reward", strength=0.45)
THIRD, OTHER = Idea("third", "reward", strength=0.4), Idea("other", "data", strength=0.3)


def steps(bench: Bench) -> list[str]:
    return [f"g{row['generation']} {row['step']}" for row in outcomes(bench, "escalation")]


def test_the_version_is_measured_again_and_another_factor_is_tried(bench: Bench) -> None:
    """The third idea on the reward is stronger than the one that helps."""
    prepare(bench, candidates=1, generations=3)
    having(bench, FIRST, SECOND, THIRD, OTHER)
    solving(bench, lambda found: 0.8 if "other" in found else 0.4)
    found = searched(bench)
    assert in_it(bench, found) == {"other"}
    assert steps(bench) == ["g1 again", "g1 factors"]
    assert bench.run.stage_factors == (), "the restriction ends with a success"
    noted = [view.noted for view in reduce(bench.run.ledger).analyses if view.noted]
    assert "40.0% clean on search, 40.0% before" in noted[0]
    assert "reward failed; the next generation is about" in noted[1]


def test_one_failed_generation_is_no_reason_to_escalate(bench: Bench) -> None:
    prepare(bench, candidates=1)
    having(bench, FIRST, OTHER)
    solving(bench, lambda found: 0.8 if "other" in found else 0.4)
    assert in_it(bench, searched(bench)) == {"other"}
    assert steps(bench) == []


def test_an_earlier_edit_that_has_come_to_hinder_is_taken_away(bench: Bench) -> None:
    """Beside `late`, the search would do better without `early`, which it took before."""
    prepare(bench, candidates=2, generations=7, trainings=80)
    early, base = Idea("early", "reward"), Idea("base", "data")
    late = Idea("late", "scaffold", after="base")
    vain = [Idea(f"vain{at}", "filter", after="late", strength=0.4 - at / 50) for at in range(4)]
    having(bench, early, base, late, *vain)

    def score(found: frozenset[str]) -> float:
        gain = 0.2 * len(found & {"early", "base", "late"})
        return 0.2 + gain + (0.3 if "late" in found and "early" not in found else 0.0)

    solving(bench, score)
    found = searched(bench)
    assert in_it(bench, found) == {"base", "late"}
    assert "g4 away" in steps(bench)
    verdict = reduce(bench.run.ledger).candidate("g0/c1").verdict
    assert verdict is not None and "without it" in verdict["reasons"][0]


def test_a_late_idea_that_is_merged_anew_brings_nothing_back(bench: Bench) -> None:
    """`base` was written on `early`, which is gone; `late` takes the place of `clash`."""
    prepare(bench, candidates=1)
    run, first = bench.run, first_version(bench.run)
    early, base = Idea("early", "reward"), Idea("base", "data", after="early")
    clash = Idea("clash", "filter", first=True, after="base")
    late = Idea("late", "filter", first=True, after="base", strength=0.4)
    having(bench, early, base, clash, late)
    members, commit = list[Candidate](), first.commit
    for generation, count in enumerate((1, 1, 2)):
        run.config = run.config.model_copy(update={"candidates": count})
        collected = bench.collected(Version(f"v0+{generation}", commit))
        proposed = propose(run, collected, bench.reading, generation)
        commit = mixed(run, commit, "", proposed[:1]).commit
        members += proposed
    *held, waits = members
    (gone, *rest), when = held, run.date(2, 700)
    away = run.repo.revert_ahead(gone.commit, onto=commit, message="away", when=when)
    mix = beside(run, first.commit, away, rest, waits)
    assert mix is not None and mix.name == "g2/c1 for g2/c0"
    assert marks(bench.repo.tree(mix.commit)) == {"base", "late"}


def test_a_person_is_asked_before_the_search_ends_in_vain(bench: Bench) -> None:
    prepare(bench, candidates=1, generations=6)
    gates(bench, "merge")
    having(bench, FIRST, SECOND, OTHER, THIRD)
    solving(bench, lambda found: 0.8 if "third" in found else 0.4)
    with pytest.raises(Parked) as parked:
        searched(bench)
    assert parked.value.subjects == ("g2",)
    (question,) = reduce(bench.run.ledger).decisions
    assert "go on?" in question.asks
    answer(bench.run.ledger, "r", ["g2"], PersonReply("APPROVE"))
    assert in_it(bench, searched(bench)) == {"third"}


def test_without_a_person_the_search_ends(bench: Bench) -> None:
    prepare(bench, candidates=1, generations=6)
    having(bench, FIRST, SECOND, OTHER, THIRD)
    solving(bench, lambda found: 0.8 if "third" in found else 0.4)
    assert not searched(bench).members
    assert not reduce(bench.run.ledger).decisions
