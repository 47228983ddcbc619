"""A diagnostic is judged by the past versions that it tells apart, never by clean success."""

from __future__ import annotations

import pytest

from meta_agent.core.loop.diagnostics.discriminate import discriminate
from meta_agent.core.loop.records import Judged
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.protocols import VerdictKind
from tests.steps._bench import TASKS, Bench, rollout

DIAGNOSTIC = '''"""The share that was solved."""
NAME = "solved_share"
LAYER = "behaviour"
THRESHOLDS = {THRESHOLDS}


def measure(rollouts):
    solved = [bool(rollout["outcome"]) for rollout in rollouts]
    return {{"share": sum(solved) / len(solved)}} if solved else {{}}
'''
LIMIT = '{"share": {"warn": 0.5, "direction": "below"}}'


HUGE = '{"share": {"warn": 10 ** 400, "direction": "below"}}'


def judge(bench: Bench, thresholds: str = LIMIT) -> Judged:
    collected = bench.collected()
    edit = {"swe/diagnostics/solved_share.py": DIAGNOSTIC.format(THRESHOLDS=thresholds)}
    metric = "measured.solved_share.share"
    (candidate,) = bench.candidates(collected, ("diagnostics", edit), metric=metric)
    trainings = bench.lab.trainings
    judged = discriminate(bench.run, Checked(candidate, ()))
    assert bench.lab.trainings == trainings
    return judged


def past(bench: Bench, kind: str, share: float, count: int) -> None:
    """Versions of earlier runs, with a recorded verdict and stored rollouts."""
    tasks = bench.lab.domain.tasks("search")
    for at in range(count):
        solved = round((share + at / 100) * TASKS)
        rows = [rollout(task, solved=n < solved) for n, task in enumerate(tasks)]
        shard = bench.lab.store.write(f"{kind}-{at}", rows)
        shards = {"0": {"name": shard.name, "sha256": shard.sha256}}
        arm = {"name": kind, "planned": TASKS, "reward_hash": "", "shards": shards}
        row = {"kind": kind, "arms": [arm, arm], "evidence": {}, "candidate": f"{kind}{at}"}
        bench.run.ledger.once(f"old/{kind}{at}", "verdict", {}, lambda row=row: row)


def test_without_enough_past_versions_it_is_inconclusive(bench: Bench) -> None:
    verdict = judge(bench).verdict
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_one_that_tells_good_from_bad_is_admitted(bench: Bench) -> None:
    past(bench, "PROMOTE", 0.7, 6)
    past(bench, "REJECT", 0.2, 6)
    verdict = judge(bench).verdict
    assert verdict.kind is VerdictKind.PROMOTE
    assert len(verdict.evidence["inputs"]["heldout_bad"]) == 2


def test_one_that_does_not_is_rejected(bench: Bench) -> None:
    past(bench, "PROMOTE", 0.4, 6)
    past(bench, "INVALID", 0.4, 6)
    assert judge(bench).verdict.kind is VerdictKind.REJECT


@pytest.mark.parametrize("thresholds", ["{}", '{"share": 3}', HUGE])
def test_a_number_without_a_limit_cannot_be_judged(bench: Bench, thresholds: str) -> None:
    verdict = judge(bench, thresholds).verdict
    assert verdict.kind is VerdictKind.INVALID
    code = "broke_protocol" if thresholds == HUGE else "no_threshold"  # no such number is taken
    assert code in verdict.reasons[0]


def test_every_number_that_was_read_before_makes_the_next_one_dearer(bench: Bench) -> None:
    """The best of many meaningless numbers looks like one that means something."""
    past(bench, "PROMOTE", 0.7, 6)
    past(bench, "REJECT", 0.2, 6)
    for at in range(4):
        told = {"verdict": {"evidence": {"numbers": {"past": at}}}}
        bench.run.ledger.once(f"old/{at}", "discrimination", {}, lambda told=told: told)
    nothing = {"verdict": {"evidence": {"numbers": {}}}}
    bench.run.ledger.once("old/none", "discrimination", {}, lambda: nothing)
    verdict = judge(bench).verdict
    assert verdict.evidence["inputs"]["alpha"] == 0.05 / 5
    assert verdict.kind is VerdictKind.REJECT
