"""A person's decisions: durable, asked once, parked without a terminal."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_agent.composition.draining import exit_reason
from meta_agent.core.display import Question, Reply
from meta_agent.core.errors import Aborted, ConfigError, Interrupted, Parked
from meta_agent.core.loop.verbs._briefing import tried
from meta_agent.core.loop.verbs.approve import answer, feedback, to_merge, to_test
from meta_agent.core.protocols import Candidate, Verdict, VerdictKind
from meta_agent.reports import reduce
from tests.steps._bench import Bench

APPROVE, ABORT = Reply("APPROVE"), Reply("ABORT", "enough")
REVISE = Reply("REVISE", "keep the old prompt")


class Person:
    """Sits at the display and gives these answers, one after the other."""

    def __init__(self, bench: Bench, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Question] = []
        bench.run.display = self  # type: ignore[assignment]

    def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
        self.asked.append(question)
        return self.replies.pop(0) if self.replies else None

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def gates(bench: Bench, approve: str) -> None:
    bench.run.config = bench.run.config.model_copy(update={"approve": approve})


def two(bench: Bench) -> list[Candidate]:
    return bench.candidates(
        bench.collected(),
        ("reward", {"swe/reward.py": bench.text("swe/reward.py") + "\n# one\n"}),
        ("data", {"swe/curriculum.py": bench.text("swe/curriculum.py") + "\n# two\n"}),
    )


def test_auto_asks_nobody(bench: Bench) -> None:
    candidates, person = two(bench), Person(bench)
    assert to_test(bench.run, bench.collected(), bench.reading, candidates) == candidates
    assert to_merge(bench.run, candidates[0], Verdict(VerdictKind.PROMOTE, ("better",)))
    assert not person.asked


def test_merge_asks_before_a_merge_and_not_before_a_test(bench: Bench) -> None:
    gates(bench, "merge")
    candidates, person = two(bench), Person(bench, APPROVE)
    assert to_test(bench.run, bench.collected(), bench.reading, candidates) == candidates
    assert not person.asked
    won = Verdict(VerdictKind.PROMOTE, ("better by far",))
    assert to_merge(bench.run, candidates[0], won)
    (question,) = person.asked
    assert question.decision.verdict and question.decision.verdict["reasons"] == ["better by far"]


def test_each_asks_before_every_test_and_an_answer_is_asked_for_once(bench: Bench) -> None:
    gates(bench, "each")
    candidates, person = two(bench), Person(bench, APPROVE, REVISE)
    kept = to_test(bench.run, bench.collected(), bench.reading, candidates)
    assert [one.id for one in kept] == ["r/g0/c0"]
    assert [one.decision.subject for one in person.asked] == ["g0/c0", "g0/c1"]
    again = Person(bench)
    assert to_test(bench.run, bench.collected(), bench.reading, candidates) == kept
    assert not again.asked


def test_the_rules_agent_cannot_revise_so_its_candidate_is_declined_with_the_words(
    bench: Bench,
) -> None:
    gates(bench, "each")
    candidates = two(bench)
    Person(bench, APPROVE, REVISE)
    to_test(bench.run, bench.collected(), bench.reading, candidates)
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
    person = Person(bench, REVISE, APPROVE)
    told = []

    def revise(one: Candidate, words: str) -> Candidate:
        told.append((one.id, words))
        return replace(one, id=f"{one.id}r1")

    kept = to_test(bench.run, bench.collected(), bench.reading, [candidate], revise)
    assert told == [("r/g0/c0", "keep the old prompt")]
    assert [one.id for one in kept] == ["r/g0/c0r1"]
    assert [one.decision.subject for one in person.asked] == ["g0/c0", "g0/c0r1"]
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
    person = Person(bench, ABORT)
    for _ in range(2):
        with pytest.raises(Aborted, match="ended this run at g0/c0: enough") as ended:
            to_test(bench.run, bench.collected(), bench.reading, candidates)
        assert ended.value.exit_code == 7
    assert len(person.asked) == 1


def test_a_declined_merge_keeps_the_verdict_of_the_numbers(bench: Bench) -> None:
    gates(bench, "merge")
    candidate, _ = two(bench)
    Person(bench, REVISE)
    assert not to_merge(bench.run, candidate, Verdict(VerdictKind.PROMOTE, ("better",)))
    seen = reduce(bench.run.ledger).candidate("g0/c0")
    assert seen.declined == "keep the old prompt"
    assert [one.gate for one in feedback(bench.run)] == ["merge"]
    told = {"candidate": candidate.id, "kind": "PROMOTE", "base_invalid": False}
    told |= {"evidence": {}, "screened_out": False}
    bench.run.once(f"{candidate.id}/verdict", "verdict", {}, lambda: told)
    assert [one.verdict for one in tried(bench.run, bench.repo.head())] == [VerdictKind.REJECT]


def test_a_drain_while_the_person_thinks_is_an_interruption_not_an_answer(bench: Bench) -> None:
    gates(bench, "each")
    candidates = two(bench)

    class Leaves(Person):
        def ask(self, question: Question, stopping: Callable[[], bool]) -> Reply | None:
            bench.stop = True
            return None

    Leaves(bench)
    with pytest.raises(Interrupted):
        to_test(bench.run, bench.collected(), bench.reading, candidates[:1])
    bench.stop = False
    assert reduce(bench.run.ledger).waiting


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Parked("waits", subjects=("g0/c0",)), "parked"), (Aborted("ended"), "aborted")],
)
def test_why_a_run_stopped_is_recorded_by_its_own_word(error: Exception, reason: str) -> None:
    assert exit_reason(error) == reason
