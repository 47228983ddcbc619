"""Trainings of a search that end early: which may, what they cost, and who hears of it."""

from __future__ import annotations

from dataclasses import replace

from meta_agent.core.lab.health import base_rows
from meta_agent.core.lab.units import TrainUnit
from meta_agent.core.loop.budget import spent
from meta_agent.core.loop.verbs._briefing import past
from meta_agent.core.protocols import JSON, HarnessTree
from tests.steps._bench import Bench
from tests.steps._ideas import Idea, carried_out, having, marks, outcomes, prepare, solving

ROW: JSON = {"step": 1, "clean_success": 0.5, "entropy": 1.0, "train_sec": 1.0}
END: JSON = {"after": 1, "steps": 0, "reason": "3 steps in a row: entropy is gone"}


def watched(bench: Bench) -> list[TrainUnit]:
    """Lets the health rule end every training of the idea `bad` that it applies to."""
    units, real = [], bench.lab._train
    bench.lab.settings = replace(bench.lab.settings, stop_unhealthy=3)

    def train(unit: TrainUnit, tree: HarnessTree) -> JSON:
        units.append(unit)
        outcome = {**real(unit, tree), "metrics": [ROW]}
        ends = unit.base_metrics and "bad" in marks(tree)
        return {**outcome, "ended": END, "rollouts": 7} if ends else outcome

    bench.lab._train = train  # type: ignore[method-assign]
    return units


def test_only_the_search_is_watched_and_never_a_proof_or_the_base(bench: Bench) -> None:
    prepare(bench)
    having(bench, Idea("good", "reward"))
    solving(bench, lambda found: 0.9 if found else 0.2)
    units = watched(bench)
    carried_out(bench)
    base, *others = units
    assert not base.base_metrics
    search = [unit for unit in others if unit.seed == 0]
    proofs = [unit for unit in others if unit.seed != 0]
    assert search and all(unit.base_metrics == base_rows([ROW]) for unit in search)
    assert proofs and not any(unit.base_metrics for unit in proofs)


def test_an_ended_training_costs_what_it_made_and_its_ideas_hear_why(bench: Bench) -> None:
    prepare(bench, generations=1)
    having(bench, Idea("bad", "reward"))
    solving(bench, lambda found: 0.1 if found else 0.5)
    units = watched(bench)
    carried_out(bench)
    reason = "its training was ended after step 1: 3 steps in a row: entropy is gone"
    assert reason in outcomes(bench, "cell")[0]["words"]
    (attempt,) = past(bench.run, bench.repo.head())
    assert attempt.reasons[-1] == f"cell all: {reason}"
    whole = [unit for unit in units if not unit.base_metrics]
    made = sum(unit.steps * bench.lab.rollouts_a_step for unit in whole)
    assert spent(bench.run.ledger, "r", ["train"]) == made + 7 * (len(units) - len(whole))
