"""A person's decisions: durable, asked once, parked until they are made."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from meta_agent.composition.draining import exit_reason
from meta_agent.core.display import Reply
from meta_agent.core.errors import Aborted, ConfigError, Parked
from meta_agent.core.loop.verbs._briefing import tried
from meta_agent.core.loop.verbs.approve import answer, feedback, to_merge, to_test
from meta_agent.core.protocols import Candidate, Verdict, VerdictKind
from meta_agent.reports import reduce
from tests.steps._bench import Bench

APPROVE, ABORT = Reply("APPROVE"), Reply("ABORT", "enough")
REVISE = Reply("REVISE", "keep the old prompt")

T = TypeVar("T")


def decided(bench: Bench, ask: Callable[[], T], *replies: Reply) -> T:
    """What `ask` returns at last: each reply goes to the first question that parks the run."""
    for reply in replies:
        with pytest.raises(Parked) as parked:
            ask()
        answer(bench.run.ledger, "r", parked.value.subjects[:1], reply)
    return ask()


def subjects(bench: Bench) -> list[str]:
    return [view.subject for view in reduce(bench.run.ledger).decisions]


def gates(bench: Bench, approve: str) -> None:
    bench.run.config = bench.run.config.model_copy(update={"approve": approve})


def two(bench: Bench) -> list[Candidate]:
    return bench.candidates(
        bench.collected(),
        ("reward", {"swe/reward.py": bench.text("swe/reward.py") + "\n# one\n"}),
        ("data", {"swe/curriculum.py": bench.text("swe/curriculum.py") + "\n# two\n"}),
    )


def test_auto_asks_nobody(bench: Bench) -> None:
    candidates = two(bench)
    assert to_test(bench.run, bench.collected(), bench.reading, candidates) == candidates
    assert to_merge(bench.run, candidates[0], Verdict(VerdictKind.PROMOTE, ("better",)))
    assert not subjects(bench)


def test_merge_asks_before_a_merge_and_not_before_a_test(bench: Bench) -> None:
    gates(bench, "merge")
    candidates = two(bench)
    assert to_test(bench.run, bench.collected(), bench.reading, candidates) == candidates
    assert not subjects(bench)
    won = Verdict(VerdictKind.PROMOTE, ("better by far",))
    assert decided(bench, lambda: to_merge(bench.run, candidates[0], won), APPROVE)
    (decision,) = reduce(bench.run.ledger).decisions
    assert decision.verdict and decision.verdict["reasons"] == ["better by far"]


def test_each_asks_before_every_test_and_an_answer_is_asked_for_once(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)

    def test() -> list[Candidate]:
        return to_test(bench.run, bench.collected(), bench.reading, candidates)

    kept = decided(bench, test, APPROVE, REVISE)
    assert [one.id for one in kept] == ["r/g0/c0"]
    assert subjects(bench) == ["g0/c0", "g0/c1"]
    assert test() == kept


def test_the_rules_agent_cannot_revise_so_its_candidate_is_declined_with_the_words(
    bench: Bench,
) -> None:
    gates(bench, "each")
    candidates = two(bench)
    decided(
        bench,
        lambda: to_test(bench.run, bench.collected(), bench.reading, candidates),
        *(APPROVE, REVISE),
    )
    state = reduce(bench.run.ledger)
    declined = state.candidate("g0/c1")
    assert declined.kind == "REJECT" and declined.verdict is not None
    assert declined.verdict["evidence"]["judge"] == "person"
    assert "keep the old prompt" in declined.reasons[0]
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
    assert "it came back as g0/c0r1" in reason


def test_without_a_person_the_run_parks_with_all_that_it_waits_for(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)
    with pytest.raises(Parked) as parked:
        to_test(bench.run, bench.collected(), bench.reading, candidates)
    assert parked.value.exit_code == 6
    assert parked.value.subjects == ("g0/c0", "g0/c1")
    assert "meta-agent approve g0/c0 g0/c1" in str(parked.value.hint)
    waiting = reduce(bench.run.ledger).waiting
    assert [one.subject for one in waiting] == ["g0/c0", "g0/c1"]


def test_a_parked_run_goes_on_with_the_answers_of_another_process(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)
    for _ in range(2):  # parked twice: the question stays one
        with pytest.raises(Parked):
            to_test(bench.run, bench.collected(), bench.reading, candidates)
    (made,) = answer(bench.run.ledger, "r", ["g0/c0"], APPROVE)
    assert (made.answer, made.by) == ("APPROVE", "a person")
    answer(bench.run.ledger, "r", ["r/g0/c1"], REVISE)
    kept = to_test(bench.run, bench.collected(), bench.reading, candidates)
    assert [one.id for one in kept] == ["r/g0/c0"]


@pytest.mark.parametrize(
    ("subjects", "says", "hint"),
    [
        (["g0/c7"], "no question about 'g0/c7'", "open questions: g0/c1"),
        (["g0/c0"], "is decided already (a person: APPROVE (test))", "cannot be changed"),
        (["g0/c1", "g0/c0"], "is decided already", "cannot be changed"),
    ],
)
def test_an_answer_to_what_is_not_asked_changes_nothing(
    bench: Bench, subjects: list[str], says: str, hint: str
) -> None:
    gates(bench, "each")
    candidates = two(bench)
    with pytest.raises(Parked):
        to_test(bench.run, bench.collected(), bench.reading, candidates)
    answer(bench.run.ledger, "r", ["g0/c0"], APPROVE)
    with pytest.raises(ConfigError) as refused:
        answer(bench.run.ledger, "r", subjects, ABORT)
    assert says in str(refused.value)
    assert hint in str(refused.value.hint)
    assert [one.subject for one in reduce(bench.run.ledger).waiting] == ["g0/c1"]


def test_an_abort_ends_the_run_and_stays(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)
    with pytest.raises(Parked):
        to_test(bench.run, bench.collected(), bench.reading, candidates)
    answer(bench.run.ledger, "r", ["g0/c0"], ABORT)
    for _ in range(2):
        with pytest.raises(Aborted, match="ended this run at g0/c0: enough") as ended:
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


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Parked("waits", subjects=("g0/c0",)), "parked"), (Aborted("ended"), "aborted")],
)
def test_why_a_run_stopped_is_recorded_by_its_own_word(error: Exception, reason: str) -> None:
    assert exit_reason(error) == reason
