"""Attribution: old and new policy, each under the old and the new harness."""

from __future__ import annotations

from meta_agent.core.lab.live import Trained
from meta_agent.core.lab.units import EvalUnit, TrainUnit
from meta_agent.core.loop.verbs.attribute import attribute
from meta_agent.core.loop.verbs.propose import propose
from meta_agent.core.protocols import JSON, Candidate, HarnessTree
from meta_agent.reports import attribution_note
from tests.steps._bench import Bench
from tests.steps._ideas import (
    Idea,
    found_with,
    handed_over,
    having,
    marks,
    outcomes,
    prepare,
    solving,
)


def two_by_two(bench: Bench, shares: dict[tuple[bool, bool], float]) -> None:
    """Clean success by (new policy, new harness): the scripted lab knows the harness alone."""
    inner, policies = bench.lab._evaluate, dict[str, bool]()

    def train(unit: TrainUnit, tree: HarnessTree) -> JSON:
        policies[unit.name] = bool(marks(tree))
        return Trained(f"/{unit.name}", unit.name, unit.seed, unit.steps, None, []).to_json()

    def evaluate(unit: EvalUnit, tree: HarnessTree) -> JSON:
        bench.lab.script = lambda _: shares[policies[unit.policy], bool(marks(tree))]
        return inner(unit, tree)

    bench._patch.setattr(bench.lab, "_train", train)
    bench._patch.setattr(bench.lab, "_evaluate", evaluate)


def attributed(bench: Bench, shares: dict[tuple[bool, bool], float]) -> tuple[Candidate, JSON]:
    two_by_two(bench, shares)
    return attributed_to(bench, Idea("new", "scaffold"))


def attributed_to(bench: Bench, idea: Idea) -> tuple[Candidate, JSON]:
    prepare(bench)
    having(bench, idea)
    before = bench.repo.head()
    (candidate,) = propose(bench.run, bench.collected(), bench.reading, 0)
    trees = (bench.repo.tree(commit) for commit in (before, candidate.commit))
    old, new = (bench.lab.train(tree, seed=0, steps=bench.run.plan.steps) for tree in trees)
    return candidate, attribute(bench.run, before, candidate.commit, (old, new))


def test_main_effects_and_interaction(bench: Bench) -> None:
    _, told = attributed(
        bench, {(False, False): 0.4, (False, True): 0.5, (True, False): 0.45, (True, True): 0.75}
    )
    assert told["cells"] == {"old_old": 0.4, "old_new": 0.5, "new_old": 0.45, "new_new": 0.75}
    effects = {name: round(effect["delta"], 6) for name, effect in told["effects"].items()}
    assert effects == {"harness": 0.2, "policy": 0.15, "interaction": 0.2}
    for effect in told["effects"].values():
        assert effect["ci_low"] < effect["delta"] < effect["ci_high"]
    assert told["n"] == 200


def test_a_reward_acts_through_the_policy_alone(bench: Bench) -> None:
    _, told = attributed(
        bench, {(False, False): 0.4, (False, True): 0.4, (True, False): 0.6, (True, True): 0.6}
    )
    effects = {name: round(effect["delta"], 6) for name, effect in told["effects"].items()}
    assert effects == {"harness": 0.0, "policy": 0.2, "interaction": 0.0}
    splits = {step.intent["split"] for step in bench.run.ledger.steps(kind="eval")}
    assert splits == {"search"}, "the confirm split is not read"


def test_a_promotion_is_attributed_in_its_merge_record_and_note(bench: Bench) -> None:
    prepare(bench)
    solving(bench, lambda found: 0.4 + 0.2 * len(found))
    found = found_with(bench, Idea("new", "reward"))
    handed = handed_over(bench, found)
    (merge,) = outcomes(bench, "merge")
    told = merge["attribution"]
    assert len(told["cells"]) == 4 and merge["members"] == list(found.members)
    note = bench.repo.notes(handed.version.commit) or ""
    assert attribution_note("r/claim", told).strip() in note


def test_an_old_policy_that_cannot_act_under_the_new_harness_is_told(bench: Bench) -> None:
    from meta_agent.core.errors import CandidateError

    def acts(tree: HarnessTree, _unit: object) -> float:
        if marks(tree):
            raise CandidateError("no such tool", reason="broken")
        return 0.4

    bench.lab.acts = acts
    candidate, told = attributed_to(bench, Idea("new", "scaffold"))
    assert "no such tool" in told["failed"] and told["effects"] == {}
    assert attribution_note(candidate.id, told)
