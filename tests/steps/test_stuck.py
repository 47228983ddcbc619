"""Three failures in a row: the measurement is doubted first, then the direction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_agent.agents import Situation, Stuck, propose
from meta_agent.errors import IntegrityError
from meta_agent.evidence import Evidence
from meta_agent.gate import Finding
from meta_agent.protocols import Candidate, HarnessTree, Verdict, VerdictKind
from meta_agent.steps.run import Judged
from meta_agent.steps.stuck import Streak, take_stock
from tests.steps._bench import Bench

VETO = Finding("conduct.leak", "veto", "it leaks")
LOST = Finding("infra.void", "veto", "the machines failed")


def a_candidate(bench: Bench) -> Candidate:
    edit = {"swe/reward.py": bench.text("swe/reward.py") + "\n# x\n"}
    return bench.candidates(bench.collected(), ("reward", edit))[0]


def judged(kind: VerdictKind, *findings: Finding, screened_out: bool = False) -> Judged:
    evidence = {"findings": [finding.to_json() for finding in findings]}
    return Judged(Verdict(kind, ("so",), screened_out=screened_out, evidence=evidence))


def test_what_counts_as_a_failure(bench: Bench) -> None:
    candidate, sound = a_candidate(bench), bench.reading
    unsound = sound._replace(findings=(VETO,))
    one = Streak().after(candidate, judged(VerdictKind.REJECT), sound)
    assert one.failed == (candidate,)
    assert one.after(candidate, judged(VerdictKind.INCONCLUSIVE, screened_out=True), sound) == one
    assert one.after(candidate, judged(VerdictKind.INVALID, VETO), unsound) == one
    assert one.after(candidate, judged(VerdictKind.INVALID, LOST), sound) == one
    assert len(one.after(candidate, judged(VerdictKind.INVALID, VETO), sound).failed) == 2
    assert one.after(candidate, judged(VerdictKind.PROMOTE), sound) == Streak()


def test_two_failures_change_nothing(bench: Bench) -> None:
    streak = Streak((a_candidate(bench),) * 2)
    assert take_stock(bench.run, bench.collected(), streak, 1) is None


def test_three_failures_measure_again_and_name_the_factors_that_failed(bench: Bench) -> None:
    candidate, collected = a_candidate(bench), bench.collected()
    streak = Streak((candidate, replace(candidate, factor="recipe"), candidate))
    evaluated = len(bench.run.ledger.steps(kind="eval"))
    for _ in range(2):  # repeated: measured once
        assert take_stock(bench.run, collected, streak, 1) == Stuck(("reward", "recipe"))
    assert len(bench.run.ledger.steps(kind="eval")) == evaluated + 1


def test_a_measurement_that_contradicts_itself_halts_the_run(bench: Bench) -> None:
    candidate, collected = a_candidate(bench), bench.collected()
    bench.lab.script = lambda _: 0.9
    with pytest.raises(IntegrityError, match="contradict"):
        take_stock(bench.run, collected, Streak((candidate,) * 3), 1)


def test_the_rules_agent_then_prefers_other_factors(bench: Bench) -> None:
    tree: HarnessTree = bench.repo.tree(bench.repo.head())
    score = {"success": 0.5, "clean_success": 0.5}
    signal = {"dead_group_ratio": 0.6, "train.dead_group_ratio.last": 0.6}
    evidence = Evidence(score, signal, {"leak_use": 0.3, "edit_then_test": 0.2})
    usual = propose(evidence, tree, (), (), 4, situation=Situation())
    first = usual[0].hypothesis.factor
    assert {p.hypothesis.factor for p in usual} != {first}
    turned = propose(evidence, tree, (), (), 4, situation=Situation(), stuck=Stuck((first,)))
    assert turned[0].hypothesis.factor != first
