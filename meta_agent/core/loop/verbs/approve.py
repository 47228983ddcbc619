"""Asks a person to decide, if the run was started with another `--approve` than `auto`.

`merge` asks before `main` moves, and whether a search that found nothing goes on. `each` also asks
before a candidate is tested. `all` also asks after the diagnosis (the evidence of a generation) and
after the backtest (the replay of an edit of reward or filter).

Each question is one step of the ledger. The run stops (`Parked`, exit code 6) and lists all open
questions. Once `meta-agent approve` has answered them, the same command goes on. ABORT ends the run
for good.

REVISE sends a candidate back to its author. The revision is a new candidate; the rules agent cannot
revise. A declined merge does not change the verdict. Feedback reaches the next authors.

Not covered: who the person is. The ledger says "a person".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meta_agent.core.display import A_PERSON, DecisionView, Gate, PersonReply
from meta_agent.core.errors import Aborted, ConfigError, Parked
from meta_agent.core.gate import verdict_to_json
from meta_agent.core.ledger import Ledger, Step
from meta_agent.core.loop.records import Collected, Judged, Reading
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.learn import record
from meta_agent.core.protocols import JSON, Candidate, Verdict, VerdictKind

_NO_MERGE = ("merge", "REVISE")

Revise = Callable[[Candidate, str], Candidate | None]
"""Sends a candidate with a person's feedback to its author. Returns the revision or None."""


class Decision(NamedTuple):
    """A question to a person: its name in the ledger, and all facts to decide on (`intent`)."""

    name: str
    intent: dict[str, JSON]

    @property
    def subject(self) -> str:
        return str(self.intent["subject"])


class Feedback(NamedTuple):
    """A person's remark about a candidate, for the authors of the next candidates."""

    subject: str
    gate: str
    text: str


# --- the questions -------------------------------------------------------------------------------


def to_propose(run: Run, generation: int) -> None:
    """Asks, with `--approve all`, whether the evidence of a generation is read rightly.

    Whatever a person remarks reaches the authors of ideas. Raises Parked or Aborted.
    """
    if run.config.approve == "all":
        _decide(run, [_about_generation("diagnosis", generation)])


def to_go_on(run: Run, generation: int, failed: Sequence[str]) -> bool:
    """Returns True if a person lets a search go on in which nothing was better.

    `failed` names the earlier edits of its version. Without a person the search ends.
    """
    if run.config.approve == "auto":
        return False
    (reply,) = _decide(run, [_about_generation("stuck", generation, failed=list(failed))])
    return reply.answer == "APPROVE"


def to_train(
    run: Run, collected: Collected, reading: Reading, ideas: Sequence[Candidate]
) -> list[Candidate]:
    """Returns the ideas that may be trained. With `--approve all` a person sees each replay first.

    Raises Parked until all are answered, and Aborted if a person ends the run.
    """
    if run.config.approve != "all":
        return list(ideas)
    steps = {idea.id: run.ledger.step(f"{idea.id}/replay") for idea in ideas}
    replays = {name: step.fields.get("numbers") for name, step in steps.items() if step}
    replayed = [idea for idea in ideas if replays.get(idea.id)]
    questions = [_about(run, "backtest", idea, replay=replays[idea.id]) for idea in replayed]
    dropped = set[str]()
    for idea, reply in zip(replayed, _decide(run, questions), strict=True):
        if reply.answer != "APPROVE":
            dropped.add(idea.id)
            _reject(
                run, collected, reading, idea, f"dropped it after its backtest: {reply.feedback}"
            )
    return [idea for idea in ideas if idea.id not in dropped]


def to_test(
    run: Run,
    collected: Collected,
    reading: Reading,
    candidates: Sequence[Candidate],
    revise: Revise = lambda _candidate, _feedback: None,
) -> list[Candidate]:
    """Returns the candidates that may be tested: all, or those that a person has approved.

    With `--approve each` a person decides about each. For one sent back, `revise` returns a new one
    or None. Raises Parked until all are answered, and Aborted if a person ends the run.
    """
    if run.config.approve not in ("each", "all"):
        return list(candidates)
    approved, pending = list[Candidate](), list(candidates)
    while pending:
        replies = _decide(run, [_about(run, "test", candidate) for candidate in pending])
        sent_back = []
        for candidate, reply in zip(pending, replies, strict=True):
            if reply.answer == "APPROVE":
                approved.append(candidate)
                continue
            revised = revise(candidate, reply.feedback)
            _decline(run, collected, reading, candidate, reply, revised)
            sent_back += [revised] if revised else []
        pending = sent_back
    return approved


def to_merge(run: Run, candidate: Candidate, verdict: Verdict) -> bool:
    """Returns True if a candidate may be merged. Asks a person unless `--approve auto`.

    Raises Parked until it is answered, and Aborted if the person ends the run.
    """
    if run.config.approve == "auto":
        return True
    question = _about(run, "merge", candidate, verdict=verdict_to_json(verdict))
    (reply,) = _decide(run, [question])
    if reply.answer == "APPROVE":
        return True
    run.note(f"{candidate.id} was promoted by the gate and not merged: {reply.feedback}")
    return False


def feedback(run: Run) -> list[Feedback]:
    """Returns all remarks of people in this run, oldest first. Every author reads them."""
    steps = run.ledger.steps(run.id, kind="decision")
    decisions = [DecisionView.parse(step) for step in steps if step.is_done]
    return [
        Feedback(decision.subject, decision.gate, decision.feedback)
        for decision in decisions
        if decision.feedback
    ]


def declined(ledger: Ledger) -> frozenset[str]:
    """Returns the ids of the candidates, of all runs, whose merge a person declined."""
    decisions = [DecisionView.parse(step) for step in ledger.steps(kind="decision") if step.is_done]
    return frozenset(
        decision.candidate
        for decision in decisions
        if decision.candidate and (decision.gate, decision.answer) == _NO_MERGE
    )


# --- one decision --------------------------------------------------------------------------------


def _about_generation(gate: Gate, generation: int, **more: JSON) -> Decision:
    intent = {"gate": gate, "subject": f"g{generation}", **more}
    return Decision(f"g{generation}/approve/{gate}", intent)


def _about(run: Run, gate: Gate, candidate: Candidate, **more: JSON) -> Decision:
    short = candidate.id.removeprefix(f"{run.id}/")
    intent = {"gate": gate, "subject": short, "candidate": candidate.id}
    return Decision(f"{short}/approve/{gate}", {**intent, "commit": candidate.commit, **more})


def _decide(run: Run, questions: Sequence[Decision]) -> list[PersonReply]:
    """Returns all answers in order. Raises Parked with the questions that nobody has answered."""
    replies, waiting = [], []
    for question in questions:
        try:
            replies.append(_answer(run, question))
        except Parked:
            waiting.append(question.subject)
    if waiting:
        raise _parked(run, waiting)
    return replies


def _answer(run: Run, question: Decision) -> PersonReply:
    outcome = run.once(question.name, "decision", question.intent, lambda: _park(run, question))
    reply = PersonReply(outcome["answer"], outcome["feedback"])
    if reply.answer == "ABORT":
        why = f": {reply.feedback}" if reply.feedback else ""
        raise Aborted(
            f"a person ended this run at {question.subject}{why}",
            hint="meta-agent report shows its results; another --seed or --workspace starts anew",
        )
    return reply


def _park(run: Run, question: Decision) -> JSON:
    """Shows the question and raises Parked."""
    run.phase("approve", f"a person is asked about {question.subject}")
    step = run.ledger.step(f"{run.id}/{question.name}")
    assert step is not None, "the ledger records the intent of a step before its work"
    run.display.waits(DecisionView.parse(step).asks)
    raise _parked(run, [question.subject])


def _outcome(reply: PersonReply) -> JSON:
    return {"answer": reply.answer, "feedback": reply.feedback, "by": A_PERSON}


def _parked(run: Run, subjects: Sequence[str]) -> Parked:
    return Parked(
        f"the run waits for a person to decide about {', '.join(subjects)}",
        subjects=tuple(subjects),
        hint=f"meta-agent approve {' '.join(subjects)} --workspace {run.config.workspace} "
        "(without a name it lists the questions), then run the same evolve command again",
    )


def _decline(
    run: Run,
    collected: Collected,
    reading: Reading,
    candidate: Candidate,
    reply: PersonReply,
    revised: Candidate | None,
) -> None:
    """Records the rejection of a candidate that was sent back before any measurement."""
    if revised:
        became = f"it came back as {revised.id.removeprefix(f'{run.id}/')}"
    else:
        became = f"no revision came of it ({run.config.meta_model})"
    run.note(f"{candidate.id} was sent back: {became}")
    reason = f"sent it back before any test: {reply.feedback} ({became})"
    _reject(run, collected, reading, candidate, reason)


def _reject(
    run: Run, collected: Collected, reading: Reading, candidate: Candidate, reason: str
) -> None:
    verdict = Verdict(VerdictKind.REJECT, (f"a person {reason}",), evidence={"judge": "person"})
    record(run, collected, candidate, Judged(verdict), reading)


# --- answers from another process ----------------------------------------------------------------


def answer(
    ledger: Ledger, run: str, subjects: Sequence[str], reply: PersonReply
) -> list[DecisionView]:
    """Records one reply to several open questions of a run; returns the decisions.

    Raises ConfigError if one of the questions is not open. The ledger has to be open for writing.
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
        decided = DecisionView.parse(steps[-1]).answer_sentence
        raise ConfigError(
            f"{name} is decided already ({decided})",
            hint="a decision cannot be changed; see the open ones: meta-agent approve",
        )
    decisions = [DecisionView.parse(step) for step in ledger.steps(run, kind="decision")]
    subjects = ", ".join(decision.subject for decision in decisions if decision.waits) or "nothing"
    raise ConfigError(
        f"no question about {subject!r} is open in run {run}", hint=f"open questions: {subjects}"
    )
