"""A diagnostic is judged by the attempts that it tells apart, never by the score."""

from __future__ import annotations

import pytest

from meta_agent.core.loop.diagnostics._attempts import ungraded
from meta_agent.core.loop.diagnostics.discriminate import discriminate, with_admitted
from meta_agent.core.loop.records import Judged
from meta_agent.core.loop.records import Tested as Checked
from meta_agent.core.protocols import Candidate, Rollout, VerdictKind
from meta_agent.core.task_splits import is_shown
from tests.steps._bench import Bench
from tests.steps._hedging import FILE, HUGE, METRIC, SOLVED, hedges_when_wrong, source, trained_on


def hedging(bench: Bench, text: str = "") -> Candidate:
    edit = {FILE: text or source()}
    (made,) = bench.candidates(bench.collected(), ("diagnostics", edit), metric=METRIC)
    return made


def judge(bench: Bench, text: str = "") -> Judged:
    candidate, trainings = hedging(bench, text), bench.lab.trainings
    judged = discriminate(bench.run, Checked(candidate, ()))
    assert bench.lab.trainings == trainings
    return judged


def test_without_tasks_of_both_kinds_it_is_inconclusive(bench: Bench) -> None:
    assert judge(bench).verdict.kind is VerdictKind.INCONCLUSIVE


def test_one_that_foretells_clean_success_is_admitted_and_stands_in_the_evidence(
    bench: Bench,
) -> None:
    trained_on(bench, hedges_when_wrong)
    verdict = judge(bench).verdict
    assert verdict.kind is VerdictKind.PROMOTE, verdict.reasons
    evidence = bench.reading.evidence
    assert with_admitted(bench.run, evidence).foretells == {}, "the harness does not have it yet"
    evidence = type(evidence)({}, {}, {}, measured={"hedging.share": 0.5})
    assert with_admitted(bench.run, evidence).foretells == {METRIC: (1.0, 1.0, 1.0)}


def test_one_that_foretells_nothing_is_rejected(bench: Bench) -> None:
    trained_on(bench, lambda _, key: "perhaps 3" if int(key[-1]) % 2 else "it is 3")
    assert judge(bench).verdict.kind is VerdictKind.REJECT


def test_what_holds_only_at_the_tasks_that_an_author_saw_is_rejected(bench: Bench) -> None:
    trained_on(bench, lambda solved, key: hedges_when_wrong(solved or not is_shown(key), key))
    assert judge(bench).verdict.kind is VerdictKind.REJECT


def test_a_diagnostic_cannot_repeat_the_grade(bench: Bench) -> None:
    """It gets no outcome, no flags, no details of the grade and no rewards."""
    trained_on(bench, lambda *_: "it is 3")
    assert judge(bench, source(SOLVED)).verdict.kind is VerdictKind.REJECT


def test_what_is_hidden_is_all_that_a_grader_or_reward_wrote() -> None:
    """A new field of a rollout has to be sorted here: does it hold a part of the grade?"""
    graded = {"outcome", "outcome_detail", "verifier_inputs", "rewards", "weights", "advantage"}
    graded |= {"flags", "judged"}
    free = {"messages", "tool_events", "tokens", "stop_reason", "error", "turns", "timings"}
    free |= {"cost", "cut_replies", "views", "run", "version", "domain", "split", "task_key"}
    free |= {"task_hash", "group_id", "sample_idx", "seed", "harness_commit", "policy"}
    free |= {"evaluator_hash"}
    assert set(Rollout.__dataclass_fields__) == graded | free
    row = Rollout(*["x"] * 12, flags=["leak"], outcome=True)  # type: ignore[arg-type]
    assert (ungraded(row).flags, ungraded(row).outcome) == ([], None)


@pytest.mark.parametrize("limits", ["{}", '{"share": 3}', HUGE])
def test_a_number_without_a_bad_side_cannot_be_judged(bench: Bench, limits: str) -> None:
    verdict = judge(bench, source(limits=limits)).verdict
    assert verdict.kind is VerdictKind.INVALID
    code = "broke_protocol" if limits == HUGE else "no_threshold"  # no such number is taken
    assert code in verdict.reasons[0]


def test_every_number_that_was_read_before_makes_the_next_one_dearer(bench: Bench) -> None:
    """The best of many meaningless numbers looks like one that means something."""
    trained_on(bench, hedges_when_wrong)
    for at in range(4):
        numbers = {"verdict": {"kind": "REJECT", "evidence": {"numbers": {"auc": at}}}}
        bench.run.ledger.once(f"old/{at}", "discrimination", {}, lambda row=numbers: row)
    nothing = {"verdict": {"kind": "INCONCLUSIVE", "evidence": {"numbers": {}}}}
    bench.run.ledger.once("old/none", "discrimination", {}, lambda: nothing)
    assert judge(bench).verdict.evidence["inputs"]["alpha"] == 0.05 / 5
