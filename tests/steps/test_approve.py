"""A person's decisions: durable, asked once, parked until they are made."""

from dataclasses import replace

import pytest

from meta_agent.core.display import PersonReply
from meta_agent.core.errors import Aborted, ConfigError, Parked
from meta_agent.core.loop.verbs._briefing import tried
from meta_agent.core.loop.verbs.approve import (
    answer,
    feedback,
    to_merge,
    to_propose,
    to_test,
    to_train,
)
from meta_agent.core.protocols import Candidate, Verdict, VerdictKind
from meta_agent.reports import reduce
from tests.steps._approval import decided, gates
from tests.steps._bench import Bench

APPROVE, ABORT = PersonReply("APPROVE"), PersonReply("ABORT", "enough")
REVISE = PersonReply("REVISE", "keep the old prompt")


def subjects(bench: Bench) -> list[str]:
    return [view.subject for view in reduce(bench.run.ledger).decisions]


def two(bench: Bench) -> list[Candidate]:
    return bench.candidates(
        bench.collected(),
        ("reward", {"swe/reward.py": bench.text("swe/reward.py") + "\n# one\n"}),
        ("data", {"swe/curriculum.py": bench.text("swe/curriculum.py") + "\n# two\n"}),
    )


def test_auto_asks_nobody_and_merge_asks_before_a_merge_alone(bench: Bench) -> None:
    candidates = two(bench)
    won = Verdict(VerdictKind.PROMOTE, ("better by far",))
    assert to_merge(bench.run, candidates[0], won)
    for gate in ("auto", "merge"):
        gates(bench, gate)
        assert to_test(bench.run, bench.collected(), bench.reading, candidates) == candidates
        assert not subjects(bench)
    assert decided(bench, lambda: to_merge(bench.run, candidates[0], won), APPROVE)
    (decision,) = reduce(bench.run.ledger).decisions
    assert decision.verdict and decision.verdict["reasons"] == ["better by far"]


def test_each_asks_before_every_test_once_and_declines_with_the_persons_words(bench: Bench) -> None:
    """The rules agent cannot revise, so its candidate is declined."""
    gates(bench, "each")
    candidates = two(bench)

    def test() -> list[Candidate]:
        return to_test(bench.run, bench.collected(), bench.reading, candidates)

    kept = decided(bench, test, APPROVE, REVISE)
    assert [one.id for one in kept] == ["r/g0/c0"]
    assert subjects(bench) == ["g0/c0", "g0/c1"]
    assert test() == kept
    declined = reduce(bench.run.ledger).candidate("g0/c1")
    assert declined.kind == "REJECT" and declined.verdict is not None
    assert declined.verdict["evidence"]["judge"] == "person"
    assert "keep the old prompt" in (bench.repo.notes(declined.commit) or "")
    assert [(one.subject, one.text) for one in feedback(bench.run)] == [
        ("g0/c1", "keep the old prompt")
    ]
    assert [one.verdict for one in tried(bench.run, bench.repo.head())] == [VerdictKind.REJECT]
    assert not bench.run.skills.all()  # nothing was measured: there is nothing to teach


def test_an_author_who_can_revise_is_given_the_words_and_its_new_commit_is_asked_about(
    bench: Bench,
) -> None:
    gates(bench, "each")
    candidate, _ = two(bench)
    told = set()

    def revise(one: Candidate, words: str) -> Candidate:
        told.add((one.id, words))
        return replace(one, id=f"{one.id}r1")

    kept = decided(
        bench,
        lambda: to_test(bench.run, bench.collected(), bench.reading, [candidate], revise),
        *(REVISE, APPROVE),
    )
    assert told == {("r/g0/c0", "keep the old prompt")}
    assert [one.id for one in kept] == ["r/g0/c0r1"]
    assert subjects(bench) == ["g0/c0", "g0/c0r1"]
    (reason,) = reduce(bench.run.ledger).candidate("g0/c0").reasons
    assert "g0/c0r1" in reason


def test_a_run_parks_without_a_person_and_goes_on_with_the_answers_of_another_process(
    bench: Bench,
) -> None:
    gates(bench, "each")
    candidates = two(bench)
    for _ in range(2):  # parked twice: each question stays one
        with pytest.raises(Parked) as parked:
            to_test(bench.run, bench.collected(), bench.reading, candidates)
        assert (parked.value.exit_code, parked.value.subjects) == (6, ("g0/c0", "g0/c1"))
    assert "meta-agent approve g0/c0 g0/c1" in str(parked.value.hint)
    assert [one.subject for one in reduce(bench.run.ledger).waiting] == ["g0/c0", "g0/c1"]
    (made,) = answer(bench.run.ledger, "r", ["g0/c0"], APPROVE)
    assert (made.answer, made.by) == ("APPROVE", "a person")
    answer(bench.run.ledger, "r", ["r/g0/c1"], REVISE)
    kept = to_test(bench.run, bench.collected(), bench.reading, candidates)
    assert [one.id for one in kept] == ["r/g0/c0"]


def test_an_answer_to_what_is_not_asked_changes_nothing(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)
    with pytest.raises(Parked):
        to_test(bench.run, bench.collected(), bench.reading, candidates)
    answer(bench.run.ledger, "r", ["g0/c0"], APPROVE)
    for subjects in (["g0/c7"], ["g0/c0"], ["g0/c1", "g0/c0"]):
        with pytest.raises(ConfigError, match=subjects[-1]):
            answer(bench.run.ledger, "r", subjects, ABORT)
    assert [one.subject for one in reduce(bench.run.ledger).waiting] == ["g0/c1"]


def test_an_abort_ends_the_run_and_stays(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)
    with pytest.raises(Parked):
        to_test(bench.run, bench.collected(), bench.reading, candidates)
    answer(bench.run.ledger, "r", ["g0/c0"], ABORT)
    for _ in range(2):
        with pytest.raises(Aborted, match="g0/c0: enough") as ended:
            to_test(bench.run, bench.collected(), bench.reading, candidates)
        assert ended.value.exit_code == 7


def test_a_declined_merge_keeps_the_verdict_of_the_numbers(bench: Bench) -> None:
    gates(bench, "merge")
    candidate, _ = two(bench)
    won = Verdict(VerdictKind.PROMOTE, ("better",))
    assert not decided(bench, lambda: to_merge(bench.run, candidate, won), REVISE)
    seen = reduce(bench.run.ledger).candidate("g0/c0")
    assert seen.declined == "keep the old prompt"
    assert [one.gate for one in feedback(bench.run)] == ["merge"]
    told = {"candidate": candidate.id, "kind": "PROMOTE", "base_invalid": False}
    told |= {"evidence": {}, "screened_out": False}
    bench.run.once(f"{candidate.id}/verdict", "verdict", {}, lambda: told)
    assert [one.verdict for one in tried(bench.run, bench.repo.head())] == [VerdictKind.REJECT]


def test_all_asks_after_the_diagnosis_and_after_each_replay(bench: Bench) -> None:
    for gate in ("merge", "each"):
        gates(bench, gate)
        to_propose(bench.run, 0)
        assert not subjects(bench)
    gates(bench, "all")
    decided(bench, lambda: to_propose(bench.run, 0), PersonReply("REVISE", "it is the reward"))
    assert ("g0", "it is the reward") in [(one.subject, one.text) for one in feedback(bench.run)]
    candidates = two(bench)
    replay = {"numbers": {"reading": "harms"}, "findings": []}
    bench.run.ledger.once("r/g0/c0/replay", "screen", {}, lambda: replay)

    def train() -> list[Candidate]:
        return to_train(bench.run, bench.collected(), bench.reading, candidates)

    kept = decided(bench, train, REVISE)
    assert [one.id for one in kept] == ["r/g0/c1"], "what has no replay is not asked about"
    declined = reduce(bench.run.ledger).candidate("g0/c0")
    assert declined.verdict and "after its backtest" in declined.verdict["reasons"][0]
