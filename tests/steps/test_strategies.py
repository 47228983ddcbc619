"""The ways to search beside `full`: what each sees, keeps and spends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.composition.preflight import require_supported
from meta_agent.core.config import RunConfig
from meta_agent.core.errors import ConfigError
from meta_agent.core.evidence import Alert, Evidence
from meta_agent.core.gate import Finding
from meta_agent.core.lab.units import EvalUnit
from meta_agent.core.loop.budget import allowed, spent
from meta_agent.core.loop.diagnostics.tend import tend
from meta_agent.core.loop.loop import first_version
from meta_agent.core.loop.records import HandedOver, Judged, Reading
from meta_agent.core.loop.verbs.promote import promote
from meta_agent.core.protocols import HarnessTree, Verdict, VerdictKind
from meta_agent.strategies._baselines import ScoreOnly, ScoresShown, Static
from meta_agent.strategies.strategies import STRATEGIES
from tests.steps._bench import Bench
from tests.steps._ideas import A_STEP, Idea, having, in_it, outcomes, prepare, solving

LEAK = Finding("conduct.leak", "veto", "it leaks")


def test_a_strategy_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="luck") as refused:
        require_supported(RunConfig(strategy="luck"))
    assert all(name in str(refused.value.hint) for name in STRATEGIES)


@pytest.mark.parametrize("kind", [kind for kind in VerdictKind if kind is not VerdictKind.PROMOTE])
def test_no_strategy_merges_what_the_gate_did_not_promote(kind: VerdictKind) -> None:
    untouched: Any = None
    with pytest.raises(ConfigError, match=kind.value):
        promote(untouched, untouched, untouched, Judged(Verdict(kind, ("words",))), untouched)


# --- score-only ----------------------------------------------------------------------------------


def by_score(bench: Bench, *ideas: Idea, trainings: int = 12) -> HandedOver:
    prepare(bench, trainings=trainings, generations=20, candidates=1, strategy="score-only")
    having(bench, *ideas)
    handed = ScoreOnly().carry_out(bench.run, first_version(bench.run))
    assert spent(bench.run.ledger, "r") <= max(allowed(bench.run), 456)
    return handed


ONE = Idea("one", "reward")


# Two tasks of 200: no test would call that a gain.
@pytest.mark.parametrize(("share", "kind"), [(0.51, "PROMOTE"), (0.5, "REJECT")])
def test_a_score_keeps_what_is_better_and_resets_the_rest(
    bench: Bench, share: float, kind: str
) -> None:
    solving(bench, lambda found: share if found else 0.5)
    handed = by_score(bench, ONE)
    (told,) = outcomes(bench, "verdict")
    assert told["kind"] == kind and told["evidence"]["judge"] == "score"
    assert in_it(bench, handed) == ({"one"} if kind == "PROMOTE" else set())
    assert bench.repo.head() == handed.version.commit
    assert handed.standing == ("unproven" if kind == "PROMOTE" else "start")
    assert not bench.run.skills.all(), "a score teaches nothing"


def test_one_at_a_time_it_climbs_until_nobody_has_an_idea(bench: Bench) -> None:
    solving(bench, lambda found: 0.4 + 0.1 * len(found) - 0.3 * ("bad" in found))
    ideas = (Idea("bad", "filter", strength=0.9), ONE, Idea("two", "data", strength=0.1))
    handed = by_score(bench, *ideas)
    assert in_it(bench, handed) == {"one", "two"} and handed.version.id == "v2"
    # The next run looks through all merges for diagnostics that were admitted.
    assert tend(replace(bench.run, id="later"), handed.version) == handed.version


def test_a_candidate_that_a_check_stopped_is_never_measured(bench: Bench) -> None:
    class Broken(Idea):
        def edits(self, _: HarnessTree) -> dict[str, str]:
            return {"swe/reward.py": "def reward(:\n"}

    by_score(bench, Broken("broken", "reward"))
    (told,) = outcomes(bench, "verdict")
    assert told["kind"] == "INVALID" and len(bench.lab.made) == 1


def test_a_search_by_score_ends_with_its_budget(bench: Bench) -> None:
    solving(bench, lambda found: 0.4 + 0.1 * len(found))
    by_score(bench, ONE, Idea("two", "data"), Idea("three", "filter"), trainings=3)
    assert len(bench.lab.made) < 4


# --- no-diagnostics ------------------------------------------------------------------------------


def test_a_proposer_without_diagnostics_sees_scores_and_nothing_behind_them() -> None:
    alert = Alert("signal.dead_group_ratio", 0.9, "WARN", 0.5, "signal", "dead")
    told = Evidence(
        {"clean_success": 0.4},
        {"dead_group_ratio": 0.9},
        {"leak_use": 0.3},
        version={"change.score.clean_success": 0.1, "change.signal.x": 1.0, "tasks_fixed": 3.0},
        measured={"probe.n": 1.0},
        alerts=(alert,),
        per_task={"a": (1, 1, 0)},
    )
    shown = ScoresShown().shows(Reading(told, (LEAK,)))
    assert set(shown.evidence.metrics()) == {"score.clean_success"}
    assert set(shown.evidence.version) == {"change.score.clean_success", "tasks_fixed"}
    assert not shown.evidence.alerts and not shown.findings and not shown.behind
    assert shown.evidence.per_task == told.per_task


def test_its_files_hold_no_attempt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from meta_agent.core.loop.verbs import _briefing

    collected = bench.collected()
    source = _briefing._source(bench.run, collected, ScoresShown().shows(bench.reading))
    assert source.rollouts == [] and source.train_metrics == []
    assert _briefing._source(bench.run, collected, bench.reading).rollouts


# --- static --------------------------------------------------------------------------------------


def with_budget(bench: Bench, budget: int) -> None:
    bench.run.config = bench.run.config.model_copy(update={"budget": budget})


def by_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch, shares: Mapping[int, float]) -> None:
    """The search split's share by the checkpoint's steps."""
    evaluate = bench.lab._evaluate

    def scripted(unit: EvalUnit, tree: HarnessTree) -> Any:
        bench.lab.script = lambda _: shares[unit.steps]
        return evaluate(unit, tree)

    monkeypatch.setattr(bench.lab, "_evaluate", scripted)


def test_static_proposes_nothing_and_trains_for_the_whole_budget(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.lab.rollouts_a_step = A_STEP
    with_budget(bench, 456 * 4 + 5)  # 2 steps of 128 attempts, and 200 search tasks
    by_steps(bench, monkeypatch, {2: 0.5, 4: 0.6, 6: 0.55, 8: 0.6})
    handed = Static().carry_out(bench.run, first_version(bench.run))
    assert handed.standing == "start" and not outcomes(bench, "proposal")
    assert handed.trained is not None and handed.trained.steps == 4  # the earliest of the best
    (step,) = bench.run.ledger.steps(kind="train")
    assert step.intent["steps"] == 8
    (kept,) = outcomes(bench, "checkpoint")
    assert kept["steps"] == 4
    assert spent(bench.run.ledger, "r") == 456 * 4, "every checkpoint's evaluation counts"
