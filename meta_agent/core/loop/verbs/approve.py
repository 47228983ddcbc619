"""approve: where a person decides, if the run was started with `--approve merge` or `each`.

Each question is one durable step: asked once, answered on the terminal or by `meta-agent approve`.
Without a terminal the run parks (`Parked`, exit code 6) with everything it waits for; the same
command goes on once that is answered. An ABORT is as durable: it ends the run for good.

REVISE sends a candidate back to its author, whose revision is a candidate of its own; of an author
who cannot revise (the rules agent) none comes. A merge that is not wanted is declined: its verdict
stays what the numbers say. What people said reaches the next authors through `feedback`.

Does not cover: who the person is. The ledger says "a person".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meta_agent.core.display import A_PERSON, DecisionView, Gate, Question, Reply
from meta_agent.core.errors import Aborted, ConfigError, Interrupted, Parked
from meta_agent.core.gate import verdict_to_json
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.loop.records import Collected, Judged, Reading
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.learn import record
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind

_NO_MERGE = ("merge", "REVISE")

Revise = Callable[[Candidate, str], Candidate | None]
"""Gives a candidate back to its author with what a person said; None: it cannot be revised."""


class Asked(NamedTuple):
    """One question of a run. `intent` says all that the answer rests on."""

    name: str
    intent: dict[str, JSON]

    @property
    def subject(self) -> str:
        return str(self.intent["subject"])


class Feedback(NamedTuple):
    """What a person said about something, for the authors of the next candidates."""

    subject: str
    gate: str
    text: str


# --- the two questions ---------------------------------------------------------------------------


def to_test(
    run: Run,
    collected: Collected,
    reading: Reading,
    candidates: Sequence[Candidate],
    revise: Revise = lambda _candidate, _feedback: None,
) -> list[Candidate]:
    """The candidates on which money may be spent; a revised one is asked about like a new one."""
    if run.config.approve != "each":
        return list(candidates)
    kept, pending = list[Candidate](), list(candidates)
    while pending:
        replies = _decide(run, [_about(run, "test", one) for one in pending])
        sent_back = []
        for candidate, reply in zip(pending, replies, strict=True):
            if reply.answer == "APPROVE":
                kept.append(candidate)
                continue
            revised = revise(candidate, reply.feedback)
            _decline(run, collected, reading, candidate, reply, revised)
            sent_back += [revised] if revised else []
        pending = sent_back
    return kept


def to_merge(run: Run, candidate: Candidate, verdict: Verdict) -> bool:
    """Whether a promoted candidate is merged."""
    if run.config.approve == "auto":
        return True
    asked = _about(run, "merge", candidate, verdict=verdict_to_json(verdict))
    (reply,) = _decide(run, [asked])
    if reply.answer == "APPROVE":
        return True
    run.note(f"{candidate.id} was promoted by the gate and not merged: {reply.feedback}")
    return False


def feedback(run: Run) -> list[Feedback]:
    """Everything that people said in this run, oldest first: it belongs before every author."""
    steps = run.ledger.steps(run.id, kind="decision")
    decisions = [DecisionView.parse(step) for step in steps if step.is_done]
    return [Feedback(one.subject, one.gate, one.feedback) for one in decisions if one.feedback]


def declined(ledger: Ledger) -> frozenset[str]:
    """Candidates of any run whose merge a person did not want: not to be proposed as they were."""
    made = [DecisionView.parse(step) for step in ledger.steps(kind="decision") if step.is_done]
    return frozenset(
        one.candidate for one in made if one.candidate and (one.gate, one.answer) == _NO_MERGE
    )


# --- one decision --------------------------------------------------------------------------------


def _about(run: Run, gate: Gate, candidate: Candidate, **more: JSON) -> Asked:
    short = candidate.id.removeprefix(f"{run.id}/")
    intent = {"gate": gate, "subject": short, "candidate": candidate.id}
    return Asked(f"{short}/approve/{gate}", {**intent, "commit": candidate.commit, **more})


def _decide(run: Run, questions: Sequence[Asked]) -> list[Reply]:
    """All answers, in order. Parks with every question that nobody could be asked."""
    replies, waiting = [], []
    for asked in questions:
        try:
            replies.append(_answer(run, asked))
        except Parked:
            waiting.append(asked.subject)
    if waiting:
        raise _parked(run, waiting)
    return replies


def _answer(run: Run, asked: Asked) -> Reply:
    outcome = run.once(asked.name, "decision", asked.intent, lambda: _ask(run, asked))
    reply = Reply(outcome["answer"], outcome["feedback"])
    if reply.answer == "ABORT":
        why = f": {reply.feedback}" if reply.feedback else ""
        raise Aborted(
            f"a person ended this run at {asked.subject}{why}",
            hint="meta-agent report shows what it found; another --seed or --workspace starts anew",
        )
    return reply


def _ask(run: Run, asked: Asked) -> JSON:
    run.phase("approve", f"a person is asked about {asked.subject}")
    step = run.ledger.step(f"{run.id}/{asked.name}")
    assert step is not None, "the ledger records the intent of a step before its work"
    reply = run.display.ask(Question(run.ledger, run.id, DecisionView.parse(step)), run.stopping)
    if run.stopping():
        raise Interrupted
    if reply is None:
        raise _parked(run, [asked.subject])
    return _outcome(reply)


def _outcome(reply: Reply) -> JSON:
    return {"answer": reply.answer, "feedback": reply.feedback, "by": A_PERSON}


def _parked(run: Run, subjects: Sequence[str]) -> Parked:
    return Parked(
        f"the run waits for a person to decide about {', '.join(subjects)}",
        subjects=tuple(subjects),
        hint=f"meta-agent approve {' '.join(subjects)} --workspace {run.config.workspace} "
        "(without a name: what is asked), then the same evolve command again",
    )


def _decline(
    run: Run,
    collected: Collected,
    reading: Reading,
    candidate: Candidate,
    reply: Reply,
    revised: Candidate | None,
) -> None:
    """The last word on a candidate that was sent back: nothing of it was measured."""
    if revised:
        became = f"it came back as {revised.id.removeprefix(f'{run.id}/')}"
    else:
        became = f"no revision came of it ({run.config.meta_model})"
    run.note(f"{candidate.id} was sent back: {became}")
    reason = f"a person sent it back before any test: {reply.feedback} ({became})"
    verdict = Verdict(VerdictKind.REJECT, (reason,), evidence={"judge": "person"})
    record(run, collected, candidate, Judged(verdict), reading)


# --- answers from another process ----------------------------------------------------------------


def answer(ledger: Ledger, run: str, subjects: Sequence[str], reply: Reply) -> list[DecisionView]:
    """Records one answer to several open questions; checks all of them before it records any.

    The ledger has to be owned: a run that is at work asks its own terminal.
    """
    steps = [_open_step(ledger, run, subject) for subject in subjects]
    for step in steps:
        ledger.once(step.key, "decision", step.intent, lambda: _outcome(reply))
    keys = [step.key for step in steps]
    return [DecisionView.parse(done) for key in keys if (done := ledger.step(key))]


def _open_step(ledger: Ledger, run: str, subject: str) -> Step:
    name = subject.removeprefix(f"{run}/")
    steps = [s for s in ledger.steps(run, kind="decision") if s.intent.get("subject") == name]
    waiting = [step for step in steps if not step.is_done]
    if waiting:
        return waiting[-1]
    if steps:
        said = DecisionView.parse(steps[-1]).answer_sentence
        raise ConfigError(f"{name} is decided already ({said})", hint="a decision is asked once")
    every = [DecisionView.parse(step) for step in ledger.steps(run, kind="decision")]
    known = ", ".join(one.subject for one in every if one.waits) or "nothing"
    raise ConfigError(f"nobody is asked about {subject!r} in run {run}", hint=f"waiting: {known}")
